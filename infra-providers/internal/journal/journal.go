// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package journal keeps the journals of drivers whose clouds have neither tags nor tokens: one entry for each machine, in
// an annotation of its object. It reads from the API server itself and writes only an entry that was not changed since, so
// that of two callers one writes. Package account passes it to such drivers; what an entry says is theirs.
package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// Journal implements driver.Journal for the machines of one cloud.
type Journal[M driver.Machine] struct {
	// NewMachine and NewMachineList return empty objects.
	NewMachine     func() M
	NewMachineList func() driver.MachineList
	// Client reads from the cache, Live from the API server.
	Client client.Client
	Live   client.Reader
}

// Read implements driver.Journal.
func (j Journal[M]) Read(ctx context.Context, id driver.Identity) (driver.Entry, error) {
	machine := j.NewMachine()
	err := j.Live.Get(ctx, client.ObjectKey{Namespace: id.Owner.Namespace, Name: id.Name}, machine)
	if client.IgnoreNotFound(err) != nil {
		return driver.Entry{}, fmt.Errorf("reading the journal: %w", err)
	}
	if err != nil || !owns(machine, id.UID) {
		return driver.Entry{}, &driver.NotFoundError{What: fmt.Sprintf("object of machine %q", id.Name)}
	}
	return entryOf(machine, id.UID), nil
}

// owns reports whether an identity is that of an object. The annotation may have been changed since something was created
// under the object's own UID.
func owns(machine driver.Machine, uid types.UID) bool {
	return uid != "" && slices.Contains(uidsOf(machine), uid)
}

// entryOf returns the entry of an object that was read under one of its UIDs.
func entryOf(machine driver.Machine, uid types.UID) driver.Entry {
	entry := driver.Entry{Data: machine.GetAnnotations()[infrav1.JournalAnnotation], Version: machine.GetResourceVersion()}
	for _, other := range uidsOf(machine) {
		if other != uid {
			entry.OtherUID = other
		}
	}
	return entry
}

// uidsOf returns the UIDs under which the instance of an object may have been created: its own, and that of the annotation where
// it is another one.
func uidsOf(machine driver.Machine) []types.UID {
	uids := []types.UID{machine.GetUID()}
	if recorded := types.UID(machine.GetAnnotations()[infrav1.IdentityAnnotation]); recorded != "" && recorded != uids[0] {
		uids = append(uids, recorded)
	}
	return uids
}

// attempts is how often a write is repeated while something else of the object changes.
const attempts = 5

// Write implements driver.Journal.
func (j Journal[M]) Write(ctx context.Context, id driver.Identity, read driver.Entry, data string) (driver.Entry, error) {
	for range attempts {
		written, err := j.patch(ctx, id, read.Version, data)
		if !apierrors.IsConflict(err) {
			return written, err
		}
		current, err := j.Read(ctx, id)
		if err != nil {
			return driver.Entry{}, err
		}
		if current.Data != read.Data {
			break
		}
		read = current
	}
	return driver.Entry{}, fmt.Errorf("writing the journal of machine %q: it has changed", id.Name)
}

// patch writes an entry if the object has a version.
func (j Journal[M]) patch(ctx context.Context, id driver.Identity, version, data string) (driver.Entry, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": version,
		"annotations":     map[string]any{infrav1.JournalAnnotation: data},
	}})
	if err != nil {
		return driver.Entry{}, err
	}
	machine := j.NewMachine()
	machine.SetNamespace(id.Owner.Namespace)
	machine.SetName(id.Name)
	if err := j.Client.Patch(ctx, machine, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return driver.Entry{}, fmt.Errorf("writing the journal: %w", err)
	}
	return entryOf(machine, id.UID), nil
}

// List implements driver.Journal.
func (j Journal[M]) List(ctx context.Context) ([]driver.MachineEntry, error) {
	clusters, list := &clusterv1.ClusterList{}, j.NewMachineList()
	if err := j.Client.List(ctx, clusters); err != nil {
		return nil, fmt.Errorf("listing Clusters: %w", err)
	}
	if err := j.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing machines: %w", err)
	}
	uids := map[client.ObjectKey]types.UID{}
	for i := range clusters.Items {
		uids[client.ObjectKeyFromObject(&clusters.Items[i])] = clusters.Items[i].UID
	}
	var all []driver.MachineEntry
	err := meta.EachListItem(list, func(item runtime.Object) error {
		all = append(all, machineEntries(item.(M), uids)...)
		return nil
	})
	return all, err
}

// machineEntries returns one entry for each UID of an object, as a claim on instances has both: an annotation that is wrong must
// not hide the instance that was created under the object's own UID.
func machineEntries(machine driver.Machine, clusters map[client.ObjectKey]types.UID) (all []driver.MachineEntry) {
	owner := driver.Owner{Namespace: machine.GetNamespace(), Name: machine.GetLabels()[clusterv1.ClusterNameLabel]}
	owner.UID = clusters[client.ObjectKey{Namespace: owner.Namespace, Name: owner.Name}]
	for _, uid := range uidsOf(machine) {
		all = append(all, driver.MachineEntry{
			Identity: driver.Identity{UID: uid, Name: machine.GetName(), Owner: owner},
			Data:     machine.GetAnnotations()[infrav1.JournalAnnotation],
		})
	}
	return all
}
