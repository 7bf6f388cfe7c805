// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/controlplane"
	"drover.io/test/framework"
	"drover.io/test/install/helm"
	"drover.io/test/process"
	"drover.io/test/vm"
	"drover.io/test/workflow"
)

// environment is a management cluster with one Node, a workload cluster without, and the releases to install.
type environment struct {
	root     string
	stack    *framework.Stack
	node     *vm.Container
	client   client.Client
	helm     *helm.Client
	workflow *workflow.Workflow
	// before is the release before now.
	before, now *release
	// pristine and pristineWorkload are the objects of both clusters from before the first installation.
	pristine, pristineWorkload inventory
}

// startEnvironment starts both clusters and the node. It returns what was started also with an error.
func startEnvironment(ctx context.Context, root, dir string, before, now *release) (*environment, error) {
	s := &environment{root: root, before: before, now: now}
	var err error
	s.stack, err = framework.Start(ctx, framework.Options{Dir: dir, Uninstalled: true, ControlPlane: func(options *controlplane.Options) {
		options.ExtraSANs = []string{vm.Gateway, serviceAddress}
		options.Scheduler = options.Name == "management"
	}})
	if err != nil {
		return s, err
	}
	step("two control planes run, one with kube-scheduler")
	s.client = s.stack.ManagementClient
	if s.helm, err = helm.New(s.stack.Kubeconfig("management"), namespace); err != nil {
		return s, err
	}
	_, port := s.stack.Workload.Endpoint()
	s.workflow = &workflow.Workflow{
		Stack: s.stack, Namespace: "default", Cluster: "demo", Host: vm.Gateway, Server: fmt.Sprintf("https://%s:%d", vm.Gateway, port),
	}
	if s.node, err = startNode(root, dir, s.stack.Management, s.stack.Workload); err != nil {
		return s, err
	}
	if err := s.await(ctx, "the Node is Ready", s.nodeIsReady); err != nil {
		return s, err
	}
	step("the Node is Ready: kubelet, containerd, runc")
	if err := importImages(ctx, s.node, before, now); err != nil {
		return s, err
	}
	step("imported the images of both releases into containerd")
	if s.pristine, err = s.inventory(ctx); err != nil {
		return s, err
	}
	s.pristineWorkload, err = inventoryOf(ctx, s.stack.Workload, s.stack.WorkloadClient)
	return s, err
}

func (s *environment) nodeIsReady(ctx context.Context) error {
	node := &corev1.Node{}
	if err := s.client.Get(ctx, client.ObjectKey{Name: nodeName}, node); err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return errors.New("it is not Ready")
}

// stop ends everything that startEnvironment started. It keeps the logs of the Pods that exist, beside those of the node.
func (s *environment) stop() error {
	var errs []error
	if s.node != nil {
		logs := filepath.Join(s.node.Root, "var/log/pods")
		if _, err := os.Stat(logs); err == nil {
			errs = append(errs, command(context.Background(), s.stack.Dir, "cp", "-r", logs, "."))
		}
		errs = append(errs, s.node.Stop())
	}
	if s.stack != nil {
		errs = append(errs, s.stack.Stop())
	}
	return errors.Join(errs...)
}

// waitTimeout bounds every wait but that for a boot.
const waitTimeout = 3 * time.Minute

// await looks until check returns nil; its last error is part of the error.
func (s *environment) await(ctx context.Context, what string, check func(context.Context) error) error {
	return s.awaitFor(ctx, waitTimeout, what, check)
}

func (s *environment) awaitFor(ctx context.Context, limit time.Duration, what string, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		if s.node != nil {
			if err := s.node.Err(); err != nil {
				return false, err
			}
		}
		err := check(ctx)
		if err == nil || ctx.Err() == nil {
			last = err // and not that the time is over
		}
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until %s: %w (%w)", what, err, last)
	}
	return nil
}

// explain prints the ends of the logs of the node and its Pods.
func (s *environment) explain() {
	if s.node == nil {
		return
	}
	logs, _ := filepath.Glob(filepath.Join(s.node.Root, "var/log/pods/*/*/*.log"))
	for _, log := range append([]string{s.node.Log}, logs...) {
		fmt.Fprintln(os.Stderr, process.Tail(log))
	}
}
