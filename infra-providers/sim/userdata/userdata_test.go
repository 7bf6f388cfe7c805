// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package userdata

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var meta = Metadata{InstanceID: "sim-1", LocalHostname: "worker-1", ProviderID: "sim:///zone-a/sim-1", Zone: "zone-a"}

func TestParse(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		data string
		want Disk
	}{
		"writes files in every encoding": {
			"#cloud-config\nwrite_files:\n" +
				"- {path: /a, content: plain}\n" +
				"- {path: /b, encoding: b64, content: " + b64("base64") + "}\n" +
				"- {path: /c, encoding: gz+b64, content: " + b64(zip("both")) + "}\n" +
				"- {path: /d, encoding: gzip, content: ''}\n" +
				"- {path: /a, append: true, content: more}\n",
			Disk{Files: map[string][]byte{"/a": []byte("plainmore"), "/b": []byte("base64"), "/c": []byte("both"), "/d": {}}, Hostname: "worker-1"},
		},
		"takes the hostname": {
			"#cloud-config\nhostname: other\nfqdn: other.example.com\n",
			Disk{Files: map[string][]byte{}, Hostname: "other"},
		},
		"keeps the hostname": {
			"#cloud-config\nhostname: other\npreserve_hostname: true\n",
			Disk{Files: map[string][]byte{}, Hostname: "worker-1"},
		},
		"collects commands in order": {
			"#cloud-config\nruncmd:\n- [systemctl, start, kubelet]\n- echo done\nbootcmd: [first]\n",
			Disk{Files: map[string][]byte{}, Hostname: "worker-1", Commands: []string{"first", "systemctl start kubelet", "echo done"}},
		},
		"renders a template": {
			"## template: jinja\n#cloud-config\nhostname: '{{ ds.meta_data.local_hostname }}'\nwrite_files:\n- path: /id\n  content: '{{ ds.meta_data.provider_id }} {{v1.local_hostname}} {{ ds[\"meta_data\"][\"instance-id\"] }}{# gone #}'\n",
			Disk{Files: map[string][]byte{"/id": []byte("sim:///zone-a/sim-1 worker-1 sim-1")}, Hostname: "worker-1"},
		},
		"leaves raw blocks as they are": {
			"## template: jinja\n#cloud-config\nhostname: '{{ v1.local_hostname }}'\nwrite_files:\n- path: /raw\n  content: '{% raw %}{{% endraw %}{ x }} {% raw %}{{% endraw %}# y #} {% raw %}{% z %}{% endraw %}'\n",
			Disk{Files: map[string][]byte{"/raw": []byte("{{ x }} {# y #} {% z %}")}, Hostname: "worker-1"},
		},
		"warns of a variable that does not exist": {
			"## template: jinja\n#cloud-config\nhostname: 'a{{ ds.meta_data.nothing }}'\n",
			Disk{Files: map[string][]byte{}, Hostname: "aCI_MISSING_JINJA_VAR/ds.meta_data.nothing",
				Warnings: []string{`the template uses "ds.meta_data.nothing", which this cloud does not have`}},
		},
		"reads Ignition": {
			`{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/etc/hostname","contents":{"source":"data:,flat%20car"}},` +
				`{"path":"/b","contents":{"source":"data:;base64,` + b64("bytes") + `"}},{"path":"/z","contents":{"compression":"gzip","source":"data:;base64,` + b64(zip("zipped")) + `"}}]},` +
				`"systemd":{"units":[{"name":"kubelet.service","enabled":true,"contents":"[Service]","dropins":[{"name":"10.conf","contents":"x"}]}]}}`,
			Disk{
				Files: map[string][]byte{
					"/run/metadata/flatcar": []byte("COREOS_SIM_PROVIDER_ID=sim:///zone-a/sim-1\nCOREOS_SIM_INSTANCE_ID=sim-1\nCOREOS_SIM_HOSTNAME=worker-1\nCOREOS_SIM_ZONE=zone-a\n"),
					"/etc/hostname":         []byte("flat car"), "/b": []byte("bytes"), "/z": []byte("zipped"),
					"/etc/systemd/system/kubelet.service":           []byte("[Service]"),
					"/etc/systemd/system/kubelet.service.d/10.conf": []byte("x"),
				},
				Hostname: "flat car",
				Commands: []string{"systemctl enable --now kubelet.service"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for how, data := range map[string]string{"plain": test.data, "compressed": zip(test.data)} {
				got, err := Parse([]byte(data), meta)
				if err != nil {
					t.Fatalf("%s: %v", how, err)
				}
				if diff := cmp.Diff(&test.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", how, diff)
				}
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ data, want string }{
		"nothing":                  {"", "neither"},
		"a script":                 {"#!/bin/sh\n", "neither"},
		"broken YAML":              {"#cloud-config\nwrite_files: [", "cloud-config"},
		"numeric permissions":      {"#cloud-config\nwrite_files:\n- {path: /a, permissions: 0644}\n", "permissions"},
		"a relative path":          {"#cloud-config\nwrite_files:\n- {path: a}\n", "absolute"},
		"an unknown encoding":      {"#cloud-config\nwrite_files:\n- {path: /a, encoding: rot13}\n", "rot13"},
		"broken base64":            {"#cloud-config\nwrite_files:\n- {path: /a, encoding: b64, content: '***'}\n", `write_files[0] "/a"`},
		"a template with a loop":   {"## template: jinja\n#cloud-config\n{% for x in y %}\n", "for x in y"},
		"a template with a filter": {"## template: jinja\n#cloud-config\na: {{ v1.region | upper }}\n", "upper"},
		"a raw block without end":  {"## template: jinja\n#cloud-config\na: '{% raw %}{{ x }}'\n", "raw block"},
		"a template of nothing":    {"## template: jinja\nhostname: x\n", "#cloud-config"},
		"cut compressed data":      {zip("#cloud-config\nhostname: x\n")[:20], "decompressing"},
		"an old Ignition":          {`{"ignition":{"version":"2.3.0"}}`, "2.3.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse([]byte(test.data), meta)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error about %q", err, test.want)
			}
		})
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	known := map[string]string{"v1.region": "here", "region": "here"}
	for text, want := range map[string]string{
		"no template":                                 "no template",
		"{{ region }}":                                "here",
		"{{- v1.region -}}":                           "here",
		"{{ v1['region'] }}":                          "here",
		"{{ 'literal' }}":                             "literal",
		"{{ v1.nope | default('there') }}":            "there",
		"{{ v1.region | default('there') }}":          "here",
		"{% raw %}{{ region }}{% endraw %}{{region}}": "{{ region }}here",
		"a{# comment #}b":                             "ab",
	} {
		got, _, err := render(text, known)
		if err != nil || got != want {
			t.Errorf("%q: got %q and %v, want %q", text, got, err, want)
		}
	}
}

func b64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func zip(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}
