// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcenter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"drover.io/infra-providers/driver"
)

// readPrivilege is what a user needs on an object to see it. Searches and lists return only what the user may see, and no
// fault.
const readPrivilege = "System.Read"

// visibleFor is how long a privilege that was confirmed is not read again.
const visibleFor = time.Minute

// maxReadable is for how many objects that is.
const maxReadable = 1000

var (
	errNoDatacenter = errors.New("the user does not see the datacenter")
	errNoSession    = errors.New("the session has ended")
)

// maxLocation is how many bytes the names of a virtual machine and its folder may have to be kept: a server that a Secret
// names chooses them. Those of vCenter have some dozens.
const maxLocation = 1 << 10

// location is where a virtual machine was seen, whatever the user: credentials that are replaced have another session.
type location struct{ server, uuid string }

// recordFolder records the folder of a virtual machine.
func (s *Session) recordFolder(vm VM) {
	if vm.Config == nil || vm.Parent == nil || s.folders == nil {
		return
	}
	at, folder := location{s.account.Server, vm.Config.InstanceUuid}, *vm.Parent
	if len(at.server)+len(at.uuid)+len(folder.Type)+len(folder.Value)+len(folder.ServerGUID) <= maxLocation {
		s.folders.Set(at, folder)
	}
}

// CheckVisible fails with UnauthorizedError where the user may not read the datacenter, or the folder in which the virtual
// machine of an instance UUID was seen: then it cannot be concluded from a search that the virtual machine does not exist.
func (s *Session) CheckVisible(ctx context.Context, client *vim25.Client, uuid string) error {
	datacenter, err := s.container(ctx, client)
	if _, hidden := errors.AsType[*find.NotFoundError](err); hidden {
		return &driver.UnauthorizedError{Err: fmt.Errorf("%w %q: it needs the privilege %s there", errNoDatacenter, s.account.Datacenter, readPrivilege)}
	}
	if err != nil {
		return err
	}
	if err := s.checkReadable(ctx, client, datacenter); err != nil {
		return err
	}
	folder, known := s.folders.Get(location{s.account.Server, uuid})
	if !known {
		return nil
	}
	err = s.checkReadable(ctx, client, folder)
	if fault.Is(err, &types.ManagedObjectNotFound{}) {
		return nil // the folder was deleted with what was in it
	}
	return err
}

var errReference = errors.New("vCenter answered with a reference that is longer than any of its own")

// CheckReference fails for a reference that is too long to be kept.
func CheckReference(ref types.ManagedObjectReference) error {
	if len(ref.Type)+len(ref.Value)+len(ref.ServerGUID) > maxLocation {
		return errReference
	}
	return nil
}

// keepReadable remembers that the user may read an object.
func (s *Session) keepReadable(ref types.ManagedObjectReference) {
	if CheckReference(ref) == nil {
		s.readable.Set(ref, struct{}{})
	}
}

// checkReadable reads whether the user may read an object.
func (s *Session) checkReadable(ctx context.Context, client *vim25.Client, ref types.ManagedObjectReference) error {
	if s.readable.Has(ref) || client.ServiceContent.AuthorizationManager == nil {
		return nil
	}
	current, err := session.NewManager(client).UserSession(ctx)
	if err != nil {
		return fmt.Errorf("reading the session: %w", err)
	}
	if current == nil {
		return errNoSession
	}
	answer, err := methods.HasPrivilegeOnEntities(ctx, client, &types.HasPrivilegeOnEntities{
		This: *client.ServiceContent.AuthorizationManager, Entity: []types.ManagedObjectReference{ref},
		SessionId: current.Key, PrivId: []string{readPrivilege},
	})
	if err != nil {
		return fmt.Errorf("reading the privileges on %s: %w", ref, err)
	}
	for _, entity := range answer.Returnval {
		for _, privilege := range entity.PrivAvailability {
			if entity.Entity == ref && privilege.PrivId == readPrivilege && privilege.IsGranted {
				s.keepReadable(ref)
				return nil
			}
		}
	}
	return &driver.UnauthorizedError{Err: fmt.Errorf("user %q lacks the privilege %s on %s, so that a virtual machine there may exist and not be seen", s.account.Username, readPrivilege, ref)}
}
