// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package sbom

import (
	"encoding/base64"
	"encoding/hex"
	"regexp"
	"runtime/debug"
	"testing"
)

// TestModulesAsGoRecordsThem has a module of the proxy, a replaced one, one of this repository, and one without a checksum.
func TestModulesAsGoRecordsThem(t *testing.T) {
	t.Parallel()
	sum := []byte("0123456789abcdef0123456789abcdef")
	h1 := "h1:" + base64.StdEncoding.EncodeToString(sum)
	for title, test := range map[string]struct {
		module                          *debug.Module
		name, version, license, locator string
		checksum                        bool
	}{
		"of the proxy":       {&debug.Module{Path: "example.org/a", Version: "v1.0.0", Sum: h1}, "example.org/a", "v1.0.0", unknown, "pkg:golang/example.org/a@v1.0.0", true},
		"replaced":           {&debug.Module{Path: "example.org/a", Version: "v1.0.0", Sum: "h1:eA==", Replace: &debug.Module{Path: "example.org/b", Version: "v2.0.0", Sum: h1}}, "example.org/b", "v2.0.0", unknown, "pkg:golang/example.org/b@v2.0.0", true},
		"of this repository": {&debug.Module{Path: "drover.io/api", Version: "v0.0.0", Replace: &debug.Module{Path: "../api"}}, "drover.io/api", "v9.9.9", "Apache-2.0", "pkg:golang/drover.io/api@v9.9.9", false},
		"without a checksum": {&debug.Module{Path: "std", Version: "1.26.0"}, "std", "1.26.0", unknown, "pkg:golang/std@1.26.0", false},
		"of another hash":    {&debug.Module{Path: "example.org/a", Version: "v1.0.0", Sum: "h2:???"}, "example.org/a", "v1.0.0", unknown, "pkg:golang/example.org/a@v1.0.0", false},
	} {
		p := module(test.module, "v9.9.9")
		if p.PackageName != test.name || p.PackageVersion != test.version || p.PackageLicenseDeclared != test.license || p.PackageExternalReferences[0].Locator != test.locator {
			t.Errorf("%s: got %+v", title, p)
		}
		if (len(p.PackageChecksums) == 1) != test.checksum || test.checksum && p.PackageChecksums[0].Value != hex.EncodeToString(sum) {
			t.Errorf("%s: checksums %+v", title, p.PackageChecksums)
		}
		if !regexp.MustCompile(`^[A-Za-z0-9.-]+$`).MatchString(string(p.PackageSPDXIdentifier)) {
			t.Errorf("%s: %q is no identifier of SPDX", title, p.PackageSPDXIdentifier)
		}
	}
	if a, b := module(&debug.Module{Path: "a/b", Version: "v1"}, ""), module(&debug.Module{Path: "a/b", Version: "v2"}, ""); a.PackageSPDXIdentifier == b.PackageSPDXIdentifier {
		t.Errorf("two versions of a module are both %q", a.PackageSPDXIdentifier)
	}
}
