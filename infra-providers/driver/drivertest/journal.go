// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
)

// Journal is a driver.Journal in memory, in which every machine has an object.
type Journal struct {
	mu      sync.Mutex
	entries map[journalKey]driver.MachineEntry
	version int
	// versions are those of the entries.
	versions map[journalKey]string
	// faults end the next writes.
	faults []JournalFault
}

// JournalFault is what happens to a write: it is not carried out, or its answer is lost.
type JournalFault string

// The faults of writes.
const (
	NotWritten JournalFault = "not written"
	AnswerLost JournalFault = "answer lost"
)

var (
	errConflict  = errors.New("the object has changed")
	errUnwritten = errors.New("the API server does not answer")
)

type journalKey struct {
	uid             types.UID
	namespace, name string
}

func journalKeyOf(id driver.Identity) journalKey {
	return journalKey{id.UID, id.Owner.Namespace, id.Name}
}

// NewJournal returns an empty journal.
func NewJournal() *Journal {
	return &Journal{entries: map[journalKey]driver.MachineEntry{}, versions: map[journalKey]string{}}
}

// Fail makes the next writes fail, in this order.
func (j *Journal) Fail(faults ...JournalFault) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.faults = append(j.faults, faults...)
}

// Drop removes the entry of a machine, as a restore of an old backup does.
func (j *Journal) Drop(id driver.Identity) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.entries, journalKeyOf(id))
	delete(j.versions, journalKeyOf(id))
}

// Read implements driver.Journal.
func (j *Journal) Read(ctx context.Context, id driver.Identity) (driver.Entry, error) {
	if err := ctx.Err(); err != nil {
		return driver.Entry{}, err
	}
	if id.UID == "" || id.Name == "" || id.Owner.Namespace == "" {
		return driver.Entry{}, &driver.NotFoundError{What: "object"}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	key := journalKeyOf(id)
	return driver.Entry{Data: j.entries[key].Data, Version: j.versions[key]}, nil
}

// Write implements driver.Journal.
func (j *Journal) Write(ctx context.Context, id driver.Identity, read driver.Entry, data string) (driver.Entry, error) {
	if err := ctx.Err(); err != nil {
		return driver.Entry{}, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	var fault JournalFault
	if len(j.faults) > 0 {
		fault, j.faults = j.faults[0], j.faults[1:]
	}
	key := journalKeyOf(id)
	switch {
	case fault == NotWritten:
		return driver.Entry{}, errUnwritten
	case read.Version != j.versions[key]:
		return driver.Entry{}, errConflict
	}
	j.version++
	entry := driver.Entry{Data: data, Version: strconv.Itoa(j.version)}
	id.ProviderID = ""
	j.entries[key], j.versions[key] = driver.MachineEntry{Identity: id, Data: entry.Data}, entry.Version
	if fault == AnswerLost {
		return driver.Entry{}, errUnwritten
	}
	return entry, nil
}

// List implements driver.Journal.
func (j *Journal) List(context.Context) ([]driver.MachineEntry, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Collect(maps.Values(j.entries)), nil
}
