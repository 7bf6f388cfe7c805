// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
)

// Machine is an infrastructure machine of any cloud.
type Machine interface {
	metav1.Object
	runtime.Object
	GetProviderID() string
	SetProviderID(id string)
	GetStatus() *infrav1.MachineStatus
}

// MachineList is a list of infrastructure machines of one cloud.
type MachineList interface {
	metav1.ListInterface
	runtime.Object
}

// Template is an infrastructure machine template of any cloud.
type Template[M Machine] interface {
	metav1.Object
	runtime.Object
	// Machine returns a machine as the template would make it.
	Machine() M
	GetStatus() *infrav1.MachineTemplateStatus
}

// Account is the account, region and credentials of a machine. It MUST be found without
// validation, so that a machine with a bad spec can be deleted.
type Account struct {
	// SecretName is the Secret with the credentials, in the machine's namespace. Empty means the
	// environment or the identity of the host that the provider runs on.
	SecretName string
	// Endpoint is the server, URL or host that the machine's spec names; empty when it names none. Credentials go
	// only to the endpoint that the same source names, so an Endpoint without a SecretName is refused before Connect.
	Endpoint string
	// Region is what the cloud itself resolves to one of its own endpoints, such as a region, or what it has below
	// an endpoint, such as a datacenter. It MUST NOT be able to name a host.
	Region string
}

// EndpointWithoutSecret refuses the provider's own credentials for an endpoint that a machine names.
func EndpointWithoutSecret(account Account) error {
	return &InvalidConfigurationError{Field: "spec.credentialsSecretName", Err: fmt.Errorf(
		"the provider's own credentials go only to the provider's own endpoint: name a Secret with the credentials for %q", account.Endpoint)}
}

// Limits bound the calls to one account. The zero value is no limit.
type Limits struct {
	PerSecond float64
	Burst     int
}

// Credentials are the data of the Secret that an Account names; nil without one.
type Credentials map[string][]byte

// Cloud is all that generic code needs of a cloud.
type Cloud[M Machine, C any] struct {
	// Name is the short name of the cloud, used in metrics and names.
	Name string
	// NewMachine, NewMachineList and NewTemplate return empty objects.
	NewMachine     func() M
	NewMachineList func() MachineList
	NewTemplate    func() Template[M]
	// Config converts the spec of a machine to the configuration that is requested of the cloud. The zone is the failure domain that
	// the Machine was given and wins over the machine's own; empty when it has none. It fails with
	// InvalidConfigurationError only.
	Config func(machine M, zone string) (C, error)
	// NoCredentials is true for a cloud that needs none, so that any namespace may use it without a Secret.
	NoCredentials bool
	// RemovesInSteps is true for a cloud where every removal takes several calls of Delete, for which an instance that is Stopping
	// gets StepDue; false for one where only what has failed does. The orphan collector waits for these steps for a while.
	RemovesInSteps bool
	// NormalizeProviderID returns the same for every provider ID by which Get finds an instance, and never the same for two
	// instances; nil for a cloud where Get accepts only the one that lists have. It MUST be a pure function. What it returns for
	// one that no instance can have does not matter.
	NormalizeProviderID func(providerID string) string
	// Account returns the account of a machine.
	Account func(machine M) Account
	// Alternatives returns the fallback configurations, in order, where the cloud has no capacity or quota for the
	// configuration; nil for a cloud that has no choice to offer. It MUST be a pure function of the
	// configuration and MUST keep a zone that the Machine was given. It needs Offering.
	//
	// The next one is requested only after the cloud refused the one before to this very machine with
	// InsufficientCapacityError or QuotaExceededError, so an answer that was lost never makes two instances.
	Alternatives func(config C) []C
	// Offering returns the instance type and the zone of a configuration, so that a pair without capacity is not
	// requested for a while; nil for a cloud that never lacks capacity. What is sold apart, as spot is from on demand, MUST
	// have a name of its own.
	Offering func(config C) (instanceType, zone string)
	// Limits are the calls that one account allows.
	Limits Limits
	// Connect returns a driver. It MUST NOT wait for the cloud: credentials are proven by the first call.
	Connect func(ctx context.Context, account Account, credentials Credentials) (Driver[C], error)
}
