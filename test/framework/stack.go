// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package framework runs the whole of Drover for tests and the quickstart: a management cluster and a workload cluster, each a real
// control plane, and the managers as separate processes with the ServiceAccounts and permissions that we ship. It owns the
// processes and their folder.
package framework

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/test/controlplane"
	"drover.io/test/controlplane/binaries"
)

// Namespace is the namespace of the managers' ServiceAccounts.
const Namespace = "drover-system"

// Options configure a stack.
type Options struct {
	// Dir gets kubeconfigs, logs and the simulated cloud's state. Default: a temporary
	// folder, which Stop removes.
	Dir string
	// Progress is called with each step, if set.
	Progress func(step string)
	// LeaderElection turns leader election on, as in production. A manager
	// that is killed then leaves a lease behind, which its successor has to wait for.
	LeaderElection bool
	// ControlPlane may change how the cluster called "management" or "workload" is started, if set.
	ControlPlane func(options *controlplane.Options)
	// Args are further arguments of our managers by name; they override those that are always given.
	Args map[string][]string
	// Clouds are the providers, as infra-providers/cmd names them, whose kinds are installed beside those of simulated
	// machines. Each takes time and memory of the API server.
	Clouds []string
	// EveryCloud installs the kinds of all providers.
	EveryCloud bool
	// Without names managers of ours that are not run, because other programs do their work.
	// Without the machine-controller, the test installs the core kinds as well.
	Without []string
	// Uninstalled leaves the management cluster empty: neither kinds nor permissions are installed and no manager runs.
	// The caller installs Drover.
	Uninstalled bool
	// Prepare is called once everything is installed, before the managers start, if set.
	Prepare func(ctx context.Context, s *Stack) error
	// SharedWith is another stack, if any: this one uses its workload cluster and its simulated
	// cloud, as two management clusters do around a move.
	SharedWith *Stack
	// CopyOf is another stack, if any: the management cluster begins with a copy of that one's etcd, as one that is
	// restored from a snapshot does. It is used together with Beside.
	CopyOf *Stack
}

// Stack is a management cluster, a workload cluster and the managers.
type Stack struct {
	Management, Workload *controlplane.ControlPlane
	// ManagementClient and Work reach the two clusters as their administrator.
	ManagementClient, WorkloadClient client.Client
	// Dir holds everything that the stack writes.
	Dir string
	// APIServerURLs are the URLs at which a manager, by the name of its binary, reaches the management API
	// server, if not where it is. Options.Prepare may fill it in.
	APIServerURLs map[string]string

	options  Options
	root     string
	mu       sync.Mutex // guards managers
	managers []*Manager
}

