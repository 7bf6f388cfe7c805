// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// recipe is the linker flags with which programs are built; its verbs are the
// version, its major and minor number and the day of the release. A module
// carries no commit, so none is claimed. Without a version Kubernetes calls
// itself v0.0.0-master and clients refuse it.
const recipe = "-s -w" +
	" -X k8s.io/component-base/version.gitVersion=%s" +
	" -X k8s.io/component-base/version.gitMajor=%s" +
	" -X k8s.io/component-base/version.gitMinor=%s" +
	" -X k8s.io/component-base/version.buildDate=%s" +
	" -X k8s.io/component-base/version.gitCommit=" +
	" -X k8s.io/component-base/version.gitTreeState=clean"

// module is the output of `go list -m -json` for a module.
type module struct {
	Version string
	Time    time.Time
}

// ldflags returns the recipe for a program of m.
func (m module) ldflags() string {
	numbers := strings.SplitN(strings.TrimPrefix(m.Version, "v"), ".", 3)
	numbers = append(numbers, "", "")
	return fmt.Sprintf(recipe, m.Version, numbers[0], numbers[1], m.Time.UTC().Format(time.RFC3339))
}

// moduleInfo returns the pinned version of the module at path.
func (b *builder) moduleInfo(ctx context.Context, path string) (module, error) {
	raw, err := output(b.goCommand(ctx, "list", "-m", "-json", path))
	if err != nil {
		return module{}, err
	}
	var m module
	if err := json.Unmarshal(raw, &m); err != nil {
		return module{}, fmt.Errorf("reading the version of %s: %w", path, err)
	}
	return m, nil
}

// inputs returns everything that decides what the compiler makes.
func (b *builder) inputs(ctx context.Context) ([]byte, error) {
	env, err := output(b.goCommand(ctx, "env", "GOVERSION", "GOOS", "GOARCH", "GOAMD64", "GOARM64", "CGO_ENABLED", "GOEXPERIMENT", "GOFLAGS"))
	if err != nil {
		return nil, err
	}
	all := append([]byte(recipe+"\n"), env...)
	for _, name := range []string{"go.mod", "go.sum"} {
		raw, err := os.ReadFile(filepath.Join(b.module, name))
		if err != nil {
			return nil, err
		}
		all = append(all, raw...)
	}
	return all, nil
}

// stampedTarget is a target and the fingerprint of what it is built from.
type stampedTarget struct {
	target
	stamp string
}

// stamp returns the fingerprint of t built from inputs.
func stamp(inputs []byte, t target) string {
	how := ""
	if t.static {
		how = " static"
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s%s\n%s", t.name, t.command, how, inputs))
	return hex.EncodeToString(sum[:])
}

// current reports whether dir holds t as it would be built now.
func (t stampedTarget) current(dir string) bool {
	recorded, err := os.ReadFile(t.path(dir))
	return err == nil && strings.TrimSpace(string(recorded)) == t.stamp && check(dir, []string{t.name}) == nil
}

// record stores what the program in dir was built from.
func (t stampedTarget) record(dir string) error {
	return os.WriteFile(t.path(dir), []byte(t.stamp+"\n"), 0o644)
}

func (t stampedTarget) path(dir string) string {
	return filepath.Join(dir, "."+t.name+".stamp")
}

// output runs cmd and returns what it prints; an error carries what it
// complained about.
func output(cmd *exec.Cmd) ([]byte, error) {
	var complaint strings.Builder
	cmd.Stderr = &complaint
	raw, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("running %q: %w\n%s", strings.Join(cmd.Args, " "), err, complaint.String())
	}
	return raw, nil
}
