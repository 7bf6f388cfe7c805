// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package version has the version of the project that a binary was built from.
package version

import (
	"fmt"
	"runtime/debug"
)

// version is set by releases: -ldflags "-X drover.io/runtime/version.version=v1.2.3".
var version string

// Info describes a build.
type Info struct {
	// Version is that of the release; "unreleased" where the binary is of none.
	Version string
	// Revision is the commit, followed by "-dirty" where files differed from it; "unknown" where Go did not record it.
	Revision string
	// Go is the version of the compiler.
	Go string
}

// Get returns the Info of this binary.
func Get() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{}
	}
	return info(version, build)
}

func info(release string, build *debug.BuildInfo) Info {
	found := Info{Version: "unreleased", Revision: "unknown", Go: build.GoVersion}
	if release != "" {
		found.Version = release
	}
	dirty := ""
	for _, setting := range build.Settings {
		switch {
		case setting.Key == "vcs.revision":
			found.Revision = setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			dirty = "-dirty"
		}
	}
	if found.Revision != "unknown" {
		found.Revision += dirty
	}
	return found
}

// String is one line for --version.
func (i Info) String() string {
	return fmt.Sprintf("%s (revision %s, %s)", i.Version, i.Revision, i.Go)
}
