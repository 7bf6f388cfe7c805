// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package guides

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// block is a fenced block of a page.
type block struct {
	// info are the words behind the fence: a language, and for commands that TestGuides does not run the reason.
	info []string
	text string
}

// fenced matches a block, which may stand in an item of a list.
var fenced = regexp.MustCompile("(?ms)^( *)```([^\n]*)\n(.*?)^ *```$")

// blocks returns the blocks of a page, without the indentation of a list.
func blocks(page string) []block {
	var all []block
	for _, found := range fenced.FindAllStringSubmatch(page, -1) {
		lines := strings.Split(found[3], "\n")
		for i, line := range lines {
			lines[i] = strings.TrimPrefix(line, found[1])
		}
		all = append(all, block{strings.Fields(found[2]), strings.Join(lines, "\n")})
	}
	return all
}

// commands reports whether TestGuides runs the block as it is written.
func (b block) commands() bool { return len(b.info) == 0 }

// notRun are the reasons for which commands are not run by TestGuides. The name of a test that runs them is another one.
var notRun = map[string]string{
	"cloud":        "it needs a real cloud, or an account there",
	"installation": "it needs managers that run as Pods, a registry, or a second installation",
	"make":         "it has targets of the Makefile, which TestCommandBlocks looks up",
}

// data are the languages of blocks that are no commands.
var data = []string{"ini", "json", "mermaid", "promql", "text", "yaml"}

var (
	// program matches a line that begins as a command does.
	program    = regexp.MustCompile(`(?m)^(\$ )?(sudo |[A-Z_]+=\S+ )*(apt|aws|az|clusterctl|curl|doctl|export|gcloud|go|hcloud|helm|kubectl|make|openssl|openstack) `)
	makeTarget = regexp.MustCompile(`(?m)\bmake ([a-z0-9-]+)`)
	target     = regexp.MustCompile(`(?m)^([a-z0-9-]+):`)
	markTest   = regexp.MustCompile(`^Test[A-Z]\w*$`)
)

// TestCommandBlocks checks that each block of commands in docs is run by TestGuides, names the test that runs it, or has a
// reason for which none does, and that no other block hides commands.
func TestCommandBlocks(t *testing.T) {
	t.Parallel()
	root, files := repository(t)
	makefile := text(t, filepath.Join(root, "Makefile"))
	var targets []string
	for _, found := range target.FindAllStringSubmatch(makefile, -1) {
		targets = append(targets, found[1])
	}
	var tests []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			for _, found := range testFunc.FindAllStringSubmatch(text(t, file), -1) {
				tests = append(tests, found[1])
			}
		}
	}
	count := 0
	for _, name := range documents(t, root) {
		for _, b := range blocks(text(t, filepath.Join(root, "docs", name+".md"))) {
			if problem := check(name, b, targets, tests); problem != "" {
				t.Errorf("docs/%s.md: %s\n%s", name, problem, b.text)
			}
			count++
		}
	}
	if count < 100 {
		t.Errorf("found %d blocks only", count)
	}
}

// check returns what is wrong with a block, or nothing.
func check(page string, b block, targets, tests []string) string {
	if b.commands() {
		if !isRun(page) {
			return "TestGuides does not run this page: add it there, or mark the block, as in ```sh cloud"
		}
		return ""
	}
	if b.info[0] != "sh" {
		switch {
		case !slices.Contains(data, b.info[0]):
			return "the language " + b.info[0] + " is unknown: commands have none, or sh with the reason for which they are not run"
		case program.MatchString(b.text) && b.info[0] != "yaml":
			return "this block has commands, so it must not be marked as " + b.info[0]
		}
		return ""
	}
	if len(b.info) != 2 {
		return "sh needs one reason for which the commands are not run"
	}
	mark := b.info[1]
	switch _, known := notRun[mark]; {
	case markTest.MatchString(mark) && !slices.Contains(tests, mark):
		return "there is no " + mark
	case !known && !markTest.MatchString(mark):
		return mark + " is no reason"
	case mark == "make":
		return checkTargets(b.text, targets)
	}
	return ""
}

// checkTargets returns what is wrong with commands that are marked as targets of the Makefile, or nothing.
func checkTargets(commands string, targets []string) string {
	found := makeTarget.FindAllStringSubmatch(commands, -1)
	if len(found) == 0 {
		return "it has no target of the Makefile"
	}
	for _, one := range found {
		if !slices.Contains(targets, one[1]) {
			return "the Makefile has no target " + one[1]
		}
	}
	return ""
}

