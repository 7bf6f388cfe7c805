// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// protection is the policy that protects the kinds, and its binding.
const protection = "drover-" + namespace + "-kinds-are-kept"

// ours selects every object of an installation.
var ours = client.MatchingLabels{"app.kubernetes.io/part-of": "drover"}

// removal removes the release while Machines exist, which keeps them, then installs it again and removes it in order.
func removal(ctx context.Context, s *environment) error {
	wanted := map[string]int{s.workflow.Deployment(): 4, steady: 2}
	before, err := s.awaitMachines(ctx, wanted)
	if err != nil {
		return err
	}
	if err := s.kindsAreKept(ctx); err != nil {
		return err
	}
	if err := s.explainsRemoval(); err != nil {
		return err
	}
	holder, err := s.holder(ctx)
	if err != nil {
		return err
	}
	if err := s.uninstallKeepsMachines(ctx, 6); err != nil {
		return err
	}
	if err := s.helm.Install(ctx, releaseName, s.now.chart, simulated(), false); err != nil {
		return fmt.Errorf("installing again: %w", err)
	}
	if err := s.awaitManagers(ctx, s.now); err != nil {
		return err
	}
	if _, err := s.awaitSuccessor(ctx, holder); err != nil {
		return err
	}
	after, err := s.awaitMachines(ctx, wanted)
	if err != nil {
		return err
	}
	for deployment := range wanted {
		if err := checkSame(before[deployment], after[deployment]); err != nil {
			return err
		}
	}
	step("after another installation the 6 Machines are the same")
	if err := s.deleteFleet(ctx); err != nil {
		return err
	}
	step("deleted the Cluster: nothing is left of its machines")
	return s.remove(ctx)
}

// uninstallKeepsMachines proves that helm uninstall names the kinds that it keeps, and keeps the Machines.
func (s *environment) uninstallKeepsMachines(ctx context.Context, count int) error {
	output, err := s.helm.Uninstall(releaseName)
	if err != nil {
		return err
	}
	if !strings.Contains(output, "machines.cluster.x-k8s.io") {
		return fmt.Errorf("helm uninstall does not name the kinds that it keeps: %q", output)
	}
	if err := s.awaitNoPods(ctx); err != nil {
		return err
	}
	machines, err := s.workflow.Machines(ctx)
	if err != nil {
		return err
	}
	if len(machines) != count {
		return fmt.Errorf("%d of %d Machines are left", len(machines), count)
	}
	step("helm uninstall kept %d Machines and named the kinds that it keeps", count)
	return nil
}

// kindsAreKept proves that the kinds cannot be deleted, and that the refusal names what to do.
func (s *environment) kindsAreKept(ctx context.Context) error {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "machines.cluster.x-k8s.io"}}
	switch err := s.client.Delete(ctx, crd); {
	case err == nil:
		return errors.New("the kind Machine was deleted while Machines exist")
	case !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "delete the Clusters first"):
		return fmt.Errorf("deleting the kind Machine was refused without explanation: %w", err)
	}
	step("deleting the kind Machine is refused while Machines exist")
	return nil
}

// explainsRemoval proves that the notes of the chart name the steps before its removal.
func (s *environment) explainsRemoval() error {
	notes, err := s.helm.Notes(releaseName)
	if err == nil && !strings.Contains(notes, "Before you uninstall, delete the Clusters and Machines") {
		err = fmt.Errorf("the notes do not explain the removal: %q", notes)
	}
	return err
}

// remove follows the steps of docs/guides/install.md once no Machine is left, and checks that nothing of Drover is left.
func (s *environment) remove(ctx context.Context) error {
	if _, err := s.helm.Uninstall(releaseName); err != nil {
		return err
	}
	if err := s.awaitNoPods(ctx); err != nil {
		return err
	}
	if err := s.onlyKeptIsLeft(ctx); err != nil {
		return err
	}
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := s.client.List(ctx, crds, ours); err != nil {
		return err
	}
	for i := range crds.Items {
		crd := &crds.Items[i]
		allow := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"drover.io/allow-deletion":"true"}}}`))
		if err := errors.Join(s.client.Patch(ctx, crd, allow), s.client.Delete(ctx, crd)); err != nil {
			return err
		}
	}
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: core + "-providers:" + namespace}},
		&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: protection}},
		&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: protection}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claimName}},
	} {
		if err := client.IgnoreNotFound(s.client.Delete(ctx, object)); err != nil {
			return err
		}
	}
	if err := s.awaitPristine(ctx); err != nil {
		return err
	}
	step("nothing of Drover is left: neither cluster has an object or a finalizer that it did not have before the installation")
	return nil
}

// kept are the beginnings of the names of what helm uninstall leaves on purpose: the kinds, the role that Kubernetes
// gathers, the Leases, which the managers make, and the namespace with what the user and the cluster put there.
var kept = []string{
	"CustomResourceDefinition.apiextensions.k8s.io /",
	"APIService.apiregistration.k8s.io /",
	"ClusterRole.rbac.authorization.k8s.io /drover-machine-controller-providers",
	"ValidatingAdmissionPolicy.admissionregistration.k8s.io /" + protection,
	"ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io /" + protection,
	"Lease.coordination.k8s.io drover-system/drover-",
	"Namespace /drover-system",
	"ConfigMap drover-system/kube-root-ca.crt",
	"ServiceAccount drover-system/default",
	"PersistentVolumeClaim drover-system/sim-state",
	"PersistentVolume /sim-state",
}

// onlyKeptIsLeft checks what helm uninstall leaves.
func (s *environment) onlyKeptIsLeft(ctx context.Context) error {
	var left []string
	err := s.await(ctx, "helm uninstall leaves only what is kept on purpose", func(ctx context.Context) error {
		after, err := s.inventory(ctx)
		if err != nil {
			return err
		}
		left = after.addedSince(s.pristine)
		for _, name := range left {
			if !slices.ContainsFunc(kept, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
				return fmt.Errorf("%s is left", name)
			}
		}
		return nil
	})
	if err == nil {
		step("helm uninstall leaves %s", summary(left))
	}
	return err
}

// summary counts names by kind.
func summary(names []string) string {
	counts := map[string]int{}
	for _, name := range names {
		if kind, _, _ := strings.Cut(name, " "); !strings.Contains(name, " finalizer ") {
			counts[kind]++
		}
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		short, _, _ := strings.Cut(kind, ".")
		parts = append(parts, fmt.Sprintf("%d %s", counts[kind], short))
	}
	return strings.Join(parts, ", ")
}
