// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"k8s.io/apimachinery/pkg/util/validation"

	"drover.io/release/internal/clusterctl"
)

// semantic is a version as a Go module, an image tag, Helm and clusterctl all accept it.
var semantic = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-` + identifier + `(\.` + identifier + `)*)?$`)

// identifier is a part of a pre-release: a number without leading zeros, or a word.
const identifier = `(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)`

func checkVersion(version string) error {
	if !semantic.MatchString(version) {
		return fmt.Errorf("--version must be a semantic version such as v0.1.0 or v0.2.0-rc.1, not %q", version)
	}
	if problems := validation.IsValidLabelValue(version); len(problems) > 0 { // it is a label of every object
		return fmt.Errorf("--version %q: %s", version, strings.Join(problems, "; "))
	}
	_, err := clusterctl.Metadata(version)
	return err
}

// checkRegistry checks that names of images can begin with a registry and path.
func checkRegistry(registry string) error {
	if registry == "" {
		return errors.New("--registry must be a registry and path such as registry.example.org/drover")
	}
	if strings.Contains(registry, "//") || strings.HasSuffix(registry, "/") {
		return fmt.Errorf("--registry %q must be a registry and path without scheme, and not end with /", registry)
	}
	if _, err := name.NewRepository(registry + "/drover-machine-controller"); err != nil {
		return fmt.Errorf("--registry %q must be a registry and path such as registry.example.org/drover: %w", registry, err)
	}
	host, _, _ := strings.Cut(registry, "/")
	if _, port, found := strings.Cut(host, ":"); found {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return fmt.Errorf("--registry %q must have a port up to 65535", registry)
		}
	}
	return nil
}
