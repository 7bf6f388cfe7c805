// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package testenv starts real API servers with their etcd for the tests of this module: a management cluster
// with every CRD of the project and the RBAC that the manager ships with, and workload clusters that accept
// bootstrap tokens. It is never part of a binary.
package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"drover.io/api/crds"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
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

	env *envtest.Environment
}

// StartManagement starts a management cluster.
func StartManagement() (*Cluster, error) {
	definitions, err := crds.Definitions()
	if err != nil {
		return nil, err
	}
	c, err := start(&envtest.Environment{CRDs: definitions})
	if err != nil {
		return nil, err
	}
	if err := c.applyRBAC(); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// StartWorkload starts a workload cluster.
func StartWorkload() (*Cluster, error) {
	env := &envtest.Environment{}
	env.ControlPlane.GetAPIServer().Configure().
		Set("authorization-mode", "Node,RBAC").
		Set("enable-bootstrap-token-auth", "true")
	return start(env)
}

// Stop ends the API server and its etcd.
func (c *Cluster) Stop() error { return c.env.Stop() }

// Manager is the configuration of a client that may do what the shipped RBAC allows.
func (c *Cluster) Manager() *rest.Config {
	config := rest.CopyConfig(c.Admin)
	config.Impersonate = rest.ImpersonationConfig{UserName: ServiceAccount}
	return config
}

// Scheme has all kinds that the manager and its tests use.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(scheme.AddToScheme(s), clusterv1.AddToScheme(s), bootstrapv1.AddToScheme(s))
}

func start(env *envtest.Environment) (*Cluster, error) {
	assets, err := findAssets()
	if err != nil {
		return nil, err
	}
	env.BinaryAssetsDirectory = assets
	config, err := env.Start()
	if err != nil {
		return nil, fmt.Errorf("starting control plane: %w", err)
	}
	config.QPS = -1
	c := &Cluster{Admin: config, Kubeconfig: env.KubeConfig, env: env}
	s, err := Scheme()
	if err == nil {
		c.Client, err = client.New(config, client.Options{Scheme: s})
	}
	if err != nil {
		return nil, errors.Join(err, env.Stop())
	}
	return c, nil
}

// applyRBAC applies what config/rbac ships.
func (c *Cluster) applyRBAC() error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "drover-system"}}
	if err := c.Client.Create(context.Background(), namespace); err != nil {
		return err
	}
	for _, name := range []string{"role.yaml", "role_binding.yaml", "leader_election.yaml"} {
		if err := c.Apply(filepath.Join("config", "rbac", name)); err != nil {
			return err
		}
	}
	return nil
}

// Apply creates the objects of a manifest of this module.
func (c *Cluster) Apply(manifest string) error {
	file, err := find(manifest)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for _, document := range bytes.Split(content, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return fmt.Errorf("reading %s: %w", manifest, err)
		}
		if err := c.Client.Create(context.Background(), object); err != nil {
			return fmt.Errorf("applying %s: %w", manifest, err)
		}
	}
	return nil
}

// AwaitAccess waits until the API server lets a user do something: it reads tokens, roles and bindings from caches.
func AwaitAccess(ctx context.Context, as *rest.Config, to authorizationv1.ResourceAttributes) error {
	clients, err := kubernetes.NewForConfig(as)
	if err != nil {
		return err
	}
	ask := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &to}}
	last := error(nil)
	err = wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		var answer *authorizationv1.SelfSubjectAccessReview
		answer, last = clients.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, ask, metav1.CreateOptions{})
		return last == nil && answer.Status.Allowed, nil
	})
	return errors.Join(err, last)
}

// findAssets returns KUBEBUILDER_ASSETS, or bin/k8s of the checkout the test runs in.
func findAssets() (string, error) {
	if folder := os.Getenv("KUBEBUILDER_ASSETS"); folder != "" {
		return folder, nil
	}
	program, err := find(filepath.Join("bin", "k8s", "kube-apiserver"))
	if err != nil {
		return "", errors.New("there is no bin/k8s/kube-apiserver: build it with `make control-plane`, or set KUBEBUILDER_ASSETS")
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
		if candidate := filepath.Join(folder, path); exists(candidate) {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("%s is in no folder above", path)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
