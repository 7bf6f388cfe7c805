// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// WriteRepository writes what a release of a manager has for clusterctl below a folder, as clusterctl lays out a local
// repository: <label>/<version>/<components> and metadata.yaml. It returns the path of the components, which is the URL of
// the provider, and the version.
func (p *Peers) WriteRepository(ctx context.Context, name, folder, label, components string) (url, version string, err error) {
	listed := programs()
	i := slices.IndexFunc(listed, func(each program) bool { return each.name == name && each.config != "" })
	if i < 0 {
		return "", "", fmt.Errorf("%s is not a manager of upstream", name)
	}
	manifests, err := p.manifests(ctx, listed[i])
	if err != nil {
		return "", "", err
	}
	module, err := p.list(ctx, "{{.Dir}}", listed[i].module)
	if err != nil {
		return "", "", err
	}
	metadata, err := os.ReadFile(filepath.Join(module, "metadata.yaml"))
	if err != nil {
		return "", "", err
	}
	if version, err = p.list(ctx, "{{.Version}}", listed[i].module); err != nil {
		return "", "", err
	}
	target := filepath.Join(folder, label, version)
	if err := os.MkdirAll(target, 0o700); err != nil {
		return "", "", err
	}
	if err := os.WriteFile(filepath.Join(target, "metadata.yaml"), metadata, 0o600); err != nil {
		return "", "", err
	}
	url = filepath.Join(target, components)
	return url, version, os.WriteFile(url, []byte(manifests), 0o600)
}