// Start starts everything and returns once the managers run. ctx bounds the start only.
// When it fails, whatever was started is stopped.
func Start(ctx context.Context, options Options) (*Stack, error) {
	if options.Progress == nil {
		options.Progress = func(string) {}
	}
	s := &Stack{options: options, Dir: options.Dir}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *Stack) start(ctx context.Context) error {
	var err error
	if s.root, err = binaries.Root(); err != nil {
		return err
	}
	if s.Dir == "" {
		if s.Dir, err = os.MkdirTemp("", "drover-"); err != nil {
			return err
		}
	}
	for _, step := range []struct {
		title string
		do    func(context.Context) error
	}{
		{"starting two control planes: etcd, kube-apiserver, kube-controller-manager", s.startClusters},
		{"installing kinds and permissions", s.install},
		{"", s.prepare},
		{"starting machine-controller, bootstrap and infra-sim under their ServiceAccounts", s.startManagers},
	} {
		if step.title != "" {
			s.options.Progress(step.title)
		}
		if err := step.do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// startClusters starts both clusters side by side.
func (s *Stack) startClusters(ctx context.Context) error {
	var group sync.WaitGroup
	var errs [2]error
	group.Go(func() {
		s.Management, errs[0] = s.startCluster(ctx, "management")
	})
	group.Go(func() {
		if s.options.SharedWith != nil {
			s.Workload = s.options.SharedWith.Workload
			return
		}
		s.Workload, errs[1] = s.startCluster(ctx, "workload")
	})
	group.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	var err error
	if s.ManagementClient, err = newClient(s.Management); err != nil {
		return err
	}
	if s.WorkloadClient, err = newClient(s.Workload); err != nil {
		return err
	}
	for name, cluster := range map[string]*controlplane.ControlPlane{"management": s.Management, "workload": s.Workload} {
		if err := os.WriteFile(s.Kubeconfig(name), cluster.AdminKubeconfig(), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stack) startCluster(ctx context.Context, name string) (*controlplane.ControlPlane, error) {
	options := controlplane.Options{Name: name, ControllerManager: true}
	if s.options.CopyOf != nil && name == "management" {
		options.CopyOf = s.options.CopyOf.Management
	}
	if s.options.ControlPlane != nil {
		s.options.ControlPlane(&options)
	}
	return controlplane.Start(ctx, options)
}

// Kubeconfig is the path of the administrator's kubeconfig of "management" or "workload".
func (s *Stack) Kubeconfig(name string) string { return filepath.Join(s.Dir, name+".kubeconfig") }

// InstanceDir is the folder in which the simulated cloud keeps its instances.
func (s *Stack) InstanceDir() string {
	if s.options.SharedWith != nil {
		return s.options.SharedWith.InstanceDir()
	}
	return filepath.Join(s.Dir, "hosts")
}

func newClient(cluster *controlplane.ControlPlane) (client.Client, error) {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		scheme.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme, bootstrapv1.AddToScheme,
	} {
		if err := add(known); err != nil {
			return nil, err
		}
	}
	config := cluster.AdminConfig()
	config.QPS = -1
	return client.New(config, client.Options{Scheme: known})
}

// install applies CRDs, namespace and permissions to the management cluster, and the role
// that a workload cluster grants us to the other.
func (s *Stack) install(ctx context.Context) error {
	if s.options.CopyOf != nil {
		return nil // the copy has it all
	}
	if !s.options.Uninstalled {
		if err := s.installManagement(ctx); err != nil {
			return err
		}
	}
	for _, folder := range []string{"machine-controller/config/workload", "bootstrap/config/workload"} {
		if err := applyFolder(ctx, s.WorkloadClient, filepath.Join(s.root, folder)); err != nil {
			return fmt.Errorf("installing the workload cluster's permissions: %w", err)
		}
	}
	if s.options.Uninstalled {
		return nil
	}
	return awaitAggregation(ctx, s.ManagementClient, "drover-machine-controller-providers")
}

// installManagement applies CRDs, namespace and permissions to the management cluster.
func (s *Stack) installManagement(ctx context.Context) error {
	if err := applyCRDs(ctx, s.ManagementClient, s.serves); err != nil {
		return fmt.Errorf("installing CRDs: %w", err)
	}
	for _, folder := range []string{"hack/release/namespace", "machine-controller/config/rbac", "bootstrap/config/rbac", "infra-providers/config/rbac/sim"} {
		if err := applyFolder(ctx, s.ManagementClient, filepath.Join(s.root, folder)); err != nil {
			return fmt.Errorf("installing permissions: %w", err)
		}
	}
	return nil
}

// serves tells by the file of a CRD whether it is installed.
func (s *Stack) serves(file string) bool {
	if strings.HasPrefix(file, clusterv1.GroupVersion.Group+"_") {
		return !slices.Contains(s.options.Without, "machine-controller")
	}
	plural := strings.TrimPrefix(strings.TrimSuffix(file, ".yaml"), infrav1.GroupVersion.Group+"_")
	for _, suffix := range []string{"machines", "machinetemplates"} {
		if cloud, ok := strings.CutSuffix(plural, suffix); ok {
			return s.options.EveryCloud || cloud == "sim" || slices.Contains(s.options.Clouds, cloud)
		}
	}
	return true
}

func (s *Stack) prepare(ctx context.Context) error {
	if s.options.Prepare == nil {
		return nil
	}
	return s.options.Prepare(ctx, s)
}

// Stop ends the managers and the clusters, and removes the temporary folder. It may be
// called again.
func (s *Stack) Stop() error {
	for _, m := range slices.Backward(s.Managers()) {
		m.Stop()
	}
	var errs []error
	for _, cluster := range []*controlplane.ControlPlane{s.Workload, s.Management} {
		borrowed := s.options.SharedWith != nil && cluster == s.options.SharedWith.Workload
		if cluster != nil && !borrowed {
			errs = append(errs, cluster.Stop())
		}
	}
	if s.options.Dir == "" && s.Dir != "" {
		errs = append(errs, os.RemoveAll(s.Dir))
	}
	return errors.Join(errs...)
}