// logsOfDeployment matches a command that reads logs by the name of a Deployment.
var logsOfDeployment = regexp.MustCompile(`kubectl logs [^|` + "`" + `\n]*deployment/[^|` + "`" + `\n]*`)

// TestLogsAreOfAllReplicas: a manager has two replicas by default, and without --all-pods kubectl reads the log of one of them,
// which need not be the one that leads.
func TestLogsAreOfAllReplicas(t *testing.T) {
	t.Parallel()
	root, _ := repository(t)
	count := 0
	for _, name := range documents(t, root) {
		for _, command := range logsOfDeployment.FindAllString(text(t, filepath.Join(root, "docs", name+".md")), -1) {
			count++
			if !strings.Contains(command, " --all-pods") {
				t.Errorf("docs/%s.md reads the log of one replica only: %s", name, command)
			}
		}
	}
	if count < 7 {
		t.Errorf("found %d commands only", count)
	}
}

// TestCheckRefuses shows that TestCommandBlocks can fail.
func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		page, info, text string
		fails            bool
	}{
		"commands of a page that is run":         {"guides/freeze", "", "kubectl get machines\n", false},
		"commands of a page that is not run":     {"guides/unknown", "", "kubectl get machines\n", true},
		"commands without a reason":              {"guides/freeze", "sh", "kubectl get machines\n", true},
		"an unknown reason":                      {"guides/freeze", "sh later", "kubectl get machines\n", true},
		"a real cloud":                           {"guides/unknown", "sh cloud", "kubectl get machines\n", false},
		"a test that runs them":                  {"guides/unknown", "sh TestKnown", "kubectl get machines\n", false},
		"a test that does not exist":             {"guides/unknown", "sh TestUnknown", "kubectl get machines\n", true},
		"a target of the Makefile":               {"guides/unknown", "sh make", "make known ARGS=--x\n", false},
		"a target that the Makefile has not":     {"guides/unknown", "sh make", "make unknown\n", true},
		"an unknown language":                    {"guides/freeze", "console", "kubectl get machines\n", true},
		"commands that are marked as text":       {"guides/freeze", "text", "kubectl get machines\n", true},
		"a variable before a command":            {"guides/freeze", "text", "A=b kubectl get machines\n", true},
		"text that names a program in the midst": {"guides/freeze", "text", "see kubectl get machines\n", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			problem := check(test.page, block{strings.Fields(test.info), test.text}, []string{"known"}, []string{"TestKnown"})
			if (problem != "") != test.fails {
				t.Errorf("problem %q, want one: %t", problem, test.fails)
			}
		})
	}
}

func TestBlocks(t *testing.T) {
	t.Parallel()
	page := "# Page\n\n```\none\n```\n\n1. In a list:\n\n   ```sh cloud\n   two\n     deeper\n   ```\n\n```yaml\na: b\n```\n"
	var got []string
	for _, b := range blocks(page) {
		got = append(got, strings.Join(b.info, " ")+":"+b.text)
	}
	if want := []string{":one\n", "sh cloud:two\n  deeper\n", "yaml:a: b\n"}; !slices.Equal(got, want) {
		t.Errorf("blocks are %q, want %q", got, want)
	}
}

// contents matches a link to a page in docs/README.md.
var contents = regexp.MustCompile(`(?m)^ *- \[[^\]]+\]\(([^)#]+)\.md\)`)

// TestContentsAreComplete checks that docs/README.md, from which the site takes its navigation, lists each page once.
func TestContentsAreComplete(t *testing.T) {
	t.Parallel()
	root, _ := repository(t)
	listed := map[string]int{}
	for _, found := range contents.FindAllStringSubmatch(text(t, filepath.Join(root, "docs", "README.md")), -1) {
		listed[found[1]]++
	}
	for _, name := range documents(t, root) {
		if name != "README" && listed[name] != 1 {
			t.Errorf("docs/README.md lists %s.md %d times, want once", name, listed[name])
		}
	}
}

// documents returns the pages below docs without their extension, such as guides/freeze.
func documents(t *testing.T, root string) []string {
	t.Helper()
	folder := os.DirFS(filepath.Join(root, "docs"))
	var names []string
	for _, pattern := range []string{"*.md", "*/*.md", "*/*/*.md"} {
		found, err := fs.Glob(folder, pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range found {
			names = append(names, strings.TrimSuffix(name, ".md"))
		}
	}
	if len(names) < 50 {
		t.Fatalf("found %d pages only", len(names))
	}
	return names
}
