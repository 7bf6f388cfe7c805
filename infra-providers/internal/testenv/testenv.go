// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package testenv starts a real control plane for the tests of this module, by package envtest of runtime, with a
// kube-controller-manager where certificates must be signed. Its API server is both the management cluster and a workload
// cluster that hosts join. It is never part of a binary.
package testenv

import (
	"errors"
	"os"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/envtest"
)

// Cluster is a running control plane.
type Cluster struct {
	Config *rest.Config
	Client client.Client

	dir    string
	ca     *authority
	server *envtest.Server
	stop   []func() error
}

// Start starts an API server with the project's kinds, and of the providers those of simulated machines and of clouds.
func Start(clouds ...string) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "drover-testenv-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir}
	if c.ca, err = newAuthority(dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	c.server = &envtest.Server{Project: true, Clouds: clouds, AdmitNodes: true, Authn: c.ca}
	if c.Config, err = c.server.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if c.Client, err = envtest.NewClient(c.Config); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// New is [Start] for one test, at whose end the API server stops.
func New(t testing.TB, clouds ...string) *Cluster {
	t.Helper()
	cluster, err := Start(clouds...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cluster
}

// Stop ends everything that was started.
func (c *Cluster) Stop() error {
	var errs []error
	for _, stop := range c.stop {
		errs = append(errs, stop())
	}
	return errors.Join(append(errs, c.server.Stop(), os.RemoveAll(c.dir))...)
}

// CA is the certificate authority of the API server's own certificate.
func (c *Cluster) CA() []byte { return c.Config.CAData }
