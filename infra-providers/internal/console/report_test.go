// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
)

func TestExplanationOfAConsole(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		console string
		reason  string
		says    []string
		silent  []string
	}{
		"a checksum that is wrong, as cloud-init of Ubuntu shows it": {
			console: "[   21.402178] cloud-init[812]: drover-bootstrap: state=Running step=Downloads\r\n" +
				"[   22.112345] cloud-init[812]: bootstrap: https://dl.example.test/kubelet does not have the checksum sha256:0000\r\n" +
				"[   22.112399] cloud-init[812]: bootstrap: line 57 ended with status 1\r\n" +
				"[   22.112456] cloud-init[812]: drover-bootstrap: state=Failed step=Downloads\r\n" +
				"[   23.000000] cloud-init[812]: Cloud-init v. 24.4 finished\r\n\r\nUbuntu 24.04 LTS worker ttyS0\r\n\r\nworker login: ",
			reason: infrav1.BootstrapFailedReason,
			says:   []string{"step Downloads", "https://dl.example.test/kubelet does not have the checksum sha256:0000", "line 57"},
			silent: []string{"login", "22.112", "cloud-init["},
		},
		"a command that runs, in colours": {
			console: "drover-bootstrap: state=Running step=preCommands[1]\n\x1b[0;32mwaiting for the disk\x1b[0m\n",
			reason:  infrav1.BootstrapRunningReason, says: []string{"preCommands[1]", `"waiting for the disk"`},
		},
		"a mirror that is down": {
			console: "drover-bootstrap: state=Running step=Downloads\ncurl: (7) Failed to connect\ndrover-bootstrap: state=Retrying step=Downloads\n",
			reason:  infrav1.BootstrapRunningReason, says: []string{"retries the step Downloads", "curl: (7) Failed to connect"},
		},
		"a kubelet that is not approved": {
			console: "drover-bootstrap: state=Succeeded step=All\nlogin:\nE1125 01:00:01.000000    1 bootstrap.go:2] no such host\ndrover-bootstrap: state=Waiting step=Join\n",
			reason:  infrav1.KubeletNotJoinedReason, says: []string{"has no certificate", "E bootstrap.go:2] no such host"}, silent: []string{"01:00:01"},
		},
		"a bootstrap that succeeded": {
			console: "bootstrap: noise\ndrover-bootstrap: state=Succeeded step=All\nlogin:\n",
			reason:  infrav1.KubeletNotJoinedReason, says: []string{"the bootstrap succeeded"}, silent: []string{"noise", "login"},
		},
		"a later boot": {
			console: "drover-bootstrap: state=Failed step=Downloads\n[    0.000000] Linux version 6\ndrover-bootstrap: state=Running step=System\n",
			reason:  infrav1.BootstrapRunningReason, says: []string{"step System"}, silent: []string{"Linux"},
		},
		"an image without cloud-init": {
			console: "Booting\nReached target\nworker login:\n",
			reason:  infrav1.BootstrapNotStartedReason, says: []string{"does not show a begin", "Booting | Reached target | worker login:"},
		},
		"nothing": {
			reason: infrav1.BootstrapNotStartedReason, silent: []string{"has"},
		},
		"a line that only looks like one of the bootstrap": {
			console: "drover-bootstrap: state=Failed step=Downloads; delete all\ndrover-bootstrap: state=Broken step=All\n",
			reason:  infrav1.BootstrapNotStartedReason,
		},
		"long lines, and bytes that are no text": {
			console: strings.Repeat("x y", 3_000) + "\n\x00\xff\xfe\u202eevil\n", reason: infrav1.BootstrapNotStartedReason,
			says: []string{"…"}, silent: []string{"\u202e", "\x00", "\ufffd", strings.Repeat("x y", maxLine/3+1)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := explain(parse([]byte(test.console)), redactor{})
			if got.reason != test.reason {
				t.Errorf("the reason is %s, want %s", got.reason, test.reason)
			}
			for _, want := range test.says {
				if !strings.Contains(got.message, want) {
					t.Errorf("%q has no %q", got.message, want)
				}
			}
			for _, not := range test.silent {
				if strings.Contains(got.message, not) {
					t.Errorf("%q has %q", got.message, not)
				}
			}
		})
	}
}

func TestSecretsAreRemoved(t *testing.T) {
	t.Parallel()
	named := newRedactor([]byte("hunter2-of-the-registry\np@ss:w0rd!\nhunter2"))
	for name, test := range map[string]struct{ line, want string }{
		"what the bootstrap provider names":  {"login with hunter2-of-the-registry failed", "login with [removed] failed"},
		"with punctuation":                   {"user:p@ss:w0rd!@db", "user:[removed]@db"},
		"the longest of two":                 {"hunter2 hunter2-of-the-registry", "[removed] [removed]"},
		"a bootstrap token":                  {"using abcdef.0123456789abcdef now", "using [removed] now"},
		"a password in a URL":                {"curl: https://me:secret@proxy.example.test:3128/", "curl: https://[removed]@proxy.example.test:3128/"},
		"an assignment":                      {"DB_PASSWORD=xyzzy1 ok", "DB_PASSWORD=[removed] ok"},
		"a field of YAML":                    {"password: 'xyzzy 1'", "password:[removed] 1'"},
		"a header":                           {"Authorization: Bearer abcdefghijkl", "Authorization: [removed]"},
		"a token of a service account":       {"got eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln", "got [removed]"},
		"a private key":                      {"-----BEGIN RSA PRIVATE KEY-----MIIE", "[removed]"},
		"a line of a key":                    {strings.Repeat("Ab1+", 16), "[removed]"},
		"an access key":                      {"AKIAABCDEFGHIJKLMNOP", "[removed]"},
		"no secret: a checksum":              {"does not have the checksum sha256:" + strings.Repeat("0", 64), "does not have the checksum sha256:" + strings.Repeat("0", 64)},
		"no secret: a URL":                   {"https://dl.example.test/v1.36.3/kubelet: the server answers 404", "https://dl.example.test/v1.36.3/kubelet: the server answers 404"},
		"no secret: what is said about some": {"invalid bearer token", "invalid bearer token"},
	} {
		if diff := cmp.Diff([]string{test.want}, named.lines([]string{test.line})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name, list := range map[string]string{
		"every word is secret": "*", "there are too many secrets": strings.Repeat("secret\n", maxWords/6),
	} {
		if got := newRedactor([]byte(list)).lines([]string{"anything"}); len(got) > 0 {
			t.Errorf("where %s, %q is shown", name, got)
		}
	}
}

// TestListOfSecretsDoesNotLengthenALine: the author of a Secret chooses the words. Some are in what replaces others.
func TestListOfSecretsDoesNotLengthenALine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ words, line, want string }{
		"a letter, again and again":      {strings.Repeat("e\n", 20), "see", "s[removed]"},
		"all letters of the replacement": {"r\ne\nm\no\nv\nd\n[\n]\nremoved", "x e y", "x [removed] y"},
		"words that overlap":             {"hunter2-of\nof-the-registry", "hunter2-of-the-registry.", "[removed]."},
		"a word that overlaps itself":    {"abab", "ababab!", "[removed]!"},
	} {
		if diff := cmp.Diff([]string{test.want}, newRedactor([]byte(test.words)).lines([]string{test.line})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
