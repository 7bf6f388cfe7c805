// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"drover.io/test/framework"
)

// Describe runs clusterctl describe, and checks whether it lists every object of every machine.
func (w *Environment) Describe(ctx context.Context) error {
	if err := w.up(ctx); err != nil {
		return err
	}
	output, err := w.peers.Clusterctl(ctx, w.Stack, "describe", "cluster", cluster, "-n", namespace, "--show-conditions=all", "--grouping=false", "--echo")
	if err != nil {
		return err
	}
	machines, err := w.workers(ctx)
	if err != nil {
		return err
	}
	wanted := []string{"Cluster", cluster, "MachineDeployment", cluster + "-workers"}
	for _, m := range machines {
		wanted = append(wanted, "Machine", m.Name, "SimMachine", m.Name, "BootstrapConfig", m.Name)
	}
	for pair := range slices.Chunk(wanted, 2) {
		if name := fmt.Sprintf("%s %s/%s", pair[0], namespace, pair[1]); !strings.Contains(output, name) {
			return fmt.Errorf("clusterctl describe does not show %s:\n%s", name, output)
		}
	}
	return nil
}

// Kubeconfig runs clusterctl get kubeconfig, and compares the result with the user's.
func (w *Environment) Kubeconfig(ctx context.Context) error {
	if err := w.create(ctx); err != nil {
		return err
	}
	output, err := w.peers.Clusterctl(ctx, w.Stack, "get", "kubeconfig", cluster, "-n", namespace)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{}
	if err := w.Stack.ManagementClient.Get(ctx, key(cluster+"-kubeconfig"), secret); err != nil {
		return err
	}
	if strings.TrimSpace(output) != strings.TrimSpace(string(secret.Data["value"])) {
		return fmt.Errorf("clusterctl gets another kubeconfig than the Secret holds:\n%s", output)
	}
	return nil
}

func (w *Environment) up(ctx context.Context) error {
	if err := w.create(ctx); err != nil {
		return err
	}
	return w.running(2)(ctx)
}

// Move runs clusterctl move to a second management cluster, and checks whether
// every host, Node and providerID is unchanged, whether the templates of a MachineDeployment without Machines
// are there, and whether the workflow continues there.
func (w *Environment) Move(ctx context.Context) error {
	if err := w.up(ctx); err != nil {
		return err
	}
	if err := w.createIdle(ctx); err != nil {
		return err
	}
	before, err := w.identities(ctx)
	if err != nil {
		return err
	}
	// The simulated cloud is the process that runs it, and only one may have its folder.
	for _, m := range w.Stack.Managers() {
		if m.Name == "infra-sim" {
			m.AllowExit(true)
			m.Stop()
		}
	}
	target, err := Start(ctx, w.peers, w.Cell, framework.Options{SharedWith: w.Stack, Dir: w.beside()})
	if err != nil {
		return err
	}
	defer target.Stack.Stop() //nolint:errcheck // the result of the workflow is what counts
	target.work = w.work
	if _, err := w.peers.Clusterctl(ctx, w.Stack, "move", "-n", namespace, "--to-kubeconfig="+target.Stack.Kubeconfig("management")); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{w.awaitEmptySource, target.idleMoved(w), target.running(2), target.unchanged(before)} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("after the move: %w", err)
		}
	}
	return target.scaleAndDelete(ctx)
}

// awaitEmptySource checks whether the move has left anything behind.
func (w *Environment) awaitEmptySource(ctx context.Context) error {
	left, err := w.objects(ctx)
	if err != nil || len(left) == 0 {
		return err
	}
	return fmt.Errorf("left in the first management cluster: %s", strings.Join(left, ", "))
}

// scaleAndDelete scales and deletes where the Cluster has moved to.
func (w *Environment) scaleAndDelete(ctx context.Context) error {
	for _, step := range []func(context.Context) error{w.scale(3), w.running(3), w.deleteCluster, w.awaitNothingLeft} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("going on after the move: %w", err)
		}
	}
	return nil
}
