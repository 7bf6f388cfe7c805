// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// Journaled is the ability to keep a journal of each machine, for a cloud that has neither tags nor tokens: what was
// requested there can then not be derived from the cloud. A driver whose cloud has either MUST NOT need it.
type Journaled interface {
	// UseJournal sets where the journals are. It is called once, before any other method.
	UseJournal(journal Journal)
}

// Journal has one entry for each machine, in the machine's own object, where it outlives a crash at any moment, a move to
// another management cluster and a restore. It is safe for concurrent use.
//
// A driver MUST write what it is about to request before the request, and the answer after it. Users who may change the
// object may change its entry too, so what an entry names in the cloud MUST be checked there to be the machine's own before
// anything is done to it.
type Journal interface {
	// Read returns the entry of a machine from the API server itself. It is empty if nothing was written. Read fails with
	// NotFoundError if there is no object of that name with the identity's UID, as after its removal.
	Read(ctx context.Context, id Identity) (Entry, error)
	// Write replaces the data of an entry that was read, and returns it as it is now. It fails with an error that passes if
	// the entry has changed since, so that only one of two callers writes; after any error the entry may be written or not.
	Write(ctx context.Context, id Identity, read Entry, data string) (Entry, error)
	// List returns the entries of all machines of the cloud, which may be a moment old: one for each UID of an object whose
	// identity annotation has another UID than its own, with the same data. Their identities have no provider ID.
	List(ctx context.Context) ([]MachineEntry, error)
}

// Entry is what a driver has recorded about one machine.
type Entry struct {
	// Data is the driver's own; empty is no entry.
	Data string
	// OtherUID is the object's other UID, under which the entry may have been written: its own, where it was read under that
	// of the identity annotation, and the reverse. It is empty for an object with one UID.
	OtherUID types.UID
	// Version is that of the object when the entry was read.
	Version string
}

// MachineEntry is the entry of a machine.
type MachineEntry struct {
	Identity Identity
	Data     string
}
