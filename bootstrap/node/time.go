// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import "strings"

// timeServers is how an operating system gets its time servers.
type timeServers struct {
	files []File
	// services are the units that read the files; the first that the host has is started.
	services []string
}

// timesyncd configures systemd-timesyncd.
func timesyncd(servers []string) timeServers {
	return timeServers{
		files: []File{{
			Path:    "/etc/systemd/timesyncd.conf.d/50-drover.conf",
			Mode:    0o644,
			Content: []byte("[Time]\nNTP=" + strings.Join(servers, " ") + "\n"),
		}},
		services: []string{"systemd-timesyncd.service"},
	}
}

// chronyOrTimesyncd configures both services that an image of Ubuntu may have: those for AWS, Google Cloud and Azure, and
// all since 25.10, have chrony in place of systemd-timesyncd, whose unit is masked or absent there.
func chronyOrTimesyncd(servers []string) timeServers {
	t := timesyncd(servers)
	t.files = append(t.files, File{Path: "/etc/chrony/sources.d/50-drover.sources", Mode: 0o644, Content: []byte(chronySources(servers))})
	t.services = append([]string{"chrony.service"}, t.services...)
	return t
}

// chronyd replaces the configuration of chrony, which has no folder for additions in RHEL.
func chronyd(servers []string) timeServers {
	content := chronySources(servers) + "driftfile /var/lib/chrony/drift\nmakestep 1.0 3\nrtcsync\nlogdir /var/log/chrony\n"
	return timeServers{
		files:    []File{{Path: "/etc/chrony.conf", Mode: 0o644, Content: []byte(content)}},
		services: []string{"chronyd.service"},
	}
}

func chronySources(servers []string) string {
	var b strings.Builder
	for _, s := range servers {
		b.WriteString("server " + s + " iburst\n")
	}
	return b.String()
}

func addTime(n *Node, os distribution, in Input) error {
	if len(in.Spec.NTP.Servers) == 0 {
		return nil
	}
	t := os.time(in.Spec.NTP.Servers)
	n.Files, n.TimeServices = append(n.Files, t.files...), t.services
	return nil
}

// writeTimeService restarts the service that reads the time servers.
func (n *Node) writeTimeService(line func(string, ...any)) {
	if len(n.TimeServices) == 0 {
		return
	}
	line("time=")
	line("for unit in %s; do", strings.Join(n.TimeServices, " "))
	line("  if systemctl cat $unit >/dev/null 2>&1; then systemctl enable --quiet $unit; systemctl restart $unit; time=$unit; break; fi")
	line("done")
	line("if [ -z \"$time\" ]; then echo 'bootstrap: spec.ntp.servers: the host has none of %s' >&2; exit 1; fi", strings.Join(n.TimeServices, ", "))
}
