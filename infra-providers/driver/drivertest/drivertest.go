// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package drivertest proves that a driver keeps the contract of package driver. A driver's test calls Run
// with a function that returns a fresh cloud of its own, real or simulated; every rule of
// docs/contracts/driver.md is one subtest.
//
// The suite uses the driver only. What else a rule needs of a cloud (lose an answer, refuse a call, count what is left)
// is a function of its Environment; a rule whose function is nil is not tested, so the test of a driver with a simulated cloud
// should have them all.
package drivertest

import (
	"context"
	"maps"
	"testing"
	"time"

	"drover.io/infra-providers/driver"
)

// Environment is a cloud with nothing in it and a driver connected to it. Its lists are up to date except after Hide, so that
// the suite can count instances by List; package faulttest is for clouds whose lists are behind at any time.
//
// A driver that concludes nothing about absence for a while after its process started is connected as if that was longer ago,
// by its clock.
type Environment[C any] struct {
	Driver driver.Driver[C]
	// Config is a configuration that the cloud accepts.
	Config C
	// Other is a configuration that the cloud accepts too, in another zone or of another type as far as it
	// has such; nil where there is no choice.
	Other *C
	// Invalid are configurations that only the cloud itself can refuse, by the cause.
	Invalid map[string]C
	// NoImage are those whose image does not exist or is not the only one, by the cause.
	NoImage map[string]C

	// NormalizeProviderID is that of the driver.Cloud.
	NormalizeProviderID func(providerID string) string
	// Reconnect returns a driver as another process would have, without any memory of earlier calls, and with the same clock.
	Reconnect func() driver.Driver[C]
	// Lose makes the next call that changes something take effect and its answer get lost.
	Lose func()
	// Refuse makes the next call fail in the cloud's own way.
	Refuse map[Refusal]func()
	// Interrupt makes the next Create fail after its first secondary resource was created.
	Interrupt func()
	// Hide makes the next instance that is created missing from lists for a while.
	Hide func()
	// Attach attaches a disk of another owner to an instance that runs, as a CSI driver does, and returns a
	// function that reports whether the disk still exists and then removes it.
	Attach func(created driver.Instance) func() bool
	// AttachCopy is Attach for a disk to which the tags of the instance are copied, as the inheritance of tags of a cloud does it.
	AttachCopy func(created driver.Instance) func() bool
	// CopyTags creates a disk of another owner with the tags of an instance, attached to none, as a tool does that copies tags or
	// restores a backup, and returns a function that reports whether the disk still exists and then removes it.
	CopyTags func(created driver.Instance) func() bool
	// Untag removes tags from an instance and from everything that was created beside it, as another client of the cloud
	// would, and returns a function that reports whether all of it still exists and then removes it.
	Untag func(created driver.Instance, keys ...string) func() bool
	// ListSize is how many instances are several pages of a list; the default is 60.
	ListSize int
	// UniqueNames is true for a cloud where only one instance can have a name, so that a second machine of the same
	// name waits.
	UniqueNames bool
	// NamesIdentify is true for a driver whose instances are identified by the name of the machine, too, so that one with the
	// UID of a machine and another name is another machine's, and the machine gets its own.
	NamesIdentify bool
	// ImageOf returns the ID of the image that an instance was created from.
	ImageOf func(driver.Instance) string
	// Stop stops every instance, as another client of the cloud would.
	Stop func()
	// Restarts counts how often instances were restarted.
	Restarts func() int
	// Write writes to the console of an instance, as its guest would.
	Write func(created driver.Instance, output string)
	// Changes counts the requests of drivers that change something in the cloud.
	Changes func() int
	// Leftovers names everything of ours that exists in the cloud, instances included.
	Leftovers func() []string
}

// Refusal is a way in which a cloud may refuse any call.
type Refusal string

// The refusals that each driver has to distinguish.
const (
	Unauthorized Refusal = "unauthorized"
	RateLimited  Refusal = "rate limited"
	ServerError  Refusal = "server error"
)

// Refusals of creations only.
const (
	QuotaExceeded        Refusal = "quota exceeded"
	InsufficientCapacity Refusal = "insufficient capacity"
)

