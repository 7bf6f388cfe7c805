// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package testenv starts the clusters for the tests of this module, by package envtest of runtime: a management cluster
// with the RBAC that the manager ships with, and workload clusters that accept bootstrap tokens. It is never part of a
// binary.
package testenv

import (
	"context"
	"errors"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/envtest"
)

// ServiceAccount is what the manager runs as.
const ServiceAccount = "system:serviceaccount:drover-system:drover-bootstrap"

// Cluster is a running API server.
type Cluster struct {
	// Admin may do everything.
	Admin *rest.Config

	// Client is the client of Admin, with all kinds of the project.
	Client client.Client

	// Kubeconfig is the kubeconfig of Admin.
	Kubeconfig []byte

	server *envtest.Server
}

// StartManagement starts a management cluster.
func StartManagement() (*Cluster, error) {
	c, err := start(&envtest.Server{Project: true})
	if err != nil {
		return nil, err
	}
	if err := c.applyRBAC(context.Background()); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// StartWorkload starts a workload cluster.
func StartWorkload() (*Cluster, error) { return start(&envtest.Server{AdmitNodes: true}) }

// Stop ends the API server and its etcd.
func (c *Cluster) Stop() error { return c.server.Stop() }

// Manager is the configuration of a client that may do what the shipped RBAC allows.
func (c *Cluster) Manager() *rest.Config { return envtest.Impersonate(c.Admin, ServiceAccount) }

// Apply creates the objects of a manifest of this module.
func (c *Cluster) Apply(ctx context.Context, manifest string) error {
	return envtest.CreateManifest(ctx, c.Client, manifest)
}

func start(server *envtest.Server) (*Cluster, error) {
	config, err := server.Start()
	if err != nil {
		return nil, err
	}
	c := &Cluster{Admin: config, server: server}
	var clientErr, kubeconfigErr error
	c.Client, clientErr = envtest.NewClient(config)
	c.Kubeconfig, kubeconfigErr = envtest.Kubeconfig(config)
	if err := errors.Join(clientErr, kubeconfigErr); err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return c, nil
}

// applyRBAC applies what config/rbac ships.
func (c *Cluster) applyRBAC(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "drover-system"}}
	if err := c.Client.Create(ctx, namespace); err != nil {
		return err
	}
	for _, name := range []string{"role.yaml", "role_binding.yaml", "leader_election.yaml"} {
		if err := c.Apply(ctx, filepath.Join("config", "rbac", name)); err != nil {
			return err
		}
	}
	return nil
}
