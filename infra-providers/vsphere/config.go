// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package vsphere is the driver of VMware vSphere: virtual machines cloned from templates by a vCenter.
//
// Five files are the same in every cloud: config.go, driver.go, abilities.go, instance.go, errors.go. observe.go reads
// the state of a virtual machine and its tasks, and clone.go starts clones. Package vcenter keeps the sessions and reads,
// package clone writes the specification of a clone, package guestinfo the data for its guest, package setup takes the
// steps from a clone to a virtual machine that runs and those that remove it, and package tasks records the tasks under
// way.
package vsphere

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"maps"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/vsphere/clone"
	"drover.io/infra-providers/vsphere/guestinfo"
	"drover.io/infra-providers/vsphere/setup"
	"drover.io/infra-providers/vsphere/vcenter"
	"drover.io/runtime/keysize"
)

// InstanceConfig is the configuration of one virtual machine.
type InstanceConfig struct {
	Zone       string
	References vcenter.References
	Shape      clone.Shape
	Hardware   int32
	// AntiAffinityGroup names the machines of one Cluster that keep apart.
	AntiAffinityGroup string
}

// NewInstanceConfig decodes, defaults and validates the spec of a machine.
func NewInstanceConfig(machine *infrav1.VSphereMachine, zone string) (InstanceConfig, error) {
	spec := machine.Spec
	placement, err := place(spec, zone)
	if err != nil {
		return InstanceConfig{}, &driver.InvalidConfigurationError{Field: "spec.failureDomains", Err: err}
	}
	linked := spec.CloneMode == infrav1.VSphereLinkedClone
	config := InstanceConfig{
		Zone: zone,
		References: vcenter.References{
			VSpherePlacement: placement,
			Template:         spec.Template,
			Snapshot:         spec.Snapshot,
			Current:          linked,
			Networks:         spec.Networks,
			VMGroup:          spec.VMGroup,
			Tags:             spec.Tags,
			Attributes:       spec.CustomAttributes,
		},
		Shape: clone.Shape{
			CPUs:           cmp.Or(spec.CPUs, 2),
			CoresPerSocket: spec.CoresPerSocket,
			MemoryMiB:      cmp.Or(spec.MemoryMiB, 4096),
			DiskGiB:        spec.DiskGiB,
			Disks:          spec.Disks,
			Networks:       spec.Networks,
			Linked:         linked,
			ExtraConfig:    map[string]string{},
		},
		Hardware:          spec.HardwareVersion,
		AntiAffinityGroup: spec.AntiAffinityGroup,
	}
	// Without it the kubelet and the CSI driver cannot distinguish the disks.
	config.Shape.ExtraConfig["disk.enableUUID"] = "TRUE"
	for key, value := range spec.ExtraConfig {
		config.Shape.ExtraConfig[key] = string(value)
	}
	return config, nil
}

// place returns where a machine goes: the fields of the failure domain have precedence over the machine's.
func place(spec infrav1.VSphereMachineSpec, zone string) (infrav1.VSpherePlacement, error) {
	placement := spec.VSpherePlacement
	if zone == "" {
		return placement, nil
	}
	if len(spec.FailureDomains) == 0 {
		placement.ComputeCluster, placement.ResourcePool, placement.Host = zone, bare(placement.ResourcePool), ""
		return placement, nil
	}
	var known []string
	for _, domain := range spec.FailureDomains {
		if domain.Name == zone {
			return merge(placement, domain.VSpherePlacement), nil
		}
		known = append(known, domain.Name)
	}
	return placement, fmt.Errorf("the Machine's failure domain %q is none of %s", zone, strings.Join(known, ", "))
}

// merge overrides the own placement by that of a domain. What it sets of the compute side or of the storage side replaces that side as a
// whole, so that a pool of one cluster is never looked for in another.
func merge(own, domain infrav1.VSpherePlacement) infrav1.VSpherePlacement {
	merged := own
	merged.Folder = cmp.Or(domain.Folder, own.Folder)
	merged.StoragePolicy = cmp.Or(domain.StoragePolicy, own.StoragePolicy)
	if domain.ComputeCluster+domain.ResourcePool+domain.Host != "" {
		merged.ComputeCluster, merged.Host = domain.ComputeCluster, domain.Host
		merged.ResourcePool = cmp.Or(domain.ResourcePool, bare(own.ResourcePool))
		if domain.ComputeCluster == "" {
			merged.ResourcePool = domain.ResourcePool
		}
	}
	if domain.Datastore+domain.DatastoreCluster != "" {
		merged.Datastore, merged.DatastoreCluster = domain.Datastore, domain.DatastoreCluster
	}
	return merged
}

// bare keeps the name of a resource pool that means the pool of that name in any cluster.
func bare(pool string) string {
	if strings.Contains(pool, "/") {
		return ""
	}
	return pool
}

// mostCredential is how many bytes each part of the credentials may have.
const mostCredential = 64 << 10

// toAccount returns the account of a machine: a datacenter, and a server if the spec names one.
func toAccount(machine *infrav1.VSphereMachine) driver.Account {
	return driver.Account{SecretName: machine.Spec.CredentialsSecretName, Endpoint: machine.Spec.Server, Region: machine.Spec.Datacenter}
}

