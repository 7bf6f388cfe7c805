// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Shared is a management cluster that the tests of a package share, started by the first test that needs it.
type Shared struct {
	needed   atomic.Bool
	cluster  func() (*Cluster, error)
	provider func() (*rest.Config, error)
}

// NewShared returns a management cluster for tests of a cloud's provider, which acts as a ServiceAccount with the role in a
// file.
func NewShared(cloud, roleFile string) *Shared {
	s := &Shared{}
	s.cluster = sync.OnceValues(func() (*Cluster, error) {
		s.needed.Store(true)
		return Start(cloud)
	})
	s.provider = sync.OnceValues(func() (*rest.Config, error) {
		cluster, err := s.cluster()
		if err != nil {
			return nil, err
		}
		return cluster.As(context.Background(), "drover-infra-"+cloud, roleFile)
	})
	return s
}

// Main runs the tests of a package, stops the management cluster if it was started, and returns the exit code. What
// controllers log is dropped: tests check what they do.
func (s *Shared) Main(m *testing.M) int {
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	if !s.needed.Load() {
		return code
	}
	if cluster, err := s.cluster(); err == nil {
		if err := cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// Cluster returns the management cluster, with all rights.
func (s *Shared) Cluster(t testing.TB) *Cluster {
	t.Helper()
	cluster, err := s.cluster()
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

// Provider returns a client configuration with the provider's role.
func (s *Shared) Provider(t testing.TB) *rest.Config {
	t.Helper()
	config, err := s.provider()
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// Namespace returns the server with a new namespace in it, for objects that no provider reconciles.
func (s *Shared) Namespace(t testing.TB) (*Cluster, string) {
	t.Helper()
	cluster := s.Cluster(t)
	namespace, err := cluster.Namespace(t.Context(), "schema")
	if err != nil {
		t.Fatal(err)
	}
	return cluster, namespace
}

// Create creates an object in a new namespace, in which no provider reconciles it, and returns it as the API server stores it.
func Create[O client.Object](t testing.TB, s *Shared, object O) O {
	t.Helper()
	cluster, namespace := s.Namespace(t)
	object.SetNamespace(namespace)
	if err := cluster.Client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	return object
}
