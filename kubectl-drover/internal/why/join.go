// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/api/reason"
	"drover.io/kubectl-drover/internal/object"
	"drover.io/runtime/nodehost"
)

// notJoined is what keeps the host of a Machine from its Node: its instance, a Node that is there already, or what the console
// says, in this order: what a console shows of a host that may not register is only a consequence.
func (f *Finder) notJoined(ctx context.Context, m *clusterv1.Machine, found *Finding) (*Finding, error) {
	deeper, err := f.infraMachine(ctx, m, found, clusterv1.ReadyCondition, infrav1.HostJoinedCondition)
	host := deeper == found || deeper != nil && deeper.Condition.Type == infrav1.HostJoinedCondition
	if err != nil || !host {
		return deeper, err
	}
	if m.Spec.ProviderID != "" {
		deeper = f.notRegistered(ctx, m, found, deeper)
	}
	// A load balancer that fails may be why hosts do not join.
	_, err = f.besidesCluster(ctx, m, deeper, clusterConditions, "Besides,")
	return deeper, err
}

// notRegistered is what keeps a host whose instance is known from its Node: a Node that is there already, else what its console says.
func (f *Finder) notRegistered(ctx context.Context, m *clusterv1.Machine, found, host *Finding) *Finding {
	node, err := f.nodeOfItsName(ctx, m)
	switch {
	case node != nil && node.Spec.ProviderID == "":
		f.withoutProviderID(ctx, m, node, found)
		return found
	case node != nil:
		nameTaken(m, node, found)
		return found
	case err != nil:
		host.Facts = append(host.Facts, fmt.Sprintf("The workload cluster was not read: %v", err))
	}
	f.certificateRefused(ctx, m, host)
	return host
}

// besidesCluster adds which of the given conditions the Cluster of a Machine is not well for, after words that lead to it, and
// returns it; nil if there is none.
func (f *Finder) besidesCluster(ctx context.Context, m *clusterv1.Machine, found *Finding, kinds []string, words string) (*Finding, error) {
	cluster, err := f.readCluster(ctx, ReferenceOf(m))
	if cluster == nil || err != nil {
		return nil, err
	}
	besides := clusterItself(cluster, kinds)
	if besides == nil || besides.Condition.Type == "" {
		return nil, nil //nolint:nilnil // it is well
	}
	found.Facts = append(found.Facts, besides.condition(words+" the condition "+besides.Condition.Type+" of "+besides.Object.String()))
	return besides, nil
}

// refusedEvent is the reason of the event of a Machine about a certificate that its host requested and must not have.
const refusedEvent = "CertificateRequestNotApproved"

// certificateRefused adds why the last certificate that the host requested was refused. Without permission to read events,
// nothing is added.
func (f *Finder) certificateRefused(ctx context.Context, m *clusterv1.Machine, found *Finding) {
	var last *corev1.Event
	kind := object.Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Event"), Resource: "events"}
	err := object.Each(ctx, f.Reader, kind, &corev1.EventList{}, func(page *corev1.EventList) error {
		for i := range page.Items {
			if e := &page.Items[i]; e.Reason == refusedEvent && e.Type == corev1.EventTypeWarning && (last == nil || last.CreationTimestamp.Before(&e.CreationTimestamp)) {
				last = e.DeepCopy()
			}
		}
		return nil
	}, client.InNamespace(m.Namespace), client.MatchingFields{"involvedObject.uid": string(m.UID)})
	if err != nil || last == nil {
		return
	}
	found.Facts = append(found.Facts, "Its host may not register: "+last.Message)
	found.Actor, found.Help = reason.Operator, "correct what the event has; where the host is not the one that was created, "+reason.DeleteMachine
	found.Command = command("kubectl events --for machine.cluster.x-k8s.io/{name} --namespace {namespace}", ReferenceOf(m))
}

// nodeOfItsName is a Node that has a name of the Machine and is not known to be its own: it has no providerID, or that of another
// instance, so that the host may not register under its name. An error is why it is not known whether there is one.
func (f *Finder) nodeOfItsName(ctx context.Context, m *clusterv1.Machine) (*corev1.Node, error) {
	workload, err := f.Workload(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName})
	if err != nil {
		return nil, err
	}
	var other *corev1.Node
	var unread error
	for _, name := range nodeNames(m) {
		node := &corev1.Node{}
		switch err := workload.Client.Get(ctx, client.ObjectKey{Name: name}, node); {
		case apierrors.IsNotFound(err):
		case err != nil:
			unread = err
		case node.Spec.ProviderID == "":
			return node, nil
		case other == nil && node.Spec.ProviderID != m.Spec.ProviderID:
			other = node
		}
	}
	return other, unread
}

