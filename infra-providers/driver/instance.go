// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Tags that mark an instance, and everything made beside it, as ours. Clouds with a narrower alphabet
// replace what they must but keep the values recoverable.
const (
	// TagMachineUID holds Identity.UID.
	TagMachineUID = "drover.io/machine-uid"
	// TagMachine holds Identity.Name.
	TagMachine = "drover.io/machine"
	// TagClusterUID holds Owner.UID.
	TagClusterUID = "drover.io/cluster-uid"
	// TagClusterNamespace holds Owner.Namespace.
	TagClusterNamespace = "drover.io/cluster-namespace"
	// TagCluster holds Owner.Name.
	TagCluster = "drover.io/cluster"
)

// Owner is the Cluster an instance belongs to.
type Owner struct {
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
}

// UnknownOwner is the owner of an instance that shows that it is Drover's, and whose only to those who know its owner's names. No
// object has such a name.
var UnknownOwner = Owner{UID: "?", Namespace: "?", Name: "?"}

// Owns reports whether an instance tagged as other belongs to o. The UID does not count: it changes when
// a Cluster moves to another management cluster and its instances stay.
func (o Owner) Owns(other Owner) bool {
	return o.Namespace == other.Namespace && o.Name == other.Name
}

// Selects reports whether a list for o has what is tagged as found. A list for the empty Owner has everything; one for an
// Owner without a UID has what it [Owner.Owns], whatever UID that has.
func (o Owner) Selects(found Owner) bool {
	return o == (Owner{}) || o.Owns(found) && (o.UID == "" || o.UID == found.UID)
}

// Identity names one instance for ever. UID is the UID that the infrastructure machine had when the
// instance was first requested; a name or an idempotency token in the cloud derives from it.
type Identity struct {
	UID        types.UID `json:"uid"`
	Name       string    `json:"name"`
	Owner      Owner     `json:"owner"`
	ProviderID string    `json:"providerID,omitempty"`
}

// Check returns a NotOwnedError unless an instance tagged as found is the one that id names. Name, namespace and
// name of the cluster must be known and equal. The UID must be equal too; where id has none, as after a
// restore that lost it, the UID of the Cluster must be known and equal, because that identifies the installation.
// An empty field matches nothing.
func (id Identity) Check(found Identity) error {
	named := id.complete() && id.Name == found.Name && id.Owner.Owns(found.Owner)
	same := id.UID == found.UID
	if id.UID == "" {
		same = id.Owner.UID != "" && id.Owner.UID == found.Owner.UID
	}
	if found.UID != "" && named && same {
		return nil
	}
	return &NotOwnedError{ProviderID: found.ProviderID, Found: found, Requested: id}
}

// Own returns those of the instances with a UID that are the machine's own. A user who creates a machine may choose its
// UID, so that others may have the same. Where none is its own, it returns all, and Check of any has the owner.
func (id Identity) Own(found []Instance) []Instance {
	own := slices.DeleteFunc(slices.Clone(found), func(i Instance) bool { return id.Check(i.Identity) != nil })
	if len(own) == 0 {
		return found
	}
	return own
}

// Checked returns an instance that a look-up has found if it is the one that id names, and a NotOwnedError otherwise.
func (id Identity) Checked(found Instance) (Instance, error) {
	if err := id.Check(found.Identity); err != nil {
		return Instance{}, err
	}
	return found, nil
}

// WithoutProviderID returns the identity that a machine has before and after its instance.
func (id Identity) WithoutProviderID() Identity {
	id.ProviderID = ""
	return id
}

// Tagged reports whether an identity that was read from tags identifies the owner of an instance.
func (id Identity) Tagged() bool { return id.UID != "" && id.complete() }

// complete reports whether a machine is named in full.
func (id Identity) complete() bool {
	return id.Name != "" && id.Owner.Namespace != "" && id.Owner.Name != ""
}

// bytes is the length of the texts of an identity.
func (id Identity) bytes() int {
	return len(id.UID) + len(id.Name) + len(id.ProviderID) + len(id.Owner.UID) + len(id.Owner.Namespace) + len(id.Owner.Name)
}

// brief returns an identity whose texts are brief.
func (id Identity) brief() Identity {
	owner := Owner{UID: types.UID(brief(string(id.Owner.UID))), Namespace: brief(id.Owner.Namespace), Name: brief(id.Owner.Name)}
	return Identity{UID: types.UID(brief(string(id.UID))), Name: brief(id.Name), Owner: owner, ProviderID: brief(id.ProviderID)}
}