// Run proves the contract. It calls open for a new Environment in each subtest.
func Run[C any](t *testing.T, open func(t *testing.T) Environment[C]) {
	rules := map[string]func(*testing.T, Environment[C]){
		"creates an instance that reads back the same":            createAndRead[C],
		"creates once however often it is called":                 createRepeatedly[C],
		"creates once when callers race":                          createConcurrently[C],
		"creates once when the answer was lost":                   createLost[C],
		"returns InvalidConfiguration for what the cloud refuses": createInvalid[C],
		"never retries user data that is too long":                createTooLong[C],
		"cleans up a creation that failed half-way":               createInterrupted[C],
		"finishes a creation that failed half-way":                createResumed[C],
		"finds an instance by its provider ID alone":              adopt[C],
		"normalizes every provider ID that it accepts":            normalizeProviderIDs[C],
		"returns NotFound only when there is no instance":         missing[C],
		"touches nothing of another machine or cluster":           foreign[C],
		"deletes everything, and may be called again":             deleteTwice[C],
		"deletes once when the answer was lost":                   deleteLost[C],
		"deletes no disk that others attached":                    deleteSparing[C],
		"deletes no attached disk to which its tags were copied":  deleteSparingAttachedCopies[C],
		"deletes no disk to which its tags were copied":           deleteSparingCopies[C],
		"lists what an owner has, over all pages":                 list[C],
		"lists an instance as Get returns it":                     listLikeGet[C],
		"lists again from the start after a caller stopped early": listBreak[C],
		"reads by identity what a list does not show yet":         hidden[C],
		"stops when the context ends":                             cancelled[C],
		"returns the kind of each refusal, and never NotFound":    refusals[C],
		"distinguishes quota and capacity":                        shortages[C],
		"moves what it created to another owner of the same name": retag[C],
		"restarts what runs and nothing else":                     restart[C],
		"reads the console of its own instance only":              readConsole[C],
		"never starts what was stopped":                           restartStopped[C],
		"creates one of another kind after a definite refusal":    createOther[C],
		"finds the image that a creation takes":                   findImage[C],
		"returns that there is no image only when there is none":  missImage[C],
		"touches nothing without tags":                            untagged[C],
		"names the account that its credentials lead to":          accountID[C],
		"reads without changing anything":                         readOnly[C],
		"finishes an instance in steps, whoever takes them":       provision[C],
		"takes no step of what is finished, stopped or deleted":   provisionNothing[C],
	}
	maps.Copy(rules, otherMachineRules[C]())
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rule(t, open(t))
		})
	}
}

// identity returns the n-th machine of a cluster.
func identity(n int) driver.Identity {
	return driver.Identity{
		UID:   uid(1, n),
		Name:  name(n),
		Owner: driver.Owner{UID: uid(2, 0), Namespace: "team", Name: "home"},
	}
}

func request[C any](env Environment[C], id driver.Identity) driver.CreateRequest[C] {
	return driver.CreateRequest[C]{Identity: id, Config: env.Config, UserData: []byte("#cloud-config\n"), Format: "cloud-config"}
}

func create[C any](t *testing.T, env Environment[C], id driver.Identity) driver.Instance {
	t.Helper()
	created, err := Create(t, env.Driver, request(env, id))
	if err != nil {
		t.Fatalf("creating %s: %v", id.Name, err)
	}
	return created
}

// Create creates an instance as the generic reconciler does: again while the creation is unfinished.
func Create[C any](t *testing.T, by driver.Driver[C], req driver.CreateRequest[C]) (driver.Instance, error) {
	t.Helper()
	for deadline := time.Now().Add(waitTimeout); ; time.Sleep(time.Millisecond) {
		created, err := by.Create(t.Context(), req)
		if !driver.IsUnfinished(err) {
			return created, err
		}
		if time.Now().After(deadline) {
			t.Fatalf("creating %s is unfinished after %s: %v", req.Identity.Name, waitTimeout, err)
		}
	}
}

func all[C any](ctx context.Context, from driver.Driver[C], owner driver.Owner) ([]driver.Instance, error) {
	var found []driver.Instance
	for instance, err := range from.List(ctx, owner) {
		if err != nil {
			return found, err
		}
		found = append(found, instance)
	}
	return found, nil
}