// withoutProviderID adds who is to write the providerID of a Node: the cloud controller manager where there is one, else Drover, if
// the Cluster has the annotation.
func (f *Finder) withoutProviderID(ctx context.Context, m *clusterv1.Machine, node *corev1.Node, found *Finding) {
	found.Facts = append(found.Facts, fmt.Sprintf("Node %s exists and has no spec.providerID, so it is not known to be that of this Machine", node.Name))
	found.external = true
	cluster, _ := f.readCluster(ctx, ReferenceOf(m))
	assigned, annotated := "", false
	if cluster != nil {
		assigned, annotated = cluster.Annotations[assignProviderIDs]
	}
	switch {
	case slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == uninitializedTaint }):
		found.Actor, found.Command = reason.WorkloadAdmin, ""
		found.Help = "install the cloud controller manager of the cloud where there is none, or see why it has not initialized the Node yet: it writes the providerID, and removes the taint " + uninitializedTaint
	case assigned == "true":
		found.Actor, found.Command = reason.Operator, ""
		found.Help = "compare the addresses of the Node with status.addresses of the Machine: Drover writes the providerID where they have an internal IP in common that no other Machine has"
	default:
		found.Actor = reason.Operator
		found.Help = "install the cloud controller manager of the cloud; only where there is none, let Drover write the providerIDs of the Cluster, with the annotation " + assignProviderIDs
		found.Command = command("kubectl annotate cluster.cluster.x-k8s.io {cluster} --namespace {namespace} "+assignProviderIDs+"=true", found.Object)
		if annotated {
			found.Command += " --overwrite"
		}
	}
}

const (
	// assignProviderIDs is the annotation of a Cluster by which Drover writes the providerIDs of its Nodes.
	assignProviderIDs = "drover.io/assign-provider-ids"
	// uninitializedTaint is what a Node has until the cloud controller manager has initialized it.
	uninitializedTaint = "node.cloudprovider.kubernetes.io/uninitialized"
)

// nameTaken adds what a Node of another providerID means: the host of the Machine may not register under its name, or has
// registered there.
func nameTaken(m *clusterv1.Machine, other *corev1.Node, found *Finding) {
	fact := fmt.Sprintf("Node %q exists with spec.providerID %q, which is another instance", other.Name, other.Spec.ProviderID)
	found.Meaning = "the workload cluster has a Node of its name already, so its host may not register"
	found.Help = "delete that Node in the workload cluster if its instance is gone: the host then registers by itself; otherwise give the host of this Machine another name, or " + reason.DeleteMachine
	own := nodehost.Runs(m, other)
	found.external = !own // the template may configure the providerID of the kubelet of its own host
	if own {
		fact = fmt.Sprintf("Node %q exists with spec.providerID %q, and is ready with an address of this Machine", other.Name, other.Spec.ProviderID)
		found.Meaning = "its host has registered under another providerID"
		found.Help = "correct what sets that providerID, the kubelet, a cloud controller manager or a Node that was left over; then drain and delete that Node, and " + reason.DeleteMachine
	}
	if !strings.Contains(found.Condition.Message, fact) {
		found.Facts = append(found.Facts, fact)
	}
	found.Actor, found.Command = reason.Operator, ""
	if owner := other.Annotations[clusterv1.MachineAnnotation]; owner != "" && owner != m.Name {
		found.Facts = append(found.Facts, fmt.Sprintf("It is that of Machine %s", owner))
	}
}

// nodeNames are the names that the Node of a Machine may have, each once.
func nodeNames(m *clusterv1.Machine) []string {
	names := []string{m.Name}
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	add(m.Spec.InfrastructureRef.Name)
	for _, address := range m.Status.Addresses {
		switch address.Type {
		case clusterv1.MachineHostName, clusterv1.MachineInternalDNS, clusterv1.MachineExternalDNS:
			add(address.Address)
		}
	}
	return names
}
