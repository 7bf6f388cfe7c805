// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Main runs the tests of a package, then calls what stops their servers and whatever runs against them, and ends the
// process. What controllers log is dropped: tests check objects.
func Main(m *testing.M, stops ...func() error) {
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	for _, stop := range stops {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping what the tests started:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// Binaries returns KUBEBUILDER_ASSETS, or bin/k8s of the checkout that the test runs in.
func Binaries() (string, error) {
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		return assets, nil
	}
	program, err := find(filepath.Join("bin", "k8s", "kube-apiserver"))
	if err != nil {
		return "", errors.New("no bin/k8s/kube-apiserver: build it with `make control-plane`, or set KUBEBUILDER_ASSETS")
	}
	return filepath.Dir(program), nil
}

// find looks for a path in the working folder and those above it.
func find(path string) (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
		found := filepath.Join(folder, path)
		if _, err := os.Stat(found); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("%s is in no folder above", path)
}
