// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// debianImage are shims in the folder bin of a host: an apt-get that installs curl and ca-certificates, and writes down
// whether it trusts the operator's authorities by itself.
const debianImage = `
cat >bin/tool <<'TOOL'
#!/bin/sh
[ -e certs/drover.crt ] || echo "no certificates" >>log
echo "update-ca-certificates" >>log
TOOL
cat >bin/apt-get <<'APT'
#!/bin/sh
echo "apt-get $(for a; do case $a in -* | Dpkg::*) ;; *) printf '%s ' "$a" ;; esac; done)$(cat apt/90drover-trust 2>/dev/null)" >>log
case "$*" in *ca-certificates*) cp bin/tool bin/curl; cp bin/tool bin/update-ca-certificates ;; esac
case "$*" in *jq*) : >jq ;; esac
APT
cat >bin/dpkg-query <<'QUERY'
#!/bin/sh
case "$*" in *jq) [ ! -e jq ] || echo installed=1= ;; esac
QUERY
printf '#!/bin/sh\n' >bin/dpkg
chmod +x bin/tool bin/apt-get bin/dpkg bin/dpkg-query
`

func TestDebianTrustsTheOperatorsAuthorities(t *testing.T) {
	t.Parallel()
	const update, byItself = "update-ca-certificates", `Acquire::https::CAInfo "certs/drover.crt";`
	for name, c := range map[string]struct {
		image    []string
		packages bool
		want     []string
	}{
		"an image with both":                             {[]string{"curl", "update-ca-certificates"}, false, []string{update}},
		"an image with both, and packages":               {[]string{"curl", "update-ca-certificates"}, true, []string{update, "apt-get update ", "apt-get install jq "}},
		"an image with neither":                          {nil, false, []string{"apt-get update " + byItself, "apt-get install curl ca-certificates " + byItself, update}},
		"an image with neither, and packages":            {nil, true, []string{"apt-get update " + byItself, "apt-get install curl ca-certificates " + byItself, update, "apt-get update ", "apt-get install jq "}},
		"an image with curl alone":                       {[]string{"curl"}, false, []string{"apt-get update " + byItself, "apt-get install curl ca-certificates " + byItself, update}},
		"an image with certificates alone, and packages": {[]string{"update-ca-certificates"}, true, []string{update, "apt-get update ", "apt-get install curl ca-certificates ", update, "apt-get update ", "apt-get install jq "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			run := func(script string) {
				t.Helper()
				command := exec.CommandContext(t.Context(), "bash", "-c", "set -euo pipefail\n"+script)
				command.Dir, command.Env = root, []string{"PATH=" + filepath.Join(root, "bin")}
				if out, err := command.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s\n%s", err, script, out)
				}
			}
			must(t, os.Mkdir(filepath.Join(root, "bin"), 0o755))
			for _, tool := range []string{"bash", "sh", "cat", "chmod", "cp", "mkdir", "base64", "gunzip", "gzip", "rm", "ln", "touch", "flock"} {
				path, err := exec.LookPath(tool)
				must(t, err)
				must(t, os.Symlink(path, filepath.Join(root, "bin", tool)))
			}
			run(debianImage + "mkdir certs apt kubernetes\nfor name in " + strings.Join(c.image, " ") + "; do cp bin/tool bin/$name; done")
			in := minimal(bootstrapv1.Debian)
			authority, err := os.ReadFile("../internal/render/testdata/ca.crt")
			must(t, err)
			in.Spec.TrustedCAs = string(authority)
			if c.packages {
				in.Spec.Packages = []string{"jq"}
			}
			n, err := Describe(in)
			must(t, err)
			here := strings.NewReplacer("/usr/local/share/ca-certificates", "certs", "/etc/apt/apt.conf.d", "apt", "/etc/kubernetes", "kubernetes", "/var/lib/cloud", "cloud", "/run/", "")
			must(t, os.WriteFile(filepath.Join(root, "certs", "drover.crt"), []byte(in.Spec.TrustedCAs), 0o644))
			run(reportFunction + "\n" + here.Replace(strings.Join(n.Setup, "\n")))
			log, err := os.ReadFile(filepath.Join(root, "log"))
			must(t, err)
			if diff := cmp.Diff(c.want, strings.Split(strings.TrimSuffix(string(log), "\n"), "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if left, _ := filepath.Glob(filepath.Join(root, "apt", "*")); len(left) > 0 {
				t.Errorf("apt still trusts the operator's authorities alone: %v", left)
			}
		})
	}
}

// clock has a script take the time that it sleeps for all that passes. It begins late: a step before may have taken an hour.
const clock = `
passed=4000; now() { echo $passed; }; sleep() { passed=$((passed + $1)); }
`

// TestBusyAptIsTriedAgain: an unattended update has locked it, or a mirror does not answer.
func TestBusyAptIsTriedAgain(t *testing.T) {
	t.Parallel()
	n := describe(t, minimal(bootstrapv1.Debian))
	root := t.TempDir()
	script := strings.NewReplacer("/etc/", root+"/", "/var/", root+"/", "/run/", root+"/").Replace(strings.Join(n.Setup, "\n"))
	const shims = clock + `
systemctl() { false; }; command() { false; }; cloud-id() { :; }; ln() { :; }; dpkg-query() { :; }; dpkg() { :; }; update-ca-certificates() { :; }
report() { echo "$@"; }
tries=0; apt-get() { echo "apt-get ${*: -1}"; tries=$((tries + 1)); if [ $tries -lt $succeeds ]; then return 100; fi; }
`
	out, err := bash(t, "succeeds=3"+shims+script)
	if want := "apt-get update\nRetrying OperatingSystem\napt-get update\nRetrying OperatingSystem\napt-get update\napt-get ca-certificates\n"; err != nil || out != want {
		t.Errorf("%v: %q, want %q", err, out, want)
	}
	out, err = bash(t, "succeeds=1000"+shims+script)
	const times = 26 // pauses of 10, 20, 40 and then 80 seconds are half an hour
	if got := strings.Count(out, "apt-get update\n"); err == nil || got != times || !strings.HasSuffix(out, "bootstrap: the installation of curl did not succeed within 30 minutes\n") {
		t.Errorf("it goes on without curl, or after %d attempts: %v, %q", got, err, out)
	}
}