// Tags returns the ownership tags of the identity.
func (id Identity) Tags() map[string]string {
	return map[string]string{
		TagMachineUID:       string(id.UID),
		TagMachine:          id.Name,
		TagClusterUID:       string(id.Owner.UID),
		TagClusterNamespace: id.Owner.Namespace,
		TagCluster:          id.Owner.Name,
	}
}

// FromTags is the reverse of Tags; ok is false when the tags are not ours.
func FromTags(tags map[string]string) (id Identity, ok bool) {
	uid, ok := tags[TagMachineUID]
	if !ok || uid == "" {
		return Identity{}, false
	}
	return Identity{
		UID:  types.UID(uid),
		Name: tags[TagMachine],
		Owner: Owner{
			UID:       types.UID(tags[TagClusterUID]),
			Namespace: tags[TagClusterNamespace],
			Name:      tags[TagCluster],
		},
	}, true
}

// CreateRequest is everything needed to create one instance.
type CreateRequest[C any] struct {
	Identity Identity
	Config   C
	UserData []byte
	// Format is the format of UserData: cloud-config or ignition.
	Format string
	// Since is when the machine was created, before which its instance cannot exist; zero when that is not known.
	Since time.Time
}

// State is the state of an instance.
type State string

// The states of an instance. Pending and Stopping change by themselves; the others do not.
const (
	Pending    State = "Pending"
	Running    State = "Running"
	Stopping   State = "Stopping"
	Stopped    State = "Stopped"
	Terminated State = "Terminated"
)

// Instance is one instance as the cloud reports it.
type Instance struct {
	// ID is the cloud's own identifier.
	ID string
	// ProviderID is byte for byte what the Node's spec.providerID will be.
	ProviderID string
	// Identity is read back from the tags.
	Identity Identity
	State    State
	// Addresses are those that the cloud itself gave the instance, in a stable order. A driver MUST NOT return
	// addresses that only the guest reports: certificates are approved for Addresses.
	Addresses []clusterv1.MachineAddress
	// Reported are names and addresses that the guest reports about itself, in a stable order. They are shown and
	// never trusted.
	Reported []clusterv1.MachineAddress
	// FailureDomain is the zone the instance is in; empty while the cloud has not chosen one.
	FailureDomain string
	Created       time.Time
	// Message is what the cloud reports about the state, if anything.
	Message string
	// Eviction is why an instance that runs has to leave its host, which waits for its deletion; empty otherwise. Its owner
	// decides when: the instance is not Ready until then, and nothing else happens to it.
	Eviction string
	// PollAfter is the time after which the caller reads again; zero means that nothing is awaited.
	PollAfter time.Duration
	// StepDue is true for an instance that waits for its driver: one that is Stopping for the next Delete, any other
	// for the next Provision. It is false while the cloud carries out the step before.
	StepDue bool
	// Guest is what the cloud can see inside the instance; nil when it cannot.
	Guest *Guest
}

// Cost is how many instances of the usual size the instance takes the memory of: one for each KiB begun.
func (i Instance) Cost() int {
	bytes := len(i.ID) + len(i.ProviderID) + len(i.Message) + len(i.Eviction) + len(i.FailureDomain) + i.Identity.bytes()
	for _, address := range slices.Concat(i.Addresses, i.Reported) {
		bytes += len(address.Address) + len(address.Type)
	}
	if i.Guest != nil {
		bytes += len(i.Guest.Message)
	}
	return 1 + bytes/1024
}

// RequireRunning passes on the answer of a Get when the instance runs. It fails with NotFoundError for one that is
// terminated, and with NotRunningError otherwise.
func RequireRunning(found Instance, err error) (Instance, error) {
	switch {
	case err != nil || found.State == Running:
		return found, err
	case found.State == Terminated:
		return Instance{}, &NotFoundError{What: "instance " + found.ID}
	default:
		return Instance{}, &NotRunningError{State: found.State}
	}
}

// Guest is what is known about the inside of an instance.
type Guest struct {
	// Joined is true once the host registered its Node.
	Joined bool
	// Failed is true when the instance has failed permanently, so waiting does not help.
	Failed bool
	// Message is the last thing worth knowing from the console.
	Message string
}

// Capacity is what an instance offers to Kubernetes.
type Capacity struct {
	Capacity        corev1.ResourceList
	Architecture    string
	OperatingSystem string
}

// Image is what an instance starts from.
type Image struct {
	// ID is the cloud's own identifier.
	ID string
	// Architecture is the CPU architecture in Kubernetes' words: amd64, arm64, ppc64le or s390x. It is empty
	// when the cloud reports none, or another.
	Architecture string
	// Warning is what a user of the image has to know although it can be used, such as that it expires soon; empty for nothing. Its
	// text MUST stay the same from call to call.
	Warning string
}
