// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cloudinit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"drover.io/bootstrap/node"
)

// render returns what cloud-init reads of a Node.
func render(t *testing.T, n *node.Node) (header string, document map[string]any) {
	t.Helper()
	out, err := Render(n)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(out), "\n")
	for _, line := range lines {
		if !strings.HasPrefix(line, "#") {
			break
		}
		header += line
	}
	if err := yaml.Unmarshal(out, &document); err != nil {
		t.Fatal(err)
	}
	return header, document
}

func TestEmptyNodeRunsTheScript(t *testing.T) {
	t.Parallel()
	header, got := render(t, &node.Node{})
	if header != "#cloud-config\n" {
		t.Errorf("the header is %q", header)
	}
	files := got["write_files"]
	delete(got, "write_files")
	if diff := cmp.Diff(map[string]any{"runcmd": []any{[]any{node.ScriptFile}}}, got); diff != "" {
		t.Errorf("beside the files (-want +got):\n%s", diff)
	}
	if list, is := files.([]any); !is || len(list) != 3 {
		t.Errorf("the files are %v", files)
	}
}

func TestModulesOfANode(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		node *node.Node
		want map[string]any
	}{
		"a host name, which cloud-init must not replace": {
			&node.Node{Hostname: "m1"},
			map[string]any{"hostname": "m1", "preserve_hostname": false, "prefer_fqdn_over_hostname": false},
		},
		"a host name of several labels, of which cloud-init must not take the first only": {
			&node.Node{Hostname: "m.1"},
			map[string]any{"hostname": "m.1", "preserve_hostname": false, "prefer_fqdn_over_hostname": true},
		},
		"users beside the default one, without passwords": {
			&node.Node{Users: []node.User{
				{Name: "ops", Groups: []string{"adm", "sudo"}, Sudo: "ALL=(ALL) NOPASSWD:ALL", Shell: "/bin/bash", SSHAuthorizedKeys: []string{"ssh-ed25519 A"}},
				{Name: "app", Shell: "/usr/sbin/nologin"},
			}},
			map[string]any{"users": []any{
				"default",
				map[string]any{
					"name": "ops", "groups": []any{"adm", "sudo"}, "sudo": "ALL=(ALL) NOPASSWD:ALL", "shell": "/bin/bash", "lock_passwd": true,
					"ssh_authorized_keys": []any{"ssh-ed25519 A"},
				},
				map[string]any{"name": "app", "shell": "/usr/sbin/nologin", "lock_passwd": true},
			}},
		},
		"disks, of which nothing is overwritten": {
			&node.Node{Disks: []node.Disk{
				{Device: "/dev/vdb", Filesystem: "xfs", Label: "data", MountPath: "/data"},
				{Device: "/dev/vdc", Filesystem: "ext4", Label: "logs", MountPath: "/logs", Partitioned: true},
			}},
			map[string]any{
				"disk_setup": map[string]any{"/dev/vdc": map[string]any{"table_type": "gpt", "layout": true, "overwrite": false}},
				"fs_setup": []any{
					map[string]any{"device": "/dev/vdb", "partition": "auto", "filesystem": "xfs", "label": "data", "overwrite": false},
					map[string]any{"device": "/dev/vdc", "partition": "auto", "filesystem": "ext4", "label": "logs", "overwrite": false},
				},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, got := render(t, test.node)
			delete(got, "write_files")
			delete(got, "runcmd")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestUnitsBecomeFiles(t *testing.T) {
	t.Parallel()
	got := unitFiles([]node.Unit{
		{Name: "a.service", Content: "[Unit]\n", Jinja: true, Enabled: true},
		{Name: "b.service", DropIns: []node.DropIn{{Name: "10-x.conf", Content: "[Service]\n"}, {Name: "20-y.conf", Content: "[Install]\n"}}},
	})
	want := []node.File{
		{Path: "/etc/systemd/system/a.service", Mode: 0o644, Content: []byte("[Unit]\n"), Jinja: true},
		{Path: "/etc/systemd/system/b.service.d/10-x.conf", Mode: 0o644, Content: []byte("[Service]\n")},
		{Path: "/etc/systemd/system/b.service.d/20-y.conf", Mode: 0o644, Content: []byte("[Install]\n")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestOnlyTemplatesAreEvaluated: one template makes the whole document a template, in which all else must stay as it is.
func TestOnlyTemplatesAreEvaluated(t *testing.T) {
	t.Parallel()
	n := &node.Node{
		Hostname: "m-{{ 1 }}",
		Users:    []node.User{{Name: "ops", Groups: []string{"{% x %}"}, Shell: "/bin/{# c #}"}},
		Files: []node.File{
			{Path: "/template", Mode: 0o600, Content: []byte("id={{ v1.instance_id }}\n"), Jinja: true},
			{Path: "/plain-{{ 2 }}", Mode: 0o600, Content: []byte("x\n")},
		},
	}
	out, err := Render(n)
	if err != nil {
		t.Fatal(err)
	}
	text := string(out)
	if !strings.HasPrefix(text, "## template: jinja\n#cloud-config\n") {
		t.Errorf("the header is %q", text[:40])
	}
	if !strings.Contains(text, "id={{ v1.instance_id }}\n") {
		t.Error("the template is not as it was")
	}
	for _, expression := range []string{"m-{{ 1 }}", "/plain-{{ 2 }}", "- '{% x %}'", "/bin/{# c #}"} {
		if strings.Contains(text, expression) {
			t.Errorf("%q would be evaluated", expression)
		}
	}
	n.Files = n.Files[1:]
	out, err = Render(n)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(out); strings.Contains(text, "jinja") || !strings.Contains(text, "m-{{ 1 }}") {
		t.Error("without a template the document is one, or is shielded")
	}
}

func TestRenderIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	n := &node.Node{Disks: []node.Disk{{Device: "/dev/b", Partitioned: true}, {Device: "/dev/a", Partitioned: true}, {Device: "/dev/c", Partitioned: true}}}
	first, err := Render(n)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if again, err := Render(n); err != nil || string(again) != string(first) {
			t.Fatalf("it differs: %v", err)
		}
	}
}
