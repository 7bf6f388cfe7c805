// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcenter

import (
	"context"
	"iter"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

// PageSize is how many virtual machines an answer to a list may hold. A host of containers may report many addresses, and
// answers of servers that Secrets name are bounded.
const PageSize = 100

// List yields every virtual machine of the datacenter that has a record, page by page. A failure comes
// last.
func (s *Session) List(ctx context.Context, pageSize int32) iter.Seq2[VM, error] {
	return func(yield func(VM, error) bool) {
		client, err := s.Client(ctx)
		if err != nil {
			yield(VM{}, err)
			return
		}
		container, err := s.container(ctx, client)
		if err != nil {
			yield(VM{}, err)
			return
		}
		all, err := view.NewManager(client).CreateContainerView(ctx, container, []string{"VirtualMachine"}, true)
		if err != nil {
			yield(VM{}, err)
			return
		}
		defer func() {
			// The view would exist as long as the session, so it is destroyed after the caller's deadline too.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
			defer cancel()
			_ = all.Destroy(ctx)
		}()
		for page, err := range pages(ctx, client, all.Reference(), pageSize) {
			if err != nil {
				yield(VM{}, err)
				return
			}
			if !s.yieldOurs(page, yield) {
				return
			}
		}
	}
}

func (s *Session) yieldOurs(page []types.ObjectContent, yield func(VM, error) bool) bool {
	for _, content := range page {
		vm, err := decode(content)
		if err != nil {
			yield(VM{}, err)
			return false
		}
		if vm.Record == "" {
			continue
		}
		s.recordFolder(vm)
		if !yield(vm, nil) {
			return false
		}
	}
	return true
}

func pages(ctx context.Context, client *vim25.Client, all types.ManagedObjectReference, size int32) iter.Seq2[[]types.ObjectContent, error] {
	return func(yield func([]types.ObjectContent, error) bool) {
		skip := true
		collector := client.ServiceContent.PropertyCollector
		res, err := methods.RetrievePropertiesEx(ctx, client, &types.RetrievePropertiesEx{
			This: collector,
			SpecSet: []types.PropertyFilterSpec{{
				ObjectSet: []types.ObjectSpec{{Obj: all, Skip: &skip, SelectSet: []types.BaseSelectionSpec{
					&types.TraversalSpec{Type: "ContainerView", Path: "view"},
				}}},
				PropSet: []types.PropertySpec{{Type: "VirtualMachine", PathSet: brief}},
			}},
			Options: types.RetrieveOptions{MaxObjects: size},
		})
		if err != nil {
			yield(nil, err)
			return
		}
		for page := res.Returnval; page != nil; {
			if !yield(page.Objects, nil) || page.Token == "" {
				return
			}
			next, err := methods.ContinueRetrievePropertiesEx(ctx, client, &types.ContinueRetrievePropertiesEx{This: collector, Token: page.Token})
			if err != nil {
				yield(nil, err)
				return
			}
			page = &next.Returnval
		}
	}
}

// container is the datacenter to look in.
func (s *Session) container(ctx context.Context, client *vim25.Client) (types.ManagedObjectReference, error) {
	s.mu.Lock()
	known := s.datacenter
	s.mu.Unlock()
	if known.Value != "" {
		return known, nil
	}
	datacenter, err := find.NewFinder(client).DatacenterOrDefault(ctx, s.account.Datacenter)
	if err != nil {
		return known, refer("spec.datacenter", err)
	}
	ref := datacenter.Reference()
	if CheckReference(ref) != nil {
		return known, errDescription
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.datacenter = ref
	return s.datacenter, nil
}
