// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// freshInstallation installs the release and creates a MachineDeployment at once, as one file for kubectl apply would.
func freshInstallation(ctx context.Context, s *environment) error {
	if err := s.prepareNamespace(ctx); err != nil {
		return err
	}
	start := time.Now()
	if err := s.helm.Install(ctx, releaseName, s.now.chart, simulated(), false); err != nil {
		return err
	}
	step("helm install returned after %.1f s", time.Since(start).Seconds())
	created := time.Now()
	if err := s.workflow.Create(ctx, 4); err != nil {
		return err
	}
	if err := s.await(ctx, "the first Machine is Running", s.anyRunning); err != nil {
		return err
	}
	step("first Machine Running %.1f s after helm install began, %.1f s after its MachineDeployment was created", time.Since(start).Seconds(), time.Since(created).Seconds())
	if err := s.awaitManagers(ctx, s.now); err != nil {
		return err
	}
	step("both replicas of each manager are ready under the restricted Pod Security Standard")
	if err := s.createSteady(ctx, 2); err != nil {
		return err
	}
	if _, err := s.awaitMachines(ctx, map[string]int{s.workflow.Deployment(): 4, steady: 2}); err != nil {
		return err
	}
	step("6 Machines run")
	return s.handOver(ctx)
}

func (s *environment) anyRunning(ctx context.Context) error {
	machines, err := s.workflow.Machines(ctx)
	if err != nil {
		return err
	}
	for _, m := range machines {
		if m.Status.Phase == string(clusterv1.MachinePhaseRunning) {
			return nil
		}
	}
	return fmt.Errorf("none of %d Machines is", len(machines))
}

// handOver deletes the leader's Pod in the usual way: the leader releases its Lease before it ends.
func (s *environment) handOver(ctx context.Context) error {
	pod, holder, err := s.leader(ctx)
	if err != nil {
		return err
	}
	if err := s.client.Delete(ctx, pod); err != nil {
		return err
	}
	took, err := s.awaitSuccessor(ctx, holder)
	if err != nil {
		return err
	}
	step("another replica led %.1f s after the leader's Pod was deleted in order", took.Seconds())
	return s.awaitManagers(ctx, s.now)
}

// leaderCrash kills the leader of machine-controller in the middle of a rollout.
func leaderCrash(ctx context.Context, s *environment) error {
	wanted := map[string]int{s.workflow.Deployment(): 4, steady: 2}
	before, err := s.awaitMachines(ctx, wanted)
	if err != nil {
		return err
	}
	seen, stop, err := s.observeMachines(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if err := s.workflow.Roll(ctx, "medium"); err != nil {
		return err
	}
	if err := s.await(ctx, "the rollout is half done", func(ctx context.Context) error { return s.halfDone(ctx, before[s.workflow.Deployment()]) }); err != nil {
		return err
	}
	holder, err := s.crashLeader(ctx)
	if err != nil {
		return err
	}
	step("killed the leader in the middle of the rollout")
	took, err := s.awaitSuccessor(ctx, holder)
	if err != nil {
		return err
	}
	step("another replica led %.1f s after the crash", took.Seconds())
	after, err := s.awaitMachines(ctx, wanted)
	if err != nil {
		return err
	}
	if err := s.checkRollout(ctx, before, after, seen); err != nil {
		return err
	}
	step("the rollout is complete: 4 Machines were replaced by 4, the 2 others are the same")
	return nil
}

// checkRollout checks that each of 4 Machines was replaced once, and that the 2 others are the same.
func (s *environment) checkRollout(ctx context.Context, before, after map[string]map[string]types.UID, seen func() int) error {
	if err := checkSame(before[steady], after[steady]); err != nil {
		return err
	}
	for name := range after[s.workflow.Deployment()] {
		if _, old := before[s.workflow.Deployment()][name]; old {
			return fmt.Errorf("the Machine %s was not replaced", name)
		}
	}
	return s.await(ctx, "4 Machines were created for 4 to replace", func(context.Context) error {
		if created := seen() - 6; created != 4 {
			return fmt.Errorf("%d were created", created)
		}
		return nil
	})
}

// halfDone reports whether some Machines of the rollout are new and some old.
func (s *environment) halfDone(ctx context.Context, old map[string]types.UID) error {
	machines, err := s.workflow.Machines(ctx)
	if err != nil {
		return err
	}
	replaced, kept := 0, 0
	for _, m := range machines {
		if m.Labels[clusterv1.MachineDeploymentNameLabel] != s.workflow.Deployment() {
			continue
		}
		if _, isOld := old[m.Name]; isOld {
			kept++
		} else if m.Status.Phase == string(clusterv1.MachinePhaseRunning) {
			replaced++
		}
	}
	switch {
	case kept == 0:
		return errors.New("it is complete already")
	case replaced == 0:
		return errors.New("no new Machine runs yet")
	}
	return nil
}

// upgrade installs the release before, and upgrades it while machines run.
func upgrade(ctx context.Context, s *environment) error {
	if err := s.prepareNamespace(ctx); err != nil {
		return err
	}
	if err := s.helm.Install(ctx, releaseName, s.before.chart, simulated(), false); err != nil {
		return err
	}
	if err := s.workflow.Create(ctx, 3); err != nil {
		return err
	}
	wanted := map[string]int{s.workflow.Deployment(): 3}
	before, err := s.awaitMachines(ctx, wanted)
	if err != nil {
		return err
	}
	if err := s.awaitManagers(ctx, s.before); err != nil {
		return err
	}
	step("3 Machines run under release %s", s.before.version)
	start := time.Now()
	if err := s.helm.Upgrade(ctx, releaseName, s.now.chart, simulated()); err != nil {
		return err
	}
	if err := s.awaitManagers(ctx, s.now); err != nil {
		return err
	}
	step("all managers are those of release %s %.1f s after helm upgrade began", s.now.version, time.Since(start).Seconds())
	if err := s.workflow.Scale(ctx, 4); err != nil {
		return err
	}
	after, err := s.awaitMachines(ctx, map[string]int{s.workflow.Deployment(): 4})
	if err != nil {
		return err
	}
	for name, uid := range before[s.workflow.Deployment()] {
		if after[s.workflow.Deployment()][name] != uid {
			return fmt.Errorf("the Machine %s was replaced", name)
		}
	}
	step("the 3 Machines are the same, and a fourth was added")
	if err := s.deleteFleet(ctx); err != nil {
		return err
	}
	return s.remove(ctx)
}
