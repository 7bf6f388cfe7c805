// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// namedRole finds the name of a ClusterRole of the chart in a sentence or a command.
var namedRole = regexp.MustCompile("(?i:clusterrole)[ `]+(drover-[a-z:-]*[a-z])")

// TestClusterRolesThatTheDocumentationNamesExist: a binding to one that does not exist is created without an error.
func TestClusterRolesThatTheDocumentationNamesExist(t *testing.T) {
	t.Parallel()
	infrastructure := map[string]any{}
	for _, cloud := range clouds(t) {
		infrastructure[cloud] = nil
	}
	objects, err := assemble(t).Render(Namespace, map[string]any{"infrastructure": infrastructure, "metrics": map[string]any{"secure": true}})
	if err != nil {
		t.Fatal(err)
	}
	exists := map[string]bool{}
	for _, object := range objects {
		if object.GetKind() == "ClusterRole" {
			exists[object.GetName()] = true
		}
	}
	named := 0
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".md") {
			return err
		}
		content, err := os.ReadFile(path)
		for _, match := range namedRole.FindAllStringSubmatch(string(content), -1) {
			named++
			if !exists[match[1]] {
				t.Errorf("%s names the ClusterRole %q, which is not installed", path, match[1])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if named < 6 {
		t.Errorf("only %d ClusterRoles are named", named)
	}
}
