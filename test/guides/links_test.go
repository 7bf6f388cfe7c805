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

	"drover.io/test/controlplane/binaries"
)

var (
	link       = regexp.MustCompile(`\[[^\[\]]*\]\(([^)\s]+)\)`)
	heading    = regexp.MustCompile(`(?m)^#+ (.+)$`)
	inlineCode = regexp.MustCompile("`[^`\n]+`")
	codeBlock  = regexp.MustCompile("(?s)\n```.*?\n```")
	testName   = regexp.MustCompile("`(Test[A-Z]\\w*)`")
	testFunc   = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(`)
	notInSlugs = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// skippedFolders hold no documents and no tests of the project.
var skippedFolders = []string{".git", "bin", "dist", "node_modules", "testdata", "templates"}

// TestLinks checks that each relative link in a Markdown file leads to a file and a heading that exist.
func TestLinks(t *testing.T) {
	t.Parallel()
	root, files := repository(t)
	for _, file := range files {
		if filepath.Ext(file) != ".md" {
			continue
		}
		for _, found := range links(text(t, file)) {
			target, anchor, _ := strings.Cut(found, "#")
			if strings.Contains(target, "://") {
				continue
			}
			path := file
			if target != "" {
				path = filepath.Join(filepath.Dir(file), target)
			}
			name := strings.TrimPrefix(file, root+"/")
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: link %s: %v", name, found, err)
				continue
			}
			if anchor != "" && !slices.Contains(anchors(text(t, path)), anchor) {
				t.Errorf("%s: link %s: no such heading", name, found)
			}
		}
	}
}

// TestNamedTestsExist checks that each test that a Markdown file names is in the code.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	root, files := repository(t)
	known := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, ".go") {
			for _, found := range testFunc.FindAllStringSubmatch(text(t, file), -1) {
				known[found[1]] = true
			}
		}
	}
	for _, file := range files {
		if filepath.Ext(file) != ".md" {
			continue
		}
		for _, found := range testName.FindAllStringSubmatch(text(t, file), -1) {
			if !known[found[1]] {
				t.Errorf("%s: there is no %s", strings.TrimPrefix(file, root+"/"), found[1])
			}
		}
	}
}

// links returns where the links of a page lead. A bracket behind a backslash, and brackets in code, are none.
func links(page string) []string {
	page = inlineCode.ReplaceAllString(codeBlock.ReplaceAllString(page, ""), "")
	var all []string
	for _, found := range link.FindAllStringSubmatch(strings.ReplaceAll(page, `\[`, ""), -1) {
		all = append(all, found[1])
	}
	return all
}

func TestLinksOfAPage(t *testing.T) {
	t.Parallel()
	page := "[a](a.md) and [`b`](b.md#c), ![d](d.svg), `[-a-z0-9](no)`, \\[e](no)\n\n```\n[f](no)\n```\n"
	if got, want := links(page), []string{"a.md", "b.md#c", "d.svg"}; !slices.Equal(got, want) {
		t.Errorf("links are %q, want %q", got, want)
	}
}

// anchors returns the anchors of the headings, as GitHub makes them.
func anchors(text string) []string {
	var all []string
	for _, found := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		slug := notInSlugs.ReplaceAllString(strings.ToLower(found[1]), "")
		all = append(all, strings.ReplaceAll(slug, " ", "-"))
	}
	return all
}

// repository returns the root of the repository and the paths of its files.
func repository(t *testing.T) (root string, files []string) {
	t.Helper()
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(skippedFolders, entry.Name()):
			return filepath.SkipDir
		case entry.Type().IsRegular():
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return root, files
}

func text(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.IsDir() {
		return ""
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
