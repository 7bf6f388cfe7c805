// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// waitTimeout bounds every wait for another process; reaching it fails the test.
const waitTimeout = 10 * time.Minute

// parentVariable turns the test binary into a program that starts a cluster,
// prints its processes and waits to be killed.
const parentVariable = "CONTROLPLANE_TEST_PARENT"

// shared is one cluster with a controller manager, for the tests that only
// add objects of their own. The first of them starts it.
var shared struct {
	once    sync.Once
	cluster *ControlPlane
	err     error
}

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) != "" {
		os.Exit(beParent())
	}
	code := m.Run()
	if shared.cluster != nil {
		if err := shared.cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the shared cluster:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// beParent is what the test binary does under parentVariable.
func beParent() int {
	c, err := Start(context.Background(), Options{Name: "orphans", ControllerManager: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(c.Processes()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// sharedCluster returns the shared cluster.
func sharedCluster(t *testing.T) *ControlPlane {
	t.Helper()
	shared.once.Do(func() {
		shared.cluster, shared.err = Start(context.Background(), Options{Name: "shared", ControllerManager: true})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}

// startCluster starts a cluster for one test.
func startCluster(t *testing.T, options Options) *ControlPlane {
	t.Helper()
	c, err := Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("stopping: %v", err)
		}
	})
	return c
}

// clientFor returns a client with the given configuration.
func clientFor(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// adminClient returns a client that may do everything.
func adminClient(t *testing.T, c *ControlPlane) kubernetes.Interface {
	t.Helper()
	return clientFor(t, c.AdminConfig())
}

// clientFrom returns a client that uses a kubeconfig.
func clientFrom(t *testing.T, kubeconfig []byte) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return clientFor(t, config)
}

// eventually waits until condition returns nil.
func eventually(t *testing.T, aim string, condition func(ctx context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, waitTimeout, true, func(ctx context.Context) (bool, error) {
		last = condition(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting until %s: %v: %v", aim, err, last)
	}
}
