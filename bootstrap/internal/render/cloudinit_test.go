// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"drover.io/bootstrap/internal/render"
)

// debianPython is the interpreter that Debian's packages are made for.
const debianPython = "/usr/bin/python3"

// cloudInit is the folder with Debian's cloud-init.
func cloudInit(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("apt-get"); err != nil {
		t.Skip("no apt-get here: Debian's cloud-init cannot be had")
	}
	folder, err := filepath.Abs(filepath.Join("..", "..", "..", "bin", "cloud-init"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(folder, "usr", "bin", "cloud-init")); err != nil {
		t.Fatal("cloud-init is not there: run bootstrap/hack/cloud-init.sh")
	}
	return folder
}

// check runs cloud-init to render and check all files of a folder, and returns the problems that it reports.
func check(t *testing.T, folder, files string) string {
	t.Helper()
	script, err := filepath.Abs(filepath.Join("testdata", "check.py"))
	if err != nil {
		t.Fatal(err)
	}
	metadata := `{"v1":{"local_hostname":"node-1"},"ds":{"meta_data":{"local_hostname":"node-1","provider_id":"sim:///zone-a/1"}}}`
	if err := os.WriteFile(filepath.Join(files, "..", "instance-data.json"), []byte(metadata), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), debianPython, script, files)
	command.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(folder, "usr", "lib", "python3", "dist-packages"), "PYTHONDONTWRITEBYTECODE=1")
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		t.Fatalf("running cloud-init: %v\n%s", err, problems.String())
	}
	return out.String()
}

func TestCloudInitAcceptsTheData(t *testing.T) {
	t.Parallel()
	folder, files := cloudInit(t), filepath.Join(t.TempDir(), "files")
	if err := os.Mkdir(files, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, in := range cases() {
		if !strings.HasSuffix(golden(name, in), ".yaml") {
			continue
		}
		data, _, err := render.Data(in)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(files, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// One that must fail, so that a check that checks nothing is seen.
	if err := os.WriteFile(filepath.Join(files, "wrong"), []byte("#cloud-config\nwrite_files:\n- path: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	problems := strings.Split(strings.TrimSpace(check(t, folder, files)), "\n")
	if len(problems) != 1 || !strings.HasPrefix(problems[0], "wrong: ") {
		t.Errorf("cloud-init reports, besides the file that is wrong on purpose:\n%s", strings.Join(problems, "\n"))
	}
	if err := os.Remove(filepath.Join(files, "wrong")); err != nil {
		t.Fatal(err)
	}
	checkKeys(t, folder, files)
}

// checkKeys looks for what the schema accepts: expressions without a value, and modules that do not exist.
func checkKeys(t *testing.T, folder, files string) {
	t.Helper()
	known := knownKeys(t, folder)
	entries, err := os.ReadDir(files)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		config, err := os.ReadFile(filepath.Join(files, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(config), "CI_MISSING_JINJA_VAR") {
			t.Errorf("%s: an expression is left that cloud-init cannot fill in", entry.Name())
		}
		var keys map[string]any
		if err := yaml.UnmarshalStrict(config, &keys); err != nil {
			t.Errorf("%s: %v", entry.Name(), err)
		}
		for key := range keys {
			if !known[key] {
				t.Errorf("%s: cloud-init has no module %q", entry.Name(), key)
			}
		}
	}
}

// knownKeys are the top-level keys of cloud-config. The schema accepts unknown ones.
func knownKeys(t *testing.T, folder string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "usr/lib/python3/dist-packages/cloudinit/config/schemas/schema-cloud-config-v1.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("schema of cloud-init: %v, %v", files, err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Definitions map[string]struct {
			Properties map[string]any `json:"properties"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(content, &schema); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for name, definition := range schema.Definitions {
		if strings.HasPrefix(name, "cc_") || name == "base_config" {
			for key := range definition.Properties {
				known[key] = true
			}
		}
	}
	if !known["write_files"] || known["write_file"] {
		t.Fatal("the schema of cloud-init was not understood")
	}
	return known
}
