// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package reason

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const upstream = "sigs.k8s.io/cluster-api/api/core/v1beta2"

// sources are the folders whose code sets conditions.
var sources = []string{"../bootstrap", "../infrastructure", "../policy", "../../runtime", "../../bootstrap", "../../machine-controller", "../../infra-providers"}

// TestEveryReasonInTheCodeHasAnEntry reads the code of all managers: each constant that is called a reason, each of Cluster
// API's that is used, and each literal in a condition.
func TestEveryReasonInTheCodeHasAnEntry(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, e := range All() {
		known[e.Reason] = true
	}
	used := reasonsInCode(t)
	if len(used) < 100 {
		t.Fatalf("only %d reasons were found in the code", len(used))
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if !known[name] {
			t.Errorf("the reason %q of %s has no entry: add one that says what it means, who must act and what helps", name, used[name])
		}
	}
	for name := range known {
		if _, is := used[name]; !is {
			t.Errorf("the reason %q has an entry, and no code sets it", name)
		}
	}
}

// TestEveryReasonOfAConnectionHasAnEntry reads the constants of the type Reason of machine-controller's connections.
func TestEveryReasonOfAConnectionHasAnEntry(t *testing.T) {
	t.Parallel()
	tree, err := parser.ParseFile(token.NewFileSet(), "../../machine-controller/internal/workload/state.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(tree, func(node ast.Node) bool {
		spec, is := node.(*ast.ValueSpec)
		if !is {
			return true
		}
		if kind, is := spec.Type.(*ast.Ident); is && kind.Name == "Reason" {
			word, _ := literal(spec.Values[0])
			found++
			if _, known := RemoteConnectionProbeMessage(word + ": more"); !known {
				t.Errorf("the reason %q of a connection has no entry", word)
			}
		}
		return true
	})
	if all := len(RemoteConnectionProbeMessages()); found != all || found == 0 {
		t.Errorf("the code has %d reasons of connections, the table %d", found, all)
	}
}

// reasonsInCode returns the reasons with the position of one of their uses.
func reasonsInCode(t *testing.T) map[string]string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", upstream)
	folder, err := list.Output()
	if err != nil {
		t.Fatalf("finding Cluster API's source: %v", err)
	}
	constants := upstreamConstants(t, strings.TrimSpace(string(folder)))
	used := map[string]string{}
	for _, source := range sources {
		files := goFiles(t, source)
		if len(files) == 0 {
			t.Fatalf("no Go files in %s", source)
		}
		for _, file := range files {
			set := token.NewFileSet()
			tree, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for name, at := range reasonsIn(tree, constants) {
				used[name] = set.Position(at).String()
			}
		}
	}
	return used
}

// reasonsIn returns the reasons of one file.
func reasonsIn(file *ast.File, constants map[string]ast.Expr) map[string]token.Pos {
	found := map[string]token.Pos{}
	alias := importedAs(file, upstream)
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if strings.HasSuffix(name.Name, "Reason") && i < len(n.Values) {
					if text, is := literal(n.Values[i]); is {
						found[text] = n.Pos()
					}
				}
			}
		case *ast.SelectorExpr:
			if pkg, is := n.X.(*ast.Ident); is && pkg.Name == alias && strings.HasSuffix(n.Sel.Name, "Reason") {
				if text := resolve(n.Sel, constants); text != "" {
					found[text] = n.Pos()
				}
			}
		case *ast.CompositeLit:
			if kind, is := n.Type.(*ast.SelectorExpr); is && kind.Sel.Name == "Condition" {
				maps.Copy(found, literalReasons(n))
			}
		}
		return true
	})
	return found
}

func literalReasons(condition *ast.CompositeLit) map[string]token.Pos {
	found := map[string]token.Pos{}
	for _, element := range condition.Elts {
		pair, is := element.(*ast.KeyValueExpr)
		if !is {
			continue
		}
		if key, is := pair.Key.(*ast.Ident); is && key.Name == "Reason" {
			if text, is := literal(pair.Value); is && text != "" {
				found[text] = pair.Pos()
			}
		}
	}
	return found
}

// upstreamConstants are the values of Cluster API's constants, as expressions.
func upstreamConstants(t *testing.T, folder string) map[string]ast.Expr {
	t.Helper()
	constants := map[string]ast.Expr{}
	for _, file := range goFiles(t, folder) {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(node ast.Node) bool {
			if n, is := node.(*ast.ValueSpec); is {
				for i, name := range n.Names {
					if i < len(n.Values) {
						constants[name.Name] = n.Values[i]
					}
				}
			}
			return true
		})
	}
	return constants
}

// resolve follows constants that are defined by others.
func resolve(expression ast.Expr, constants map[string]ast.Expr) string {
	for expression != nil {
		if text, is := literal(expression); is {
			return text
		}
		name, is := expression.(*ast.Ident)
		if !is {
			return ""
		}
		expression = constants[name.Name]
	}
	return ""
}

func literal(expression ast.Expr) (string, bool) {
	l, is := expression.(*ast.BasicLit)
	if !is || l.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}

func importedAs(file *ast.File, path string) string {
	for _, each := range file.Imports {
		if text, _ := literal(each.Path); text == path && each.Name != nil {
			return each.Name.Name
		}
	}
	return ""
}

// goFiles are those that become part of a program.
func goFiles(t *testing.T, root string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
