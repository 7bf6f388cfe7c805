// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package attachments creates, finds and deletes what a server needs: ports, volumes, a floating IP and a server group.
// The driver calls it in the order of creation and in the reverse order of deletion.
//
// OpenStack has no idempotency tokens, so everything is found again by a name that derives from the machine's UID and is
// part of the call that creates: the name of a port or volume, the description of a floating IP. Ownership tags follow in
// a second call, which is repeated until they are set. Errors of the cloud are returned as they are; the driver converts
// them.
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

// NamePrefix is the tag of everything that Drover creates.
const NamePrefix = "drover"

// ErrBusy means that another caller is creating the same machine's server, or that an attachment is not ready yet. It is
// transient.
var ErrBusy = errors.New("not ready yet")

// CreationError is the cloud's error of a call that creates.
type CreationError struct {
	What string
	Err  error
}

func (e *CreationError) Error() string { return "creating " + e.What + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *CreationError) Unwrap() error { return e.Err }

// Kind is one kind of attachment.
type Kind interface {
	// Delete deletes every attachment of a machine, whose server is being deleted or does not exist. It fails with
	// NotOwnedError, as Tag does, where one has the tags of another machine.
	Delete(ctx context.Context, id driver.Identity, serverDeleted bool) error
	// Tag sets the ownership tags on every attachment of a machine.
	Tag(ctx context.Context, id driver.Identity) error
	// AttachedObjects returns every attachment that Drover created and that is deleted with its machine.
	AttachedObjects(ctx context.Context) ([]driver.AttachedObject, error)
}

// Kinds returns all kinds of a project, in the order of deletion.
func Kinds(services *access.Services) []Kind {
	all := []Kind{FloatingIPs{services.Network}, Ports{services.Network}}
	if services.Volume != nil {
		all = append(all, Volumes{services.Volume})
	}
	return all
}

// Name is the common name of the attachments of a machine.
func Name(uid types.UID) string { return NamePrefix + "-" + string(uid) }

// check fails with NotOwnedError for an attachment with the name of a machine and the tags of another. One without tags
// yet is identified by its name alone, which is part of the call that creates it.
func check(id, found driver.Identity, tagged bool) error {
	if !tagged {
		return nil
	}
	return id.Check(found)
}

// Tags returns the ownership tags in an alphabet that every service accepts: without a slash.
func Tags(id driver.Identity) map[string]string {
	tags := map[string]string{}
	for key, value := range id.Tags() {
		tags[strings.ReplaceAll(key, "/", ":")] = value
	}
	return tags
}

// Identity is the reverse of Tags; ok is false without the ownership tags.
func Identity(tags map[string]string) (id driver.Identity, ok bool) {
	plain := map[string]string{}
	for key, value := range tags {
		plain[strings.Replace(key, ":", "/", 1)] = value
	}
	return driver.FromTags(plain)
}

// toTagList returns the ownership tags in the form of Neutron.
func toTagList(id driver.Identity) []string {
	all := []string{NamePrefix}
	for key, value := range Tags(id) {
		all = append(all, key+"="+value)
	}
	slices.Sort(all)
	return all
}

// fromTagList is the reverse of toTagList.
func fromTagList(tags []string) (driver.Identity, bool) {
	split := map[string]string{}
	for _, tag := range tags {
		key, value, _ := strings.Cut(tag, "=")
		split[key] = value
	}
	return Identity(split)
}

// isTagged reports whether all ownership tags are set.
func isTagged(have []string, id driver.Identity) bool {
	for _, tag := range toTagList(id) {
		if !slices.Contains(have, tag) {
			return false
		}
	}
	return true
}
