// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command newprovider scaffolds the provider of a new cloud: its kinds, its driver with a client over HTTP, the fake cloud of
// its tests, the conformance suite and the other tests that every driver has, its command, manifests and reference page. What
// all clouds have alike is copied from the simulated one, so that there is one place to change it.
//
// It writes files and adds lines to lists, and generates nothing: `make new-provider` does both. What it cannot write is in
// docs/contracts/driver.md, "A new cloud".
package main

import (
	"embed"
	"errors"
	"flag"
	"fmt"
	"go/format"
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
	fmt.Print(cloud.of("acme", next))
}

// next is what to do after the files are written.
const next = `infra-providers/acme has a driver for a cloud that does not exist, and its tests pass:

  make control-plane
  cd infra-providers && KUBEBUILDER_ASSETS=$PWD/../bin/k8s GOWORK=off go test ./acme/...

What to replace: grep -rn REPLACE infra-providers/acme docs/reference/acmemachine.md
What to add elsewhere: docs/contracts/driver.md, "A new cloud"

`

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
		"types.go.tmpl":            "api/infrastructure/v1alpha1/acmemachine_types.go",
		"config.go.tmpl":           "infra-providers/acme/config.go",
		"driver.go.tmpl":           "infra-providers/acme/driver.go",
		"abilities.go.tmpl":        "infra-providers/acme/abilities.go",
		"instance.go.tmpl":         "infra-providers/acme/instance.go",
		"errors.go.tmpl":           "infra-providers/acme/errors.go",
		"credentials.go.tmpl":      "infra-providers/acme/credentials.go",
		"client.go.tmpl":           "infra-providers/acme/client.go",
		"driver_test.go.tmpl":      "infra-providers/acme/driver_test.go",
		"errors_test.go.tmpl":      "infra-providers/acme/errors_test.go",
		"credentials_test.go.tmpl": "infra-providers/acme/credentials_test.go",
		"exactlyonce_test.go.tmpl": "infra-providers/acme/exactlyonce_test.go",
		"faults_test.go.tmpl":      "infra-providers/acme/faults_test.go",
		"reconcile_test.go.tmpl":   "infra-providers/acme/reconcile_test.go",
		"request_test.go.tmpl":     "infra-providers/acme/request_test.go",
		"validation_test.go.tmpl":  "infra-providers/acme/validation_test.go",
		"fakecloud.go.tmpl":        "infra-providers/acme/acmefake/cloud.go",
		"fakeserver.go.tmpl":       "infra-providers/acme/acmefake/server.go",
		"main.go.tmpl":             "infra-providers/cmd/acme/main.go",
		"manager.yaml.tmpl":        "infra-providers/config/manager/acme/manager.yaml",
		"page.md.tmpl":             "docs/reference/acmemachine.md",
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

// lists are the files with one entry for each cloud, to which those of this one are added.
var lists = map[string]func(c cloud) []change{
	"api/infrastructure/v1alpha1/groupversion.go": func(c cloud) []change {
		return []change{before("\t)\n\tmetav1.AddToGroupVersion", fmt.Sprintf(
			"\t\t&%[1]sMachine{}, &%[1]sMachineList{},\n\t\t&%[1]sMachineTemplate{}, &%[1]sMachineTemplateList{},\n", c.kind))}
	},
	"docs/reference/providers.md": func(c cloud) []change {
		return []change{
			among("(?m)^\\| `\\w+` \\| \\[\\w+]\\(\\w+\\.md\\), .*\\n", fmt.Sprintf("| `%[1]s` | [%[2]sMachine](%[1]smachine.md), %[2]sMachineTemplate | `%[1]s:///<zone>/<name>` |\n", c.name, c.kind)),
			among("(?m)^\\| `\\w+` \\| .* (lives|lifecycles)\\b.*\\n", fmt.Sprintf("| `%s` | a stateful project behind HTTPS, whose servers take time; lists have pages and are late | **nothing** yet | 40 lifecycles |\n", c.name)),
		}
	},
	"docs/README.md": func(c cloud) []change {
		return []change{
			among("(?m)^- \\[\\w+Machine]\\(reference/\\w+machine\\.md\\)\\n", fmt.Sprintf("- [%[2]sMachine](reference/%[1]smachine.md)\n", c.name, c.kind)),
			among("(?m)^- \\[\\w+Machine]\\(reference/api/\\w+machine\\.md\\)\\n", fmt.Sprintf("- [%[2]sMachine](reference/api/%[1]smachine.md)\n", c.name, c.kind)),
		}
	},
	"monitoring/kube-state-metrics.yaml": func(c cloud) []change {
		return []change{among(`  - groupVersionKind: \{group: infrastructure\.drover\.io, version: v1alpha1, kind: \w+Machine}\n(    .*\n)+`, fmt.Sprintf(
			`  - groupVersionKind: {group: infrastructure.drover.io, version: v1alpha1, kind: %sMachine}
    metricNamePrefix: drover_%smachine
    labelsFromPath: {namespace: [metadata, namespace], name: [metadata, name], cluster: [metadata, labels, cluster.x-k8s.io/cluster-name]}
    metrics:
    - *created
    - *deleted
    - *condition
    - *instance
`, c.kind, c.name))}
	},
	".github/workflows/soak.yml": func(c cloud) []change {
		return []change{before("]\n    runs-on: ubuntu-latest\n", ", "+c.name)}
	},
}

