// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package binaries owns the programs of a Kubernetes control plane on disk: it
// compiles etcd, kube-apiserver, kube-controller-manager and optionally kube-scheduler,
// kubectl, kubelet and kubeadm from their Go modules into bin/k8s, and finds them there or where
// KUBEBUILDER_ASSETS points. The versions are pinned in
// test/controlplane/kubernetes/go.mod. It starts none of them; package
// controlplane does. It imports next to nothing, so that `make control-plane`
// begins to compile at once.
package binaries

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Names of the programs, as envtest expects them.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kubectl           = "kubectl"
	Kubelet           = "kubelet"
	Kubeadm           = "kubeadm"
)

// AssetsVariable names the environment variable that points to a directory of
// programs to use instead of our own. envtest honours the same variable.
const AssetsVariable = "KUBEBUILDER_ASSETS"

// moduleDir holds the go.mod that pins the programs, relative to the root of
// the repository. Finding it is how the root is recognised.
const moduleDir = "test/controlplane/kubernetes"

// Required returns the names of the programs that a control plane needs, in
// the order in which they start.
func Required() []string {
	return []string{Etcd, APIServer, ControllerManager}
}

// Dir returns the directory that holds the required programs: the value of
// KUBEBUILDER_ASSETS if it is set, bin/k8s of this repository otherwise. The
// error names what is missing and how to get it.
func Dir() (string, error) {
	if dir := Assets(); dir != "" {
		return dir, CheckAssets(dir, Required())
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	dir := Out(root)
	if err := check(dir, Required()); err != nil {
		return "", fmt.Errorf("%w: run `make control-plane` in %s", err, root)
	}
	return dir, nil
}

// Assets returns the directory that the user chose through KUBEBUILDER_ASSETS,
// or "" if there is none or it is bin/k8s of this repository, which is ours to
// build.
func Assets() string {
	dir := os.Getenv(AssetsVariable)
	if dir == "" {
		return ""
	}
	owner := filepath.Dir(filepath.Dir(filepath.Clean(dir)))
	if root, err := Root(); err == nil && Out(owner) == filepath.Clean(dir) && sameDir(owner, root) {
		return ""
	}
	return dir
}

// CheckAssets reports which of names is not a program in dir, a directory that
// the user chose through KUBEBUILDER_ASSETS.
func CheckAssets(dir string, names []string) error {
	if err := check(dir, names); err != nil {
		return fmt.Errorf("%s=%q: %w: add it there, or unset %s to use the programs that `make control-plane` builds", AssetsVariable, dir, err, AssetsVariable)
	}
	return nil
}

// Out returns where the programs of the repository at root are built.
func Out(root string) string {
	return filepath.Join(root, "bin", "k8s")
}

// Root returns the root of the repository that holds the working directory.
func Root() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(moduleDir), "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("finding the repository: no directory above %s holds %s: change into it, or set %s", start, moduleDir, AssetsVariable)
		}
	}
}

// sameDir reports whether two paths lead to one directory.
func sameDir(a, b string) bool {
	first, errA := os.Stat(a)
	second, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(first, second)
}

// check reports the first of names that is not an executable file in dir.
func check(dir string, names []string) error {
	for _, name := range names {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("program %s is missing", path)
		case err != nil:
			return fmt.Errorf("program %s: %w", name, err)
		case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
			return fmt.Errorf("program %s is not an executable file", path)
		}
	}
	return nil
}
