// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/api/crds"
	"drover.io/test/interop/peer"
)

// label is the label that the workflow sets on the template, to check that each core syncs it.
const label = "interop.drover.io/site"

// Switch creates the machines with upstream's core, changes to Drover's core and back again,
// and looks each time whether everybody is still who they were, whether labels reach the
// machines without replacing them, whether the MachineSets that were inherited still grow,
// shrink and replace Machines, and whether a rollout happens once.
func (w *Environment) Switch(ctx context.Context) error {
	var who map[string]string
	recordState := func(ctx context.Context) (err error) {
		who, err = w.allIdentities(ctx)
		return err
	}
	same := func(ctx context.Context) error { return w.same(ctx, who) }
	for _, step := range []struct {
		title string
		do    func(context.Context) error
	}{
		{"create under upstream's core", w.up},
		{"label under upstream's core", w.site("a")},
		{"remember", recordState},
		{"take over", w.takeOver},
		{"after taking over", same},
		{"scale up what was taken over", w.scale(3)},
		{"scale up what was taken over", w.running(3)},
		{"scale down what was taken over", w.scale(2)},
		{"scale down what was taken over", w.running(2)},
		{"replace a deleted Machine that was taken over", w.removeLabelFromTemplate},
		{"remediate a Machine that was taken over", w.remediate},
		{"remember", recordState},
		{"label under Drover's core", w.site("b")},
		{"after a label", same},
		{"take the label away", w.site("")},
		{"after the label", same},
		{"roll under Drover's core", w.roll("medium")},
		{"roll under Drover's core", w.rolledOnce("2")},
		{"remember", recordState},
		{"give back", w.giveBack},
		{"label under upstream's core again", w.site("c")},
		{"after giving back", same},
		{"scale under upstream's core", w.scale(3)},
		{"scale under upstream's core", w.running(3)},
		{"scale down under upstream's core", w.scale(2)},
		{"scale down under upstream's core", w.running(2)},
		{"replace a deleted Machine under upstream's core", w.removeLabelFromTemplate},
		{"remediate a Machine under upstream's core", w.remediate},
		{"roll under upstream's core", w.roll("small")},
		{"roll under upstream's core", w.rolledOnce("3")},
	} {
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.title, err)
		}
	}
	return nil
}

// takeOver ends upstream's core, takes its webhooks away, puts Drover's CRDs in the place of
// upstream's, and starts Drover's core.
func (w *Environment) takeOver(ctx context.Context) error {
	w.end(peer.Core)
	for _, kind := range []client.Object{&admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{}} {
		if err := w.Stack.ManagementClient.DeleteAllOf(ctx, kind, client.MatchingLabels{"cluster.x-k8s.io/provider": "cluster-api"}); err != nil {
			return err
		}
	}
	if err := w.replaceCRDs(ctx); err != nil {
		return err
	}
	if err := w.Stack.StartManagers(ctx); err != nil {
		return err
	}
	return w.await(ctx, "Drover's core to have looked at the MachineDeployment", func(ctx context.Context) (string, error) {
		md := &clusterv1.MachineDeployment{}
		if err := w.Stack.ManagementClient.Get(ctx, key(cluster+"-workers"), md); err != nil {
			return "", err
		}
		if !conditions.Has(md, "Progressing") {
			return "it has no condition Progressing", nil
		}
		return "", nil
	})
}

// giveBack ends Drover's core and installs and starts upstream's again.
func (w *Environment) giveBack(ctx context.Context) error {
	w.end(core)
	return w.peers.Launch(ctx, w.Stack, peer.Core)
}

// end ends a manager for good.
func (w *Environment) end(name string) {
	for _, m := range w.Stack.Managers() {
		if m.Name == name {
			m.AllowExit(true)
			m.Stop()
		}
	}
}

// replaceCRDs does what kubectl replace does with the kinds that both cores serve.
func (w *Environment) replaceCRDs(ctx context.Context) error {
	return fs.WalkDir(crds.Bases, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasPrefix(entry.Name(), clusterv1.GroupVersion.Group+"_") {
			return err
		}
		document, err := crds.Bases.ReadFile(path)
		if err != nil {
			return err
		}
		ours, live := &apiextensionsv1.CustomResourceDefinition{}, &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(document), len(document)).Decode(ours); err != nil {
			return err
		}
		if err := w.Stack.ManagementClient.Get(ctx, client.ObjectKeyFromObject(ours), live); err != nil {
			return err
		}
		ours.ResourceVersion = live.ResourceVersion
		return w.Stack.ManagementClient.Update(ctx, ours)
	})
}

