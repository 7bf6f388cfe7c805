// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const unitFile = "/etc/systemd/system/kubelet.service"

func TestCommand(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"reads continued lines and comments": {
			map[string]string{unitFile: "# c\n[Unit]\nExecStart=no\n[Service]\nExecStart=/bin/kubelet \\\n  --a=1 \\\n  --b=2\n"},
			[]string{"/bin/kubelet", "--a=1", "--b=2"},
		},
		"lets a drop-in replace the command": {
			map[string]string{unitFile: "[Service]\nExecStart=/bin/old\n", unitFile + ".d/10-new.conf": "[Service]\nExecStart=\nExecStart=/bin/new --x\n"},
			[]string{"/bin/new", "--x"},
		},
		"applies drop-ins by name": {
			map[string]string{unitFile: "[Service]\nExecStart=/bin/k $ARGS\n", unitFile + ".d/20.conf": "[Service]\nEnvironment=ARGS=--second\n", unitFile + ".d/10.conf": "[Service]\nEnvironment=ARGS=--first\n"},
			[]string{"/bin/k", "--second"},
		},
		"splits $VAR into words and keeps ${VAR} whole": {
			map[string]string{unitFile: "[Service]\nEnvironment=\"A=--x=1 --y=2\" B=z\nExecStart=/bin/k $A --b=${B} $NONE\n"},
			[]string{"/bin/k", "--x=1", "--y=2", "--b=z"},
		},
		"expands no value once more": {
			map[string]string{unitFile: "[Service]\nEnvironment=A=${B}${B} B=${A}${A}\nExecStart=/bin/k ${A}${NONE}\n"},
			[]string{"/bin/k", "${B}${B}${NONE}"},
		},
		"reads environment files": {
			map[string]string{unitFile: "[Service]\nEnvironmentFile=-/none\nEnvironmentFile=/etc/default/kubelet\nExecStart=/bin/k $EXTRA\n", "/etc/default/kubelet": "# c\nEXTRA=\"--v=2\"\n"},
			[]string{"/bin/k", "--v=2"},
		},
		"keeps quoted words together": {
			map[string]string{unitFile: "[Service]\nExecStart=-/bin/k '--a=b c' \"\"\n"},
			[]string{"/bin/k", "--a=b c", ""},
		},
		"prefers /etc over /usr/lib": {
			map[string]string{unitFile: "[Service]\nExecStart=/etc\n", "/usr/lib/systemd/system/kubelet.service": "[Service]\nExecStart=/usr\n"},
			[]string{"/etc"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Command(disk(test.files), "kubelet.service")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("command (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCommandRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"no unit":                  {nil, unitFile},
		"no command":               {map[string]string{unitFile: "[Service]\n"}, "ExecStart"},
		"a command of prefixes":    {map[string]string{unitFile: "[Service]\nExecStart=-@\n"}, "ExecStart"},
		"a variable without words": {map[string]string{unitFile: "[Service]\nExecStart=$NONE\n"}, "ExecStart"},
		"a missing environment":    {map[string]string{unitFile: "[Service]\nEnvironmentFile=/none\nExecStart=/k\n"}, "/none"},
		"an open quote":            {map[string]string{unitFile: "[Service]\nExecStart=/k 'a\n"}, "not closed"},
		"a line that is not a key": {map[string]string{unitFile: "[Service]\nnonsense\n"}, "nonsense"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Command(disk(test.files), "kubelet.service")
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error about %q", err, test.want)
			}
		})
	}
}

func disk(files map[string]string) map[string][]byte {
	out := map[string][]byte{}
	for name, content := range files {
		out[name] = []byte(content)
	}
	return out
}
