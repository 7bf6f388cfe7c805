// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package csrapproval

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/bootstrap/internal/csrapproval/policy"
)

const (
	// controlPlaneFreshness is how long the names and addresses of the control plane are valid after they were read.
	controlPlaneFreshness = time.Minute
	// resolveTimeout bounds the look-up of the control plane's names.
	resolveTimeout = 2 * time.Second
	// maxTaken is how many names and addresses a control plane may have, and maxNameLength how many characters each. They
	// are kept for every workload cluster, whose API server chooses them. A Node of a control plane has some five.
	maxTaken, maxNameLength = 4_000, 253
	// maxLookups is how many of the names of a control plane are looked up.
	maxLookups = 16
	// controlPlaneLabel is on the Nodes of control planes that kubeadm and most installers make.
	controlPlaneLabel = "node-role.kubernetes.io/control-plane"
)

// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=*,verbs=get

// expectedIdentity returns the names and addresses that are certain to be those of a Machine. Its own name is one: providers name
// instances after it, and it is unique. Others are the addresses that the cloud assigned. The name of its Node
// is none by itself: a Node's name and providerID are the choice of the host that registers it.
func (a *approver) expectedIdentity(ctx context.Context, m *clusterv1.Machine, all []clusterv1.Machine) (policy.Identity, error) {
	h := policy.Identity{NodeName: m.Status.NodeRef.Name, Names: []string{m.Name}}
	cloudAddresses, err := a.cloudAddresses(ctx, m)
	if err != nil {
		return h, err
	}
	for _, address := range cloudAddresses {
		if net.ParseIP(address) != nil {
			h.Addresses = append(h.Addresses, address)
		} else {
			h.Names = append(h.Names, address)
		}
	}
	control, err := a.reservedForControlPlane(ctx)
	if err != nil {
		return h, err
	}
	h.Taken.Names, h.Taken.Addresses = slices.Clone(control.Names), slices.Clone(control.Addresses)
	for i := range all {
		other := &all[i]
		if other.UID == m.UID {
			continue
		}
		h.Taken.Names = append(h.Taken.Names, other.Name)
		if a.trustReported {
			// What two guests report is of neither. Where the cloud assigns addresses, a guest must not be able to
			// keep another Machine from its own.
			add(&h.Taken, other.Status.Addresses)
		}
	}
	return h, nil
}

// cloudAddresses returns the names and addresses of a Machine that are not its guest's choice, by one live read: a copy or a
// cache may be older than a change of the assigned addresses. Infrastructure providers of other projects have no such field,
// and some pass on what the guest reports, so nothing of those is accepted unless reported addresses are. Then their names
// are, too: a host may have no other name.
func (a *approver) cloudAddresses(ctx context.Context, m *clusterv1.Machine) ([]string, error) {
	ref := m.Spec.InfrastructureRef
	ours := ref.APIGroup == infrav1.GroupVersion.Group
	var all []string
	if a.trustReported {
		for _, address := range m.Status.Addresses {
			// The host name that a guest reports would be that of any Node.
			if !ours || net.ParseIP(address.Address) != nil {
				all = append(all, address.Address)
			}
		}
	}
	if !ours {
		return all, nil
	}
	infra := &unstructured.Unstructured{}
	infra.SetGroupVersionKind(schema.GroupVersionKind{Group: ref.APIGroup, Version: infrav1.GroupVersion.Version, Kind: ref.Kind})
	if err := a.live.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: ref.Name}, infra); err != nil {
		return nil, fmt.Errorf("reading %s %q: %w", ref.Kind, ref.Name, err)
	}
	if owner := metav1.GetControllerOf(infra); owner == nil || owner.UID != m.UID {
		return nil, fmt.Errorf("reading %s %q: it does not belong to Machine %q", ref.Kind, ref.Name, m.Name)
	}
	cloudAddresses, _, err := unstructured.NestedStringSlice(infra.Object, "status", "cloudAddresses")
	if err != nil {
		return nil, fmt.Errorf("reading status.cloudAddresses of %s %q: %w", ref.Kind, ref.Name, err)
	}
	return append(all, cloudAddresses...), nil
}

