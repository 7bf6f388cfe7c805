// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package testenv starts a real kube-apiserver and etcd, and a kube-controller-manager where certificates
// must be signed, for the tests of this module. The API server plays both the management cluster and a
// workload cluster that hosts join: Node and RBAC authorisation, NodeRestriction and bootstrap tokens are
// on. It is never part of a binary.
package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"drover.io/api/crds"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
)

// Cluster is a running control plane.
type Cluster struct {
	Config *rest.Config
	Client client.Client

	assets string
	dir    string
	ca     *authority
	env    *envtest.Environment
	stop   []func() error
}

// Start starts an API server with every CRD of the project installed.
func Start() (*Cluster, error) {
	assets, err := findAssets()
	if err != nil {
		return nil, err
	}
	definitions, err := crds.Definitions()
	if err != nil {
		return nil, fmt.Errorf("reading CRDs: %w", err)
	}
	dir, err := os.MkdirTemp("", "drover-testenv-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{assets: assets, dir: dir}
	if c.ca, err = newAuthority(dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	c.env = &envtest.Environment{BinaryAssetsDirectory: assets, CRDs: definitions,
		// A busy machine takes its time.
		ControlPlaneStartTimeout: 5 * time.Minute, ControlPlaneStopTimeout: time.Minute}
	server := c.env.ControlPlane.GetAPIServer()
	server.Authn = c.ca
	server.Configure().
		Set("authorization-mode", "Node,RBAC").
		Set("enable-bootstrap-token-auth", "true").
		Append("enable-admission-plugins", "NodeRestriction")
	if c.Config, err = c.env.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting control plane: %w", err), c.Stop())
	}
	c.Config.QPS = -1
	scheme := runtime.NewScheme()
	known := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme)
	if err = known.AddToScheme(scheme); err == nil {
		c.Client, err = client.New(c.Config, client.Options{Scheme: scheme})
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// Stop ends everything that was started.
func (c *Cluster) Stop() error {
	var errs []error
	for _, stop := range c.stop {
		errs = append(errs, stop())
	}
	return errors.Join(append(errs, c.env.Stop(), os.RemoveAll(c.dir))...)
}

// CA is the certificate authority of the API server's own certificate.
func (c *Cluster) CA() []byte { return c.Config.CAData }

// findAssets returns KUBEBUILDER_ASSETS, or bin/k8s of the checkout the test runs in.
func findAssets() (string, error) {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		return dir, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		assets := filepath.Join(dir, "bin", "k8s")
		if _, err := os.Stat(filepath.Join(assets, "kube-apiserver")); err == nil {
			return assets, nil
		}
	}
	return "", errors.New("there is no bin/k8s/kube-apiserver: build it with `make control-plane`, or set KUBEBUILDER_ASSETS")
}