// scaffold writes everything, or refuses before it wrote anything.
func (c cloud) scaffold(root string) error {
	write, err := c.newFiles(root)
	if err != nil {
		return err
	}
	for path := range write {
		if _, err := os.Stat(filepath.Join(root, path)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s exists: remove what an earlier run left, or choose another name", path)
		}
	}
	for path, changes := range lists {
		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return err
		}
		text := string(content)
		for _, change := range changes(c) {
			if text, err = change(text); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		write[path] = text
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

// newFiles returns the files of the cloud by path.
func (c cloud) newFiles(root string) (map[string]string, error) {
	write := map[string]string{}
	for from, to := range files {
		content, err := templates.ReadFile("templates/" + from)
		if err != nil {
			return nil, err
		}
		write[c.of("acme", to)] = c.of("acme", string(content))
	}
	for _, from := range copies {
		content, err := os.ReadFile(filepath.Join(root, from))
		if err != nil {
			return nil, err
		}
		// The simulated machine needs no field; this one does, so its spec has no default.
		text := strings.Replace(string(content), "// +optional\n\t// +default={}", "// +required", 1)
		write[c.of("sim", from)] = c.of("sim", text)
	}
	for path, content := range write {
		if filepath.Ext(path) != ".go" {
			continue
		}
		// The order of imports and the width of columns depend on the name.
		formatted, err := format.Source([]byte(content))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		write[path] = string(formatted)
	}
	return write, nil
}

// of calls another cloud's text by this cloud's names.
func (c cloud) of(name, text string) string {
	title := strings.ToUpper(name[:1]) + name[1:]
	return strings.NewReplacer(title+"Machine", c.kind+"Machine", title, c.kind, strings.ToUpper(name)+"_", strings.ToUpper(c.name)+"_", name, c.name).Replace(text)
}

// change is a change of a text.
type change func(text string) (string, error)

// before puts a line before a place in a text, which has to be there once.
func before(place, line string) change {
	return func(text string) (string, error) {
		if strings.Count(text, place) != 1 {
			return "", fmt.Errorf("the place to add to, %q, is not there once", place)
		}
		return strings.Replace(text, place, line+place, 1), nil
	}
}

// among puts an entry among those of a pattern, before the first that is greater without regard to case, or after the last.
func among(pattern, entry string) change {
	return func(text string) (string, error) {
		found := regexp.MustCompile(pattern).FindAllStringIndex(text, -1)
		if len(found) == 0 {
			return "", fmt.Errorf("there is no entry like %q to add to", pattern)
		}
		at := found[len(found)-1][1]
		for _, other := range found {
			if strings.ToLower(text[other[0]:other[1]]) > strings.ToLower(entry) {
				at = other[0]
				break
			}
		}
		return text[:at] + entry + text[at:], nil
	}
}
