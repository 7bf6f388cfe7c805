// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcd

import (
	"cmp"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vmware/go-vcloud-director/v3/types/v56"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/driver"
)

const (
	// pollInterval is when a virtual machine with a task in progress is read again.
	pollInterval = 5 * time.Second
	// addressPollInterval is for one whose addresses VMware Tools have not reported yet.
	addressPollInterval = 15 * time.Second
)

// providerScheme begins the provider IDs, as the cloud controller manager of Cloud Director writes them.
const providerScheme = "vmware-cloud-director://urn:vcloud:vm:"

var uuidPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// parseProviderID returns the UUID of the virtual machine; ok is false for a provider ID that none can have.
func parseProviderID(providerID string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(providerID, providerScheme)
	return rest, ok && rest != "" && idOf(rest) == rest
}

// idOf returns the UUID at the end of a URL or URN; empty without one. It does not keep the rest, whose length a server chooses.
func idOf(reference string) string { return strings.Clone(uuidPattern.FindString(reference)) }

func vmPath(id string) string { return "/vApp/vm-" + id }

// The statuses of a virtual machine.
const (
	statusFailed     = -1
	statusUnresolved = 0
	statusSuspended  = 3
	statusOn         = 4
	statusOff        = 8

	// Those of a virtual machine that its guest switched off or suspended, while what it ran in is still deployed.
	statusPartlyOff       = 20
	statusPartlySuspended = 21
)

func isOff(status int) bool { return status == statusOff || status == statusPartlyOff }

func isSuspended(status int) bool {
	return status == statusSuspended || status == statusPartlySuspended
}

// The keys of the metadata.
const (
	metadataPrefix = "drover.io."
	zoneKey        = metadataPrefix + "failure-domain"
)

// metadataKeys are all of them. A slash would be a part of the path of an entry.
var metadataKeys = []string{key(driver.TagMachineUID), key(driver.TagMachine), key(driver.TagClusterUID), key(driver.TagClusterNamespace), key(driver.TagCluster), zoneKey}

// key returns the key of metadata for a tag.
func key(tag string) string { return strings.Replace(tag, "/", ".", 1) }

// machine is a virtual machine with its identity.
type machine struct {
	id       string
	vm       *types.Vm
	identity driver.Identity
	// marked is true for one whose metadata has an identity. Before that it is identified by its description, while it
	// was never started.
	marked  bool
	zone    string
	created time.Time
}

func newMachine(id string, vm *types.Vm, metadata *types.Metadata) *machine {
	m := &machine{id: id, vm: vm, created: parseTime(vm.DateCreated)}
	m.identity, m.zone, m.marked = identify(vm.Name, vm.Description, vm.Deployed || vm.Status == statusOn, metadata)
	m.identity.ProviderID = providerScheme + id
	return m
}

// identify returns the identity in the metadata of a virtual machine, or in its description if it has no metadata of ours and was
// not started yet. Only entries of the domain GENERAL count, because those are the ones that a tenant writes.
func identify(name, description string, started bool, metadata *types.Metadata) (id driver.Identity, zone string, marked bool) {
	tags := map[string]string{}
	if metadata != nil {
		for _, entry := range metadata.MetadataEntry {
			if entry.TypedValue != nil && (entry.Domain == nil || entry.Domain.Domain != "SYSTEM") && strings.HasPrefix(entry.Key, metadataPrefix) {
				tags[strings.Replace(entry.Key, ".io.", ".io/", 1)] = entry.TypedValue.Value
			}
		}
	}
	if len(tags) == 0 && !started {
		return parseDescription(name, description), "", false
	}
	id, _ = driver.FromTags(tags)
	return id, tags[strings.Replace(zoneKey, ".io.", ".io/", 1)], true
}

// isBusy reports whether Director carries out something on the virtual machine.
func (m machine) isBusy() bool { return len(active(m.vm.Tasks)) > 0 }

// active returns the tasks that have not ended.
func active(tasks *types.TasksInProgress) (all []*types.Task) {
	if tasks == nil {
		return nil
	}
	for _, task := range tasks.Task {
		if isActive(task.Status) {
			all = append(all, task)
		}
	}
	return all
}

func isActive(status string) bool {
	return slices.Contains([]string{"queued", "preRunning", "running"}, status)
}

func children(vApp *types.VApp) []*types.Vm {
	if vApp.Children == nil {
		return nil
	}
	return vApp.Children.VM
}

