// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// The tests of this package share one real API server, started by the first test that wants it.
var environment = &envtest.Environment{}

var startEnvironment = sync.OnceValues(func() (*rest.Config, error) {
	assets, err := binaries()
	if err != nil {
		return nil, err
	}
	environment.BinaryAssetsDirectory = assets
	config, err := environment.Start()
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
})

func TestMain(m *testing.M) {
	logf.SetLogger(logr.Discard())
	code := m.Run()
	if err := environment.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the API server:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// binaries is KUBEBUILDER_ASSETS or the bin/k8s found upward from here.
func binaries() (string, error) {
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		return assets, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		found := filepath.Join(dir, "bin", "k8s")
		if _, err := os.Stat(filepath.Join(found, "kube-apiserver")); err == nil {
			return found, nil
		}
	}
	return "", errors.New("no bin/k8s/kube-apiserver: build it with `make control-plane`, or set KUBEBUILDER_ASSETS")
}

func apiServer(t *testing.T) client.WithWatch {
	t.Helper()
	config, err := startEnvironment()
	if err != nil {
		t.Fatalf("starting the API server: %v", err)
	}
	c, err := client.NewWithWatch(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
