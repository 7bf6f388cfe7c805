// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcenter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

var errUnderWay = errors.New("a clone whose answer was lost is under way, and may be this machine's")

// UnknownClones records clones that may be under way and whose tasks are unknown to this process: an earlier process
// requested them, or their answers were lost. Until they have ended it is not certain that a virtual machine does not
// exist. The zero value is one with an earlier process.
type UnknownClones struct {
	mu    sync.Mutex
	state unknownClones
}

type unknownClones struct {
	// added counts the lost answers.
	added int
	// ended is true once none of those clones can be under way any more.
	ended bool
	// until is a moment after the last of them was requested, by the server's clock; zero before it is known.
	until time.Time
}

// Add records that the answer to a clone was lost.
func (c *UnknownClones) Add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = unknownClones{added: c.state.added + 1}
}

// Ended returns an error while such a clone is under way. Clones of known tasks do not count.
//
// A virtual machine that was looked for before may have appeared meanwhile, and has to be looked for again, unless none
// is true: then there was no such clone before either.
func (c *UnknownClones) Ended(ctx context.Context, client *vim25.Client, known func(task types.ManagedObjectReference) bool) (none bool, err error) {
	was := c.current()
	if was.ended {
		return true, nil
	}
	if was.until.IsZero() {
		now, err := methods.GetCurrentTime(ctx, client)
		if err != nil {
			return false, fmt.Errorf("reading the time of vCenter: %w", err)
		}
		was.until = *now
	}
	under, err := cloning(ctx, client, was.until, known)
	if err != nil {
		return false, fmt.Errorf("listing the clones under way: %w", err)
	}
	was.ended = !under
	c.store(was)
	if under {
		return false, errUnderWay
	}
	return false, nil
}

func (c *UnknownClones) current() unknownClones {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// store keeps what was found, unless another answer was lost meanwhile.
func (c *UnknownClones) store(found unknownClones) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.added == found.added {
		c.state = found
	}
}

// isClone reports whether a task is a clone. vCenter describes it as VirtualMachine.clone, vcsim as VirtualMachine.cloneVm;
// the method's name is CloneVM_Task in the one and CloneVm in the other.
func isClone(info types.TaskInfo) bool {
	return info.DescriptionId == "VirtualMachine.clone" || strings.EqualFold(strings.TrimSuffix(info.Name, "_Task"), "CloneVM")
}

// cloning reports whether a clone that was requested until a moment is under way, by any client, unless it is known.
func cloning(ctx context.Context, client *vim25.Client, until time.Time, known func(types.ManagedObjectReference) bool) (bool, error) {
	content, err := retrieve(ctx, client, []string{"recentTask"}, *client.ServiceContent.TaskManager)
	if err != nil {
		return false, err
	}
	var refs []types.ManagedObjectReference
	for _, one := range content {
		for _, property := range one.PropSet {
			if recent, ok := property.Val.(types.ArrayOfManagedObjectReference); ok {
				refs = append(refs, recent.ManagedObjectReference...)
			}
		}
	}
	infos, err := Results(ctx, client, refs...)
	for ref, info := range infos {
		if isClone(info) && Running(info) && !info.QueueTime.After(until) && !known(ref) {
			return true, err
		}
	}
	return false, err
}