// login returns how to log in: by the data of a Secret, or by the environment without one, whose credentials go only
// to the server that the environment names.
func login(account driver.Account, credentials driver.Credentials, getenv func(string) string) (vcenter.Account, error) {
	if account.SecretName == "" && account.Endpoint != "" {
		return vcenter.Account{}, driver.EndpointWithoutSecret(account)
	}
	read, source := func(names ...string) string { return string(credentials[names[0]]) }, fmt.Sprintf("Secret %q", account.SecretName)
	if account.SecretName == "" {
		source = "the environment"
		read = func(names ...string) string {
			for _, name := range names[1:] {
				if value := getenv(name); value != "" {
					return value
				}
			}
			return ""
		}
	}
	found := vcenter.Account{
		Server:     cmp.Or(account.Endpoint, read("server", "VSPHERE_SERVER", "GOVC_URL")),
		Username:   read("username", "VSPHERE_USERNAME", "GOVC_USERNAME"),
		Password:   read("password", "VSPHERE_PASSWORD", "GOVC_PASSWORD"),
		CA:         read("ca.crt", "VSPHERE_CA_CERT"),
		Thumbprint: read("thumbprint", "VSPHERE_THUMBPRINT"),
		Datacenter: account.Region,
		OfSecret:   account.SecretName != "",
	}
	switch insecure := strings.ToLower(read("insecure", "VSPHERE_INSECURE", "GOVC_INSECURE")); insecure {
	case "true", "1":
		found.Insecure = true
	case "", "false", "0":
	default:
		return found, &driver.UnauthorizedError{Err: fmt.Errorf("%s: insecure must be true or false and not %q", source, insecure)}
	}
	if err := check(found, source); err != nil {
		return found, &driver.UnauthorizedError{Err: err}
	}
	return found, nil
}

// check refuses credentials that cannot work, or whose password would be sent in the clear.
func check(found vcenter.Account, source string) error {
	for field, value := range map[string]string{"server": found.Server, "username": found.Username, "password": found.Password, "ca.crt": found.CA, "thumbprint": found.Thumbprint} {
		if len(value) > mostCredential {
			return fmt.Errorf("%s: %s has more than %d KiB", source, field, mostCredential>>10)
		}
	}
	if err := keysize.CheckCertificates([]byte(found.CA)); err != nil {
		return fmt.Errorf("%s: ca.crt is refused: %w", source, err)
	}
	switch {
	case found.CA != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(found.CA)):
		return fmt.Errorf("%s: ca.crt holds no certificate in PEM; a file is not read", source)
	case found.Username == "":
		return fmt.Errorf("%s does not hold a username", source)
	case found.Password == "":
		return fmt.Errorf("%s does not hold a password", source)
	case found.Server == "":
		return fmt.Errorf("neither spec.server nor %s names a vCenter", source)
	case found.Thumbprint != "" && found.CA != "":
		return fmt.Errorf("%s holds both ca.crt and thumbprint: keep one", source)
	case !vcenter.Encrypted(found.Server):
		return fmt.Errorf("%s: server %q is not reached over TLS, and the password would be sent to it: name a host, or a URL with https", source, found.Server)
	}
	return nil
}

// userDataValues returns the advanced parameters that hold the user data.
func userDataValues(req driver.CreateRequest[InstanceConfig]) (map[string]string, error) {
	if field, err := guestinfo.Check(req.Format, req.Config.Shape.Networks); err != nil {
		return nil, driver.NeverValid(field, "%w", err)
	}
	values, err := guestinfo.UserData(req.Format, req.UserData)
	if err != nil {
		return nil, driver.NeverValid("bootstrap data", "%w", err)
	}
	return values, nil
}

// toCloneSpec returns the specification of a clone, with its record and plan in it.
func toCloneSpec(request cloneRequest, place vcenter.Placement, values map[string]string) (types.VirtualMachineCloneSpec, error) {
	id, config := request.request.Identity, request.request.Config
	record := setup.Record{Tags: id.Tags(), Created: request.created, Zone: config.Zone, Group: config.References.VMGroup}
	if config.AntiAffinityGroup != "" {
		record.Rule = setup.RuleName(id.Owner, config.AntiAffinityGroup)
	}
	written, err := setup.Values(record, setup.Plan{
		UUID:           instanceID(id),
		Name:           id.Name,
		ProviderID:     providerIDPrefix + instanceID(id),
		CPUs:           config.Shape.CPUs,
		CoresPerSocket: config.Shape.CoresPerSocket,
		MemoryMiB:      config.Shape.MemoryMiB,
		Hardware:       config.Hardware,
		CloudInit:      request.request.Format != guestinfo.Ignition,
		Networks:       config.Shape.Networks,
		Tags:           place.Tags,
		Attributes:     place.Attributes,
	})
	if err != nil {
		return types.VirtualMachineCloneSpec{}, err
	}
	shape := config.Shape
	shape.UUID = instanceID(id)
	shape.ExtraConfig = maps.Clone(shape.ExtraConfig)
	maps.Copy(shape.ExtraConfig, values)
	maps.Copy(shape.ExtraConfig, written)
	return clone.Spec(shape, place)
}
