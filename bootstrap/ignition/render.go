// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package ignition writes a node.Node as an Ignition 3.4 configuration, through the types and the validation of
// Ignition itself. It is pure: the same Node gives the same bytes. It has the form in which Ignition takes files, users and
// units, and nothing of what a Node needs.
package ignition

import (
	"encoding/json"
	"fmt"
	"strings"

	systemd "github.com/coreos/go-systemd/v22/unit"
	ignconfig "github.com/coreos/ignition/v2/config/v3_4"
	"github.com/coreos/ignition/v2/config/v3_4/types"

	"drover.io/bootstrap/node"
)

// bootstrapUnit runs the script once. cloud-init has a module for that; Ignition only writes files and units.
const bootstrapUnit = `[Unit]
Description=Turns this host into a Kubernetes Node
Wants=network-online.target
After=network-online.target
ConditionPathExists=!/var/lib/drover/bootstrapped

[Service]
Type=oneshot
RemainAfterExit=yes
StateDirectory=drover
ExecStart=` + node.ScriptFile + `
ExecStartPost=/usr/bin/touch /var/lib/drover/bootstrapped
StandardOutput=journal+console
StandardError=journal+console

[Install]
WantedBy=multi-user.target
`

// Render writes the Node as an Ignition configuration.
func Render(n *node.Node) ([]byte, error) {
	config := types.Config{Ignition: types.Ignition{Version: types.MaxVersion.String()}}
	for _, d := range n.Disks {
		addDisk(&config.Storage, d)
	}
	files := n.AllFiles()
	if n.Hostname != "" {
		files = append(files, node.File{Path: "/etc/hostname", Mode: 0o644, Content: []byte(n.Hostname + "\n")})
	}
	for _, u := range n.Users {
		config.Passwd.Users = append(config.Passwd.Users, user(u))
		if u.Sudo != "" {
			files = append(files, node.File{Path: "/etc/sudoers.d/" + u.Name, Mode: 0o440, Content: []byte(u.Name + " " + u.Sudo + "\n")})
		}
	}
	for _, u := range append(n.Units, node.Unit{Name: node.BootstrapUnit, Content: bootstrapUnit, Enabled: true}) {
		if u.Jinja {
			return nil, fmt.Errorf("writing Ignition configuration: it cannot fill in the expressions of %s", u.Name)
		}
		short, long := unit(u)
		config.Systemd.Units = append(config.Systemd.Units, short)
		files = append(files, long...)
	}
	for _, f := range files {
		if f.Jinja {
			return nil, fmt.Errorf("writing Ignition configuration: it cannot fill in the expressions of %s", f.Path)
		}
		config.Storage.Files = append(config.Storage.Files, file(f))
	}
	out, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("writing Ignition configuration: %w", err)
	}
	if _, report, err := ignconfig.Parse(out); err != nil {
		return nil, fmt.Errorf("checking Ignition configuration: %w: %s", err, reportText(report.String()))
	}
	return append(out, '\n'), nil
}

func user(u node.User) types.PasswdUser {
	out := types.PasswdUser{Name: u.Name, Shell: &u.Shell}
	for _, g := range u.Groups {
		out.Groups = append(out.Groups, types.Group(g))
	}
	for _, k := range u.SSHAuthorizedKeys {
		out.SSHAuthorizedKeys = append(out.SSHAuthorizedKeys, types.SSHAuthorizedKey(k))
	}
	return out
}

// unit writes a unit. What of it has a long line is written as files, whose content Ignition does not check: systemd reads
// lines of a megabyte, Ignition refuses the configuration.
func unit(u node.Unit) (out types.Unit, long []node.File) {
	const folder = "/etc/systemd/system/"
	out.Name = u.Name
	switch {
	case hasLongLine(u.Content):
		long = append(long, node.File{Path: folder + u.Name, Mode: 0o644, Content: []byte(u.Content)})
	case u.Content != "":
		out.Contents = &u.Content
	}
	if u.Enabled {
		out.Enabled = &u.Enabled // the script enables the others, in order
	}
	for _, d := range u.DropIns {
		if hasLongLine(d.Content) {
			long = append(long, node.File{Path: folder + u.Name + ".d/" + d.Name, Mode: 0o644, Content: []byte(d.Content)})
			continue
		}
		out.Dropins = append(out.Dropins, types.Dropin{Name: d.Name, Contents: &d.Content})
	}
	return out, long
}

func hasLongLine(content string) bool {
	for line := range strings.Lines(content) {
		if len(line) >= systemd.SYSTEMD_LINE_MAX {
			return true
		}
	}
	return false
}

// reportText is the validator's report on one line.
func reportText(s string) string { return strings.Join(strings.Fields(s), " ") }
