// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package controlplane owns real Kubernetes control planes on loopback: etcd,
// kube-apiserver and optionally kube-controller-manager as child processes,
// any number of clusters side by side, each with certificate authorities and
// keys of its own. It hands out credentials for any user or ServiceAccount and
// can take an API server away and bring it back. It has no nodes and by default
// no scheduler, and it does not compile the programs; package binaries does.
// Integration tests, scenarios, benchmarks and the quickstart call it.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"drover.io/test/controlplane/binaries"
)

// startTimeout bounds the start of a cluster. It is far more than a start
// takes, even on a busy machine.
const startTimeout = 10 * time.Minute

// Options configure the cluster to start. The zero value is an etcd and an API
// server.
type Options struct {
	// Name distinguishes clusters in certificates, kubeconfigs and directory
	// names. Default "cluster".
	Name string

	// Dir holds data, keys and logs. It must be empty or absent, and is left
	// in place by Stop. Default: a temporary directory, which Stop removes.
	Dir string

	// Binaries is the directory of the programs. Default: Binaries().
	Binaries string

	// ControllerManager starts kube-controller-manager. Without it nothing
	// collects garbage, signs certificates or creates ServiceAccounts, and
	// Pods are admitted without a ServiceAccount.
	ControllerManager bool

	// Scheduler starts kube-scheduler too, for a cluster whose nodes run pods.
	// It is built with `go run ./controlplane/cmd/build kube-scheduler`.
	Scheduler bool

	// CopyOf is a running cluster whose etcd this one begins with a copy of, as a management cluster that is
	// restored from a snapshot does. Keys, certificates and addresses are new.
	CopyOf *ControlPlane

	// ExtraSANs are further host names and IP addresses for the certificate
	// of the API server, which always has localhost and 127.0.0.1.
	ExtraSANs []string

	// AuditPolicy is a policy of audit.k8s.io/v1 in YAML. If set, every request
	// that it selects is written to AuditLog before the request is answered.
	AuditPolicy []byte

	// APIServerArgs and ControllerManagerArgs are appended to the arguments of
	// the programs, so that they override ours.
	APIServerArgs         []string
	ControllerManagerArgs []string
}

// ControlPlane is a running cluster. All methods may be called concurrently.
type ControlPlane struct {
	options         Options
	dir             string
	pki             *pki
	adminKubeconfig []byte

	mu         sync.Mutex   // guards the processes of the components
	components []*component // in the order of their start
	etcd       *component
	apiServer  *component
}

// Binaries returns the directory that holds etcd, kube-apiserver and
// kube-controller-manager: KUBEBUILDER_ASSETS if set, bin/k8s of this
// repository otherwise. The error has what is missing and how to get it.
func Binaries() (string, error) {
	return binaries.Dir()
}

// Start starts a cluster and returns once it serves; with a controller manager,
// once Pods can be created in the default namespace. ctx bounds the start only:
// the cluster runs until Stop is called or the calling process ends. When a
// program ends early the error has the last lines of its log.
func Start(ctx context.Context, options Options) (*ControlPlane, error) {
	c, err := prepare(options)
	if err != nil {
		return nil, fmt.Errorf("starting a control plane: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.start(ctx); err != nil {
		return nil, fmt.Errorf("starting control plane %q: %w", c.options.Name, errors.Join(err, c.Stop()))
	}
	return c, nil
}

// prepare fills in the defaults and makes what a cluster needs on disk.
func prepare(options Options) (*ControlPlane, error) {
	if options.Name == "" {
		options.Name = "cluster"
	}
	if options.Binaries == "" {
		dir, err := Binaries()
		if err != nil {
			return nil, err
		}
		options.Binaries = dir
	}
	dir, err := makeDir(options)
	if err != nil {
		return nil, err
	}
	c := &ControlPlane{options: options, dir: dir}
	if c.pki, err = newPKI(options.Name, options.ExtraSANs); err == nil {
		err = c.writeFiles()
	}
	if err == nil && options.CopyOf != nil {
		err = options.CopyOf.copyData(c.file(etcdData))
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// makeDir makes the empty directory of a cluster.
func makeDir(options Options) (string, error) {
	if options.Dir == "" {
		return os.MkdirTemp("", "controlplane-"+options.Name+"-")
	}
	if err := os.MkdirAll(options.Dir, 0o700); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(options.Dir)
	if err != nil {
		return "", err
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("directory %s is not empty: a cluster needs one of its own", options.Dir)
	}
	return filepath.Abs(options.Dir)
}

// start starts the components, each planned when those that it needs serve and
// their ports are settled.
func (c *ControlPlane) start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	plans := []func() (*component, error){c.newEtcd, c.newAPIServer}
	if c.options.ControllerManager {
		plans = append(plans, c.newControllerManager)
	}
	if c.options.Scheduler {
		plans = append(plans, c.newScheduler)
	}
	for _, plan := range plans {
		component, err := plan()
		if err != nil {
			return err
		}
		c.components = append(c.components, component)
		if err := component.start(ctx); err != nil {
			return err
		}
	}
	var err error
	c.adminKubeconfig, err = c.kubeconfig(clientCertificate(adminUser, c.pki.admin))
	return err
}

// Stop ends the processes, last started first, and removes the temporary
// directory. It may be called again. The error names every component that had
// ended by itself before.
func (c *ControlPlane) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, component := range slices.Backward(c.components) {
		errs = append(errs, component.stop())
		component.port.release()
	}
	if c.options.Dir == "" {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	return errors.Join(errs...)
}

// StopAPIServer ends the API server and leaves etcd and the controller manager
// running. Its port stays reserved; connections to it are refused.
func (c *ControlPlane) StopAPIServer() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.apiServer.stop()
}

// StartAPIServer starts the API server again, on the same port, and returns
// once it serves. It does nothing while the API server runs.
func (c *ControlPlane) StartAPIServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.apiServer.start(ctx)
}

// PauseAPIServer freezes the API server: connections are accepted and never
// answered, until ResumeAPIServer.
func (c *ControlPlane) PauseAPIServer() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.apiServer.pause()
}

// ResumeAPIServer continues a stopped API server.
func (c *ControlPlane) ResumeAPIServer() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.apiServer.resume()
}

// Process is a program of a cluster.
type Process struct {
	Name string
	PID  int // 0 while it does not run
	Log  string
}

// Processes lists the programs of the cluster in the order of their start.
func (c *ControlPlane) Processes() []Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []Process
	for _, component := range c.components {
		list = append(list, Process{Name: component.name, PID: component.pid(), Log: component.log})
	}
	return list
}