// reservedForControlPlane returns the names and addresses of the control plane: the endpoints of the Cluster, of the kubeconfig and of
// the BootstrapConfigs, what these resolve to, the API server as pods see it and where it announces itself, and the Nodes
// that the control plane runs on.
func (a *approver) reservedForControlPlane(ctx context.Context) (policy.Reserved, error) {
	a.mu.Lock()
	known, fresh := a.control, time.Now().Before(a.stale)
	a.mu.Unlock()
	if fresh {
		return known, nil
	}
	taken := policy.Reserved{}
	cluster := &clusterv1.Cluster{}
	if err := a.client.Get(ctx, client.ObjectKeyFromObject(a.cluster), cluster); err != nil {
		return taken, fmt.Errorf("reading Cluster: %w", err)
	}
	hosts, err := a.endpoints(ctx, cluster)
	if err != nil {
		return taken, err
	}
	taken.Names, taken.Addresses = slices.Clone(hosts), slices.Clone(hosts)
	resolved := a.resolveAll(ctx, hosts[:min(len(hosts), maxLookups)])
	for _, host := range hosts {
		taken.Addresses = append(taken.Addresses, resolved[host]...)
	}
	service, err := a.connection.Core.Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err == nil {
		taken.Addresses = append(taken.Addresses, service.Spec.ClusterIPs...)
	} else if !apierrors.IsNotFound(err) {
		return taken, fmt.Errorf("reading the Service of the API server: %w", err)
	}
	slice, err := a.connection.Discovery.EndpointSlices(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err == nil {
		for i := range slice.Endpoints {
			taken.Addresses = append(taken.Addresses, slice.Endpoints[i].Addresses...)
		}
	} else if !apierrors.IsNotFound(err) {
		return taken, fmt.Errorf("reading the EndpointSlice of the API server: %w", err)
	}
	nodes, err := a.connection.Core.Nodes().List(ctx, metav1.ListOptions{LabelSelector: controlPlaneLabel})
	if err != nil {
		return taken, fmt.Errorf("listing the Nodes of the control plane: %w", err)
	}
	for i := range nodes.Items {
		taken.Names = append(taken.Names, nodes.Items[i].Name)
		for _, address := range nodes.Items[i].Status.Addresses {
			taken.Names, taken.Addresses = append(taken.Names, address.Address), append(taken.Addresses, address.Address)
		}
	}
	if err := checkSize(taken); err != nil {
		return policy.Reserved{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.control, a.resolved, a.stale = taken, resolved, time.Now().Add(controlPlaneFreshness)
	return taken, nil
}

// endpoints returns the hosts by which the API server is reached: by users, by this process and by the machines.
func (a *approver) endpoints(ctx context.Context, cluster *clusterv1.Cluster) ([]string, error) {
	hosts := []string{cluster.Spec.ControlPlaneEndpoint.Host, a.connection.Server.TLSServerName}
	if server, err := url.Parse(a.connection.Server.URL); err == nil {
		hosts = append(hosts, server.Hostname())
	}
	configs := &bootstrapv1.BootstrapConfigList{}
	if err := a.client.List(ctx, configs, client.InNamespace(cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing BootstrapConfigs: %w", err)
	}
	known := map[string]bool{"": true}
	for i := range configs.Items {
		join := configs.Items[i].Spec.Join
		host, _, err := net.SplitHostPort(join.Endpoint)
		if err != nil {
			host = ""
		}
		for _, each := range []string{host, join.TLSServerName} {
			if !known[each] {
				hosts, known[each] = append(hosts, each), true
			}
		}
	}
	return hosts, nil
}

// checkSize returns an error where names and addresses of a control plane would take much memory.
func checkSize(taken policy.Reserved) error {
	tooLong := func(text string) bool { return len(text) > maxNameLength }
	switch {
	case len(taken.Names)+len(taken.Addresses) > maxTaken:
		return fmt.Errorf("reading the control plane: it has more than %d names and addresses", maxTaken)
	case slices.ContainsFunc(taken.Names, tooLong), slices.ContainsFunc(taken.Addresses, tooLong):
		return fmt.Errorf("reading the control plane: it has a name or an address of more than %d characters", maxNameLength)
	}
	return nil
}

// maxAddresses is how many addresses of one host name are used.
const maxAddresses = 64

// resolveAll looks host names up, at the same time.
func (a *approver) resolveAll(ctx context.Context, hosts []string) map[string][]string {
	found := make([][]string, len(hosts))
	var all sync.WaitGroup
	for i, host := range hosts {
		all.Go(func() { found[i] = a.addressesOf(ctx, host) })
	}
	all.Wait()
	resolved := map[string][]string{}
	for i, host := range hosts {
		resolved[host] = found[i]
	}
	return resolved
}

// addressesOf looks a host name up. Where that fails, what was found before is kept.
func (a *approver) addressesOf(ctx context.Context, host string) []string {
	if a.resolve == nil || host == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	found, err := a.resolve(ctx, host)
	if err != nil {
		a.log.V(1).Info("could not resolve the control plane's endpoint", "host", host, "message", err.Error())
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.resolved[host]
	}
	return found[:min(len(found), maxAddresses)]
}

func add(taken *policy.Reserved, addresses clusterv1.MachineAddresses) {
	for _, address := range addresses {
		if isIP(address) {
			taken.Addresses = append(taken.Addresses, address.Address)
		} else {
			taken.Names = append(taken.Names, address.Address)
		}
	}
}

func isIP(address clusterv1.MachineAddress) bool {
	return address.Type == clusterv1.MachineInternalIP || address.Type == clusterv1.MachineExternalIP
}
