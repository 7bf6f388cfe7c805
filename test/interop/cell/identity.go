// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// identities identifies everything: each host with what the simulated cloud stores of it, each
// Node with its UID, each Machine with its providerID.
func (w *Environment) identities(ctx context.Context) (map[string]string, error) {
	all := map[string]string{}
	hosts, err := w.hosts()
	if err != nil {
		return nil, err
	}
	for _, host := range hosts {
		if all[host], err = known(filepath.Join(w.Stack.InstanceDir(), strings.TrimPrefix(host, "host "), "instance.json")); err != nil {
			return nil, err
		}
	}
	nodes, err := w.work.nodes(ctx)
	if err != nil {
		return nil, err
	}
	for name, node := range nodes {
		all["Node "+name] = string(node.UID)
	}
	machines, err := w.workers(ctx)
	for _, m := range machines {
		all["Machine "+m.Name] = m.Spec.ProviderID
	}
	return all, err
}

// ownerTag is the tag of a host's owner. A Cluster gets another UID when it moves, and its machines are tagged again.
const ownerTag = "drover.io/cluster-uid"

// known is what the simulated cloud stores of a host, except its owner.
func known(path string) (string, error) {
	text, err := os.ReadFile(path) //nolint:gosec // a file of our own stack
	if err != nil {
		return "", err
	}
	instance := map[string]any{}
	if err := json.Unmarshal(text, &instance); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	if tags, ok := instance["tags"].(map[string]any); ok {
		delete(tags, ownerTag)
	}
	text, err = json.Marshal(instance)
	return string(text), err
}

// unchanged compares the identities with those of before.
func (w *Environment) unchanged(before map[string]string) func(context.Context) error {
	return func(ctx context.Context) error {
		after, err := w.identities(ctx)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(before, after); diff != "" {
			return fmt.Errorf("something is another (-before +after):\n%s", diff)
		}
		return nil
	}
}

// beside is the folder of a second management cluster, if that of the first is kept.
func (w *Environment) beside() string {
	if w.keep == "" {
		return ""
	}
	dir := filepath.Join(w.keep, "target")
	if os.MkdirAll(dir, 0o700) != nil {
		return ""
	}
	return dir
}