// toInstance converts a virtual machine.
func (d *Driver) toInstance(m machine) driver.Instance {
	return withAddresses(d.stateOf(driver.Instance{
		ID: m.id, ProviderID: m.identity.ProviderID, Identity: m.identity, FailureDomain: m.zone, Created: m.created,
	}, m.vm.Status, m.marked, m.isBusy()), m.vm)
}

// recordInstance converts a virtual machine in a list. inVApp is the same one as its vApp has it, with its tasks and addresses, or
// nil if the two answers differ: it is read again then.
func (d *Driver) recordInstance(r *record, inVApp *types.Vm) listedInstance {
	id, status := idOf(r.HREF), statusUnresolved
	if known, ok := recordStatuses[r.Status]; ok {
		status = known
	}
	identity, zone, marked := identify(r.Name, r.Description, r.Deployed || status == statusOn, r.MetaData)
	identity.ProviderID = providerScheme + id
	return listedInstance{withAddresses(d.stateOf(driver.Instance{
		ID: id, ProviderID: identity.ProviderID, Identity: identity, FailureDomain: zone, Created: parseTime(r.DateCreated),
	}, status, marked, inVApp != nil && len(active(inVApp.Tasks)) > 0), inVApp), isIncomplete(status, marked)}
}

// withAddresses sets the addresses of an instance. One that runs without any is read again.
func withAddresses(found driver.Instance, vm *types.Vm) driver.Instance {
	if vm != nil {
		found.Addresses, found.Reported = toAddresses(vm)
	}
	if found.State == driver.Running && found.PollAfter == 0 && len(found.Reported)+len(found.Addresses) == 0 {
		found.PollAfter = addressPollInterval
	}
	return found
}

// recordStatuses are the statuses as lists have them.
var recordStatuses = func() map[string]int {
	all := map[string]int{}
	for status, name := range types.VAppStatuses {
		all[name], all[strconv.Itoa(status)] = status, status
	}
	return all
}()

// stateOf sets the state of an instance.
func (d *Driver) stateOf(found driver.Instance, status int, marked, busy bool) driver.Instance {
	switch {
	case d.deleting.Has(found.ID):
		found.State, found.StepDue, found.PollAfter = driver.Stopping, !busy, pollInterval
	case status == statusOn:
		found.State = driver.Running
	case !marked:
		found.State, found.PollAfter = driver.Pending, pollInterval
	case isSuspended(status):
		found.State, found.Message = driver.Stopped, "it is suspended"
	case isOff(status) && !busy:
		found.State = driver.Stopped
	default:
		found.State, found.PollAfter = driver.Pending, pollInterval
		if !busy {
			found.Message = "its status is " + cmp.Or(types.VAppStatuses[status], strconv.Itoa(status))
		}
	}
	return found
}

// parseTime reads a time, whose zone has no colon in some versions.
func parseTime(text string) time.Time {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05.999Z0700"} {
		if parsed, err := time.Parse(layout, text); err == nil {
			return parsed
		}
	}
	return time.Time{}
}

// toAddresses returns the addresses that Director allocated, and those that VMware Tools report where it did not: by DHCP. The name
// of the computer is the one that the virtual machine was given.
func toAddresses(vm *types.Vm) (assigned, reported []clusterv1.MachineAddress) {
	add := func(to *[]clusterv1.MachineAddress, kind clusterv1.MachineAddressType, text string) {
		if address, err := netip.ParseAddr(text); err == nil && address.IsGlobalUnicast() {
			*to = append(*to, clusterv1.MachineAddress{Type: kind, Address: address.String()})
		}
	}
	into := func(mode string) *[]clusterv1.MachineAddress {
		if mode == modePool || mode == modeManual {
			return &assigned
		}
		return &reported
	}
	if section := vm.NetworkConnectionSection; section != nil {
		connections := slices.Clone(section.NetworkConnection)
		slices.SortStableFunc(connections, func(a, b *types.NetworkConnection) int { return a.NetworkConnectionIndex - b.NetworkConnectionIndex })
		for _, connection := range connections {
			add(into(connection.IPAddressAllocationMode), clusterv1.MachineInternalIP, connection.IPAddress)
			add(into(connection.SecondaryIpAddressAllocationMode), clusterv1.MachineInternalIP, connection.SecondaryIpAddress)
			add(&assigned, clusterv1.MachineExternalIP, connection.ExternalIPAddress)
		}
	}
	if custom := vm.GuestCustomizationSection; custom != nil && custom.ComputerName != "" && len(assigned)+len(reported) > 0 {
		assigned = append(assigned, clusterv1.MachineAddress{Type: clusterv1.MachineHostName, Address: custom.ComputerName})
	}
	return assigned, reported
}
