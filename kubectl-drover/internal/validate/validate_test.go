// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// TestCheck has documents that are not objects of Drover, or no objects.
func TestCheck(t *testing.T) {
	t.Parallel()
	v, err := New()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		text    string
		object  string
		skipped bool
		problem string
	}{
		"skips an object of another project":      {"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n", "Secret s", true, ""},
		"skips a group that only ends like ours":  {"apiVersion: infrastructure.drover.io.example.org/v1\nkind: X\n", "X", true, ""},
		"needs a kind":                            {"metadata: {name: x}\n", "x", false, "an object has an apiVersion and a kind"},
		"needs an object":                         {"- a\n", "", false, "cannot unmarshal array"},
		"finds a version that is not served":      {"apiVersion: cluster.x-k8s.io/v1alpha9\nkind: Machine\n", "Machine", false, "v1alpha9"},
		"finds a key that is there twice":         {"apiVersion: v1\nkind: A\nkind: B\n", "", false, "already set"},
		"finds what is not YAML":                  {"a: [\n", "", false, "did not find expected"},
		"finds aliases that grow without a limit": {"a: &a [x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c]\ne: &e [*d, *d, *d, *d, *d, *d, *d, *d]\nf: &f [*e, *e, *e, *e, *e, *e, *e, *e]\ng: [*f, *f, *f, *f, *f, *f, *f, *f]\n", "", false, "alias"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The first document is empty, and is counted.
			results, err := v.Check("f", strings.NewReader("# nothing\n---\n"+test.text))
			if err != nil || len(results) != 1 {
				t.Fatalf("got %+v, error %v", results, err)
			}
			r := results[0]
			if r.File != "f" || r.Document != 2 || r.Object != test.object || r.Skipped != test.skipped || (len(r.Problems) > 0) != (test.problem != "") || !strings.Contains(strings.Join(r.Problems, ""), test.problem) {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// TestCheckHasALimit has a file that is too large by one byte, and one that cannot be read to its end.
func TestCheckHasALimit(t *testing.T) {
	t.Parallel()
	v, err := New()
	if err != nil {
		t.Fatal(err)
	}
	if results, err := v.Check("f", strings.NewReader(strings.Repeat("#", maxFile+1))); err == nil || results != nil || err.Error() != "f has more than 16777216 bytes" {
		t.Errorf("got %+v, error %v", results, err)
	}
	broken := errors.New("broken")
	if results, err := v.Check("f", iotest.ErrReader(broken)); !errors.Is(err, broken) || results != nil {
		t.Errorf("got %+v, error %v", results, err)
	}
}

// TestFilesOfAFolder leaves out other files and folders.
func TestFilesOfAFolder(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, name := range []string{"b.yml", "a.yaml", "c.json", "d.txt", "yaml"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(folder, "e.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	got, err := Files(folder)
	want := []string{filepath.Join(folder, "a.yaml"), filepath.Join(folder, "b.yml"), filepath.Join(folder, "c.json")}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, files (-want +got):\n%s", err, diff)
	}
	if got, err := Files(filepath.Join(folder, "d.txt")); err != nil || len(got) != 1 {
		t.Errorf("one file: %v, error %v", got, err)
	}
}
