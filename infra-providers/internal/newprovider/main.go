// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command newprovider scaffolds the provider of a new cloud: its kinds, the five files of its driver over a
// cloud in memory, the conformance suite and the fault rig, its command, manifests and reference page. What
// all clouds have alike is copied from the simulated one, so that there is one place to change it.
//
// It writes files and one line into two lists, and generates nothing: `make new-provider` does both.
package main

import (
	"embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

//go:embed templates
var templates embed.FS

func main() {
	root := flag.String("root", "..", "folder of the repository")
	kind := flag.String("kind", "", "what the kinds begin with, such as AWS; by default the name with a capital")
	flag.Parse()
	cloud, err := named(flag.Arg(0), *kind)
	if err == nil {
		err = cloud.scaffold(*root)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "newprovider:", err)
		os.Exit(1)
	}
}

// cloud is how a cloud is called: acme in packages and names, Acme in kinds.
type cloud struct{ name, kind string }

var (
	names = regexp.MustCompile(`^[a-z][a-z0-9]{1,30}$`)
	kinds = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{1,30}$`)
)

func named(name, kind string) (cloud, error) {
	if !names.MatchString(name) {
		return cloud{}, fmt.Errorf("%q is no name for a cloud: use lower-case letters and digits, as in make new-provider NAME=acme", name)
	}
	if kind == "" {
		kind = strings.ToUpper(name[:1]) + name[1:]
	}
	if !kinds.MatchString(kind) || !strings.EqualFold(kind, name) {
		return cloud{}, fmt.Errorf("%q is no kind for %q: use the same letters, beginning with a capital", kind, name)
	}
	return cloud{name, kind}, nil
}

// files are written from templates; copies are taken from the simulated cloud.
var (
	files = map[string]string{
		"types.go.tmpl":       "api/infrastructure/v1alpha1/acmemachine_types.go",
		"config.go.tmpl":      "infra-providers/acme/config.go",
		"driver.go.tmpl":      "infra-providers/acme/driver.go",
		"abilities.go.tmpl":   "infra-providers/acme/abilities.go",
		"instance.go.tmpl":    "infra-providers/acme/instance.go",
		"errors.go.tmpl":      "infra-providers/acme/errors.go",
		"driver_test.go.tmpl": "infra-providers/acme/driver_test.go",
		"cloud.go.tmpl":       "infra-providers/acme/acmecloud/cloud.go",
		"main.go.tmpl":        "infra-providers/cmd/acme/main.go",
		"manager.yaml.tmpl":   "infra-providers/config/manager/acme/manager.yaml",
		"page.md.tmpl":        "docs/reference/acmemachine.md",
	}
	copies = []string{
		"api/infrastructure/v1alpha1/simmachinetemplate_types.go",
		"infra-providers/config/rbac/sim/aggregate.yaml",
		"infra-providers/config/rbac/sim/kustomization.yaml",
		"infra-providers/config/rbac/sim/leader_election.yaml",
		"infra-providers/config/rbac/sim/role_binding.yaml",
		"infra-providers/config/rbac/sim/service_account.yaml",
	}
)

// scaffold writes everything, or refuses before it wrote anything.
func (c cloud) scaffold(root string) error {
	write := map[string]string{}
	for from, to := range files {
		content, err := templates.ReadFile("templates/" + from)
		if err != nil {
			return err
		}
		write[c.of("acme", to)] = c.of("acme", string(content))
	}
	for _, from := range copies {
		content, err := os.ReadFile(filepath.Join(root, from))
		if err != nil {
			return err
		}
		// The simulated machine needs no field; this one does, so its spec has no default.
		text := strings.Replace(string(content), "// +optional\n\t// +default={}", "// +required", 1)
		write[c.of("sim", from)] = c.of("sim", text)
	}
	for path := range write {
		if _, err := os.Stat(filepath.Join(root, path)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s exists: remove what an earlier run left, or choose another name", path)
		}
	}
	kind := fmt.Sprintf("\t\t&%[1]sMachine{}, &%[1]sMachineList{},\n\t\t&%[1]sMachineTemplate{}, &%[1]sMachineTemplateList{},\n", c.kind)
	row := fmt.Sprintf("| `%[1]s` | [%[2]sMachine](%[1]smachine.md), %[2]sMachineTemplate | `%[1]s:///<zone>/<name>` |\n", c.name, c.kind)
	proof := fmt.Sprintf("| `%s` | in memory | not run yet | 40 lifecycles |\n", c.name)
	page := fmt.Sprintf("- [%[2]sMachine](reference/%[1]smachine.md)\n", c.name, c.kind)
	fields := fmt.Sprintf("- [%[2]sMachine](reference/api/%[1]smachine.md)\n", c.name, c.kind)
	for path, line := range map[string]func(string) (string, error){
		"api/infrastructure/v1alpha1/groupversion.go": before("\t)\n\tmetav1.AddToGroupVersion", kind),
		"docs/reference/providers.md":                 both(before("\n## Test coverage", row), before("\n- **Conformance**", proof)),
		"docs/README.md":                              both(before("\n### Fields\n", page), before("\n## Explanation\n", fields)),
	} {
		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return err
		}
		if write[path], err = line(string(content)); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	for path, content := range write {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// of calls another cloud's text by this cloud's names.
func (c cloud) of(name, text string) string {
	title := strings.ToUpper(name[:1]) + name[1:]
	return strings.NewReplacer(title+"Machine", c.kind+"Machine", title, c.kind, name, c.name).Replace(text)
}

// both makes one change after the other.
func both(first, second func(string) (string, error)) func(string) (string, error) {
	return func(text string) (string, error) {
		text, err := first(text)
		if err != nil {
			return "", err
		}
		return second(text)
	}
}

// before puts a line before a place in a text, which has to be there once.
func before(place, line string) func(string) (string, error) {
	return func(text string) (string, error) {
		if strings.Count(text, place) != 1 {
			return "", fmt.Errorf("the place to add to, %q, is not there once", place)
		}
		return strings.Replace(text, place, line+place, 1), nil
	}
}