// allIdentities returns the identities of hosts and Nodes, and the UIDs of objects.
func (w *Environment) allIdentities(ctx context.Context) (map[string]string, error) {
	all, err := w.identities(ctx)
	if err != nil {
		return nil, err
	}
	kinds := append(w.providerKinds(), clusterv1.GroupVersion.WithKind("MachineSet"), clusterv1.GroupVersion.WithKind("Machine"))
	for _, kind := range kinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := w.Stack.ManagementClient.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		for _, item := range list.Items {
			all["UID of "+kind.Kind+" "+item.Name] = string(item.UID)
		}
	}
	return all, nil
}

// same compares everybody with those of before.
func (w *Environment) same(ctx context.Context, before map[string]string) error {
	if err := w.running(2)(ctx); err != nil {
		return err
	}
	now, err := w.allIdentities(ctx)
	if err != nil {
		return err
	}
	if diff := cmp.Diff(before, now); diff != "" {
		return errors.New("identities have changed:\n" + diff)
	}
	return nil
}

// site labels the template, or takes the label away, and waits until every machine follows
// with its objects.
func (w *Environment) site(value string) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := w.change(ctx, func(md *clusterv1.MachineDeployment) {
			labels := maps.Clone(md.Spec.Template.Labels)
			delete(labels, label)
			if value != "" {
				labels[label] = value
			}
			md.Spec.Template.Labels = labels
		}); err != nil {
			return err
		}
		return w.await(ctx, fmt.Sprintf("everything to be labelled %q", value), func(ctx context.Context) (string, error) {
			return w.unlabelled(ctx, value)
		})
	}
}

// unlabelled names an object that does not carry the value.
func (w *Environment) unlabelled(ctx context.Context, value string) (string, error) {
	for _, kind := range append(w.providerKinds(), clusterv1.GroupVersion.WithKind("MachineSet"), clusterv1.GroupVersion.WithKind("Machine")) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := w.Stack.ManagementClient.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return "", err
		}
		for _, item := range list.Items {
			if got := item.Labels[label]; got != value {
				return fmt.Sprintf("%s %s has %q", kind.Kind, item.Name, got), nil
			}
		}
	}
	return "", nil
}

// rolledOnce waits for the end of the rollout, and looks for one MachineSet, the new one.
func (w *Environment) rolledOnce(revision string) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := w.await(ctx, "one MachineSet to be left", func(ctx context.Context) (string, error) {
			list := &clusterv1.MachineSetList{}
			if err := w.Stack.ManagementClient.List(ctx, list, client.InNamespace(namespace)); err != nil {
				return "", err
			}
			if len(list.Items) != 1 || list.Items[0].Annotations[clusterv1.RevisionAnnotation] != revision {
				return fmt.Sprintf("%d MachineSets, the first of revision %s", len(list.Items), list.Items[0].Annotations[clusterv1.RevisionAnnotation]), nil
			}
			return "", nil
		}); err != nil {
			return err
		}
		return w.running(2)(ctx)
	}
}

// removeLabelFromTemplate deletes a Machine and waits for another in its place.
func (w *Environment) removeLabelFromTemplate(ctx context.Context) error {
	return w.replaced(ctx, func(ctx context.Context, m *clusterv1.Machine) error { return w.Stack.ManagementClient.Delete(ctx, m) })
}

// remediate has a MachineHealthCheck order a Machine to be replaced, and waits for another in its place.
func (w *Environment) remediate(ctx context.Context) error {
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: cluster + "-workers"}}
	check.Spec.ClusterName = cluster
	check.Spec.Selector.MatchLabels = map[string]string{clusterv1.MachineDeploymentNameLabel: cluster + "-workers"}
	if err := w.Stack.ManagementClient.Create(ctx, check); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	return w.replaced(ctx, func(ctx context.Context, m *clusterv1.Machine) error {
		before := m.DeepCopy()
		m.Annotations = maps.Clone(m.Annotations)
		if m.Annotations == nil {
			m.Annotations = map[string]string{}
		}
		m.Annotations[clusterv1.RemediateMachineAnnotation] = ""
		return w.Stack.ManagementClient.Patch(ctx, m, client.MergeFrom(before))
	})
}

// replaced does something to one of the workers that ends it, and waits until it is gone and as many run as before.
func (w *Environment) replaced(ctx context.Context, end func(context.Context, *clusterv1.Machine) error) error {
	workers, err := w.workers(ctx)
	if err != nil {
		return err
	}
	deleted := &workers[0]
	if err := end(ctx, deleted); err != nil {
		return err
	}
	if err := w.await(ctx, "Machine "+deleted.Name+" to be gone", func(ctx context.Context) (string, error) {
		left := &clusterv1.Machine{}
		err := w.Stack.ManagementClient.Get(ctx, client.ObjectKeyFromObject(deleted), left)
		if err != nil {
			return "", client.IgnoreNotFound(err)
		}
		return "it is " + left.Status.Phase + ": " + failingConditions(left), nil
	}); err != nil {
		return err
	}
	return w.running(len(workers))(ctx)
}
