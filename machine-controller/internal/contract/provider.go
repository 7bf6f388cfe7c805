// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// InfraMachine is the object an infrastructure provider turns into a virtual machine.
type InfraMachine struct{ Object }

// maxProviderID, maxSecretName and maxFailureDomain are how many bytes these texts may have in a Machine or Cluster. One that
// is longer counts as none: the API server would refuse it with everything else that is written.
const maxProviderID, maxSecretName, maxFailureDomain = 512, 253, 256

// ProviderID identifies the virtual machine; it equals spec.providerID of its Node. Empty until known.
func (m *InfraMachine) ProviderID() string {
	return noLongerThan(maxProviderID, m.text("spec", "providerID"))
}

func noLongerThan(most int, text string) string {
	if len(text) > most {
		return ""
	}
	return text
}

// Provisioned reports whether the virtual machine exists and was handed its bootstrap data.
func (m *InfraMachine) Provisioned() bool {
	return m.flag([]string{"status", "initialization", "provisioned"}, []string{"status", "ready"})
}

// HostProblem is why the host of the instance has not joined, where the provider knows: the message of its condition
// HostJoined. It is empty otherwise.
func (m *InfraMachine) HostProblem() string {
	joined := m.condition("HostJoined")
	if joined == nil || joined.Status == metav1.ConditionTrue {
		return ""
	}
	return joined.Message
}

// FailureDomain is where the provider placed the machine, and whether it reports that at all.
func (m *InfraMachine) FailureDomain() (domain string, reported bool) {
	path := []string{"status", "failureDomain"}
	if m.Contract == V1Beta1 {
		path[0] = "spec"
	}
	domain, reported, _ = unstructured.NestedString(m.Unstructured.Object, path...)
	return noLongerThan(maxFailureDomain, domain), reported
}

// Interruptible reports whether the cloud may terminate the machine at short notice (spot).
func (m *InfraMachine) Interruptible() bool {
	value, _, _ := unstructured.NestedBool(m.Unstructured.Object, "status", "interruptible")
	return value
}

// maxAddresses and maxAddress are how many addresses the status of a Machine may have, and how many bytes each.
const maxAddresses, maxAddress = 256, 256

// addressTypes are those that the status of a Machine may have.
var addressTypes = []clusterv1.MachineAddressType{
	clusterv1.MachineHostName, clusterv1.MachineExternalIP, clusterv1.MachineInternalIP, clusterv1.MachineExternalDNS, clusterv1.MachineInternalDNS,
}

// Addresses lists the machine's addresses in the provider's order, and whether it reports any list at all;
// entries without an address, or of a type that a Machine does not have, are dropped.
func (m *InfraMachine) Addresses() (addresses clusterv1.MachineAddresses, reported bool) {
	list, reported, _ := unstructured.NestedSlice(m.Unstructured.Object, "status", "addresses")
	for _, each := range list {
		fields, ok := each.(map[string]any)
		kind := clusterv1.MachineAddressType(text(fields, "type"))
		if !ok || !slices.Contains(addressTypes, kind) || text(fields, "address") == "" || len(text(fields, "address")) > maxAddress {
			continue
		}
		if len(addresses) == maxAddresses {
			break
		}
		addresses = append(addresses, clusterv1.MachineAddress{Type: kind, Address: text(fields, "address")})
	}
	return addresses, reported
}

// BootstrapConfig is the object a bootstrap provider turns into the data a machine boots with.
type BootstrapConfig struct{ Object }

// DataSecretName names the Secret that holds the bootstrap data. Empty until known.
func (b *BootstrapConfig) DataSecretName() string {
	return noLongerThan(maxSecretName, b.text("status", "dataSecretName"))
}

// DataSecretCreated reports whether that Secret is complete.
func (b *BootstrapConfig) DataSecretCreated() bool {
	return b.flag([]string{"status", "initialization", "dataSecretCreated"}, []string{"status", "ready"})
}

// InfraCluster is the object that describes a cluster's shared infrastructure.
type InfraCluster struct{ Object }

// Provisioned reports whether the shared infrastructure is ready for machines.
func (c *InfraCluster) Provisioned() bool {
	return c.flag([]string{"status", "initialization", "provisioned"}, []string{"status", "ready"})
}

// Endpoint is where the API server answers; zero when the provider does not supply it.
func (c *InfraCluster) Endpoint() clusterv1.APIEndpoint { return endpoint(&c.Object) }

// maxFailureDomains is how many failure domains the status of a Cluster may have.
const maxFailureDomains = 100

// FailureDomains lists where machines can be placed, sorted by name, each name once. Names that a Cluster cannot have, and
// what exceeds the number that it can have, are dropped.
func (c *InfraCluster) FailureDomains() []clusterv1.FailureDomain {
	domains := slices.DeleteFunc(c.reportedDomains(), func(domain clusterv1.FailureDomain) bool {
		return noLongerThan(maxFailureDomain, domain.Name) == ""
	})
	slices.SortStableFunc(domains, func(a, b clusterv1.FailureDomain) int { return strings.Compare(a.Name, b.Name) })
	domains = slices.CompactFunc(domains, func(a, b clusterv1.FailureDomain) bool { return a.Name == b.Name })
	return domains[:min(len(domains), maxFailureDomains)]
}

// reportedDomains reads the list of the newer contract, or the map of the older one, where the names are the keys.
func (c *InfraCluster) reportedDomains() []clusterv1.FailureDomain {
	var domains []clusterv1.FailureDomain
	if c.Contract == V1Beta1 {
		byName, _, _ := unstructured.NestedMap(c.Unstructured.Object, "status", "failureDomains")
		for name, each := range byName {
			if fields, ok := each.(map[string]any); ok {
				domains = append(domains, failureDomain(name, fields))
			}
		}
		return domains
	}
	list, _, _ := unstructured.NestedSlice(c.Unstructured.Object, "status", "failureDomains")
	for _, each := range list {
		if fields, ok := each.(map[string]any); ok {
			domains = append(domains, failureDomain(text(fields, "name"), fields))
		}
	}
	return domains
}

func failureDomain(name string, fields map[string]any) clusterv1.FailureDomain {
	domain := clusterv1.FailureDomain{Name: name}
	if value, ok := fields["controlPlane"].(bool); ok {
		domain.ControlPlane = &value
	}
	if attributes, found, _ := unstructured.NestedStringMap(fields, "attributes"); found {
		domain.Attributes = attributes
	}
	return domain
}

// hostName matches what is no IP address and may be the host of a Cluster's endpoint.
var hostName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?([.][A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*[.]?$`)

// endpoint is without the scheme that some providers write before the host, as that of EKS does. One that a Cluster cannot
// have counts as none: the API server would refuse it with everything else that is written to the Cluster.
func endpoint(o *Object) clusterv1.APIEndpoint {
	host := strings.TrimSuffix(strings.TrimPrefix(o.text("spec", "controlPlaneEndpoint", "host"), "https://"), "/")
	port, _, _ := unstructured.NestedInt64(o.Unstructured.Object, "spec", "controlPlaneEndpoint", "port")
	ip, err := netip.ParseAddr(host)
	isIP := err == nil && ip.Zone() == "" && !ip.Is4In6()
	isName := len(host) <= 253 && hostName.MatchString(host) && strings.Trim(host, "0123456789.") != ""
	if !isIP && !isName || port < 0 || port > math.MaxUint16 {
		return clusterv1.APIEndpoint{}
	}
	return clusterv1.APIEndpoint{Host: host, Port: int32(port)}
}
