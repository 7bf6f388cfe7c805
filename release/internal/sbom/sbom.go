// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package sbom writes software bills of materials in the format SPDX 2.3 from what Go recorded in a binary: the modules
// that were compiled in, their versions and checksums, and the release of Go. What a binary does not contain is not listed.
package sbom

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// Subject is the binary that is described.
type Subject struct {
	// Path of the file and the name that it is listed by.
	Path, Name string
	// Version of the release, and when its source was committed: the time of the document.
	Version string
	Created time.Time
}

// unknown is what SPDX writes where the author makes no statement.
const unknown = "NOASSERTION"

// New returns the document as JSON. The same binary always gives the same bytes.
func New(s Subject) ([]byte, error) {
	content, err := os.ReadFile(s.Path)
	if err != nil {
		return nil, fmt.Errorf("reading the binary: %w", err)
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("reading what Go recorded in %s: %w", s.Path, err)
	}
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	document := &spdx.Document{
		SPDXVersion:       spdx.Version,
		DataLicense:       spdx.DataLicense,
		SPDXIdentifier:    "DOCUMENT",
		DocumentName:      s.Name,
		DocumentNamespace: "https://drover.io/sbom/" + s.Name + "-" + digest,
		CreationInfo: &spdx.CreationInfo{
			Created:  s.Created.UTC().Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "drover-release"}},
		},
	}
	main := program(s, info, digest)
	document.Packages = append(document.Packages, main)
	document.Relationships = append(document.Relationships, relation("DOCUMENT", common.TypeRelationshipDescribe, main.PackageSPDXIdentifier))
	for _, m := range append(info.Deps, &debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}) {
		part := module(m, s.Version)
		document.Packages = append(document.Packages, part)
		document.Relationships = append(document.Relationships, relation(main.PackageSPDXIdentifier, common.TypeRelationshipContains, part.PackageSPDXIdentifier))
	}
	var out bytes.Buffer
	if err := spdxjson.Write(document, &out, spdxjson.Indent("  ")); err != nil {
		return nil, fmt.Errorf("encoding the document: %w", err)
	}
	return out.Bytes(), nil
}

// program describes the binary itself.
func program(s Subject, info *debug.BuildInfo, digest string) *spdx.Package {
	p := newPackage(s.Name, s.Version, "pkg:golang/"+info.Path+"@"+s.Version)
	p.PackageSPDXIdentifier = "Binary"
	p.PackageLicenseDeclared = "Apache-2.0"
	p.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: digest}}
	p.PrimaryPackagePurpose = "APPLICATION"
	return p
}

// module describes a module that was compiled in. Modules of this repository have the version of the release.
func module(m *debug.Module, release string) *spdx.Package {
	m = cmp.Or(m.Replace, m)
	if strings.HasPrefix(m.Path, "../") {
		m = &debug.Module{Path: "drover.io/" + strings.TrimPrefix(m.Path, "../"), Version: release}
	}
	p := newPackage(m.Path, m.Version, "pkg:golang/"+m.Path+"@"+m.Version)
	p.PackageLicenseDeclared = unknown
	if strings.HasPrefix(m.Path, "drover.io/") {
		p.PackageLicenseDeclared = "Apache-2.0"
	}
	// The checksum database's hash of the module's files, which go.sum has in Base64.
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) > 0 {
		p.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: hex.EncodeToString(sum)}}
	}
	return p
}

func newPackage(name, version, url string) *spdx.Package {
	return &spdx.Package{
		PackageName:             name,
		PackageSPDXIdentifier:   common.ElementID("Module-" + identifier.ReplaceAllString(name+"-"+version, "-")),
		PackageVersion:          version,
		PackageDownloadLocation: unknown,
		PackageLicenseConcluded: unknown,
		PackageCopyrightText:    unknown,
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: url,
		}},
	}
}

// identifier matches what an SPDX identifier must not contain.
var identifier = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

func relation(from common.ElementID, kind string, to common.ElementID) *spdx.Relationship {
	return &spdx.Relationship{
		RefA:         common.MakeDocElementID("", string(from)),
		RefB:         common.MakeDocElementID("", string(to)),
		Relationship: kind,
	}
}
