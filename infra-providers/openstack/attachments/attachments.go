// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package attachments makes, finds and removes what a server needs beside itself: ports, volumes, a floating IP
// and a server group. The driver calls it in the order of creation and in the reverse order of deletion.
//
// OpenStack has no idempotency tokens, so everything is found again by a name that derives from the
// machine's UID and is given in the very call that creates: the name of a port or volume, the description
// of a floating IP. Ownership tags follow in a second call and are repeated until they are there. Errors of
// the cloud are returned as they are; the driver knows what they mean.
package attachments

import (
	"context"
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/access"
)

// NamePrefix is the tag of everything that is ours.
const NamePrefix = "drover"

// ErrBusy means that another caller is making the same machine at this moment, or that something of it is
// not ready yet. It passes by itself.
var ErrBusy = errors.New("not ready yet")

// CreationError is what the cloud answered to a call that creates.
type CreationError struct {
	What string
	Err  error
}

func (e *CreationError) Error() string { return "creating " + e.What + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *CreationError) Unwrap() error { return e.Err }

// Kind is one kind of thing that machines have beside their servers.
type Kind interface {
	// Delete removes every thing of a machine, whose server goes too or is not there. It fails with NotOwnedError,
	// as Tag does, where one of them carries the tags of another machine.
	Delete(ctx context.Context, id driver.Identity, serverGoes bool) error
	// Tag makes every thing of a machine say whose it is.
	Tag(ctx context.Context, id driver.Identity) error
	// Remains returns every thing that is ours and is meant to go with its machine.
	Remains(ctx context.Context) ([]driver.Remain, error)
}

// Kinds are all there are of a project, in the order of deletion.
func Kinds(services *access.Services) []Kind {
	all := []Kind{FloatingIPs{services.Network}, Ports{services.Network}}
	if services.Volume != nil {
		all = append(all, Volumes{services.Volume})
	}
	return all
}

// Name is what everything of one machine is called.
func Name(uid types.UID) string { return NamePrefix + "-" + string(uid) }

// check returns a NotOwnedError for what is called after the UID of a machine and carries the tags of another. What
// has no tags yet is known by that name alone, which is given in the call that creates.
func check(id, found driver.Identity, tagged bool) error {
	if !tagged {
		return nil
	}
	return id.Check(found)
}

// Tags are the ownership tags in an alphabet that every service takes: no slash.
func Tags(id driver.Identity) map[string]string {
	tags := map[string]string{}
	for key, value := range id.Tags() {
		tags[strings.ReplaceAll(key, "/", ":")] = value
	}
	return tags
}

// Identity is the reverse of Tags; ok is false when the tags are not ours.
func Identity(tags map[string]string) (id driver.Identity, ok bool) {
	plain := map[string]string{}
	for key, value := range tags {
		plain[strings.Replace(key, ":", "/", 1)] = value
	}
	return driver.FromTags(plain)
}

// list writes tags as Neutron keeps them.
func list(id driver.Identity) []string {
	all := []string{NamePrefix}
	for key, value := range Tags(id) {
		all = append(all, key+"="+value)
	}
	slices.Sort(all)
	return all
}

// fromList is the reverse of list.
func fromList(tags []string) (driver.Identity, bool) {
	split := map[string]string{}
	for _, tag := range tags {
		key, value, _ := strings.Cut(tag, "=")
		split[key] = value
	}
	return Identity(split)
}

// tagged reports whether tags are all there.
func tagged(have []string, id driver.Identity) bool {
	for _, tag := range list(id) {
		if !slices.Contains(have, tag) {
			return false
		}
	}
	return true
}
