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

var errUnderWay = errors.New("a clone whose answer nobody has is under way, and may be this machine's")

// Doubt is about clones that may be under way without anybody here knowing their tasks: an earlier process asked
// for them, or their answers were lost. Until they have ended nobody can say that a virtual machine does not exist.
// The zero value doubts.
type Doubt struct {
	mu    sync.Mutex
	state doubt
}

type doubt struct {
	// raised counts the lost answers.
	raised int
	// settled is true once none of those clones can be under way any more.
	settled bool
	// until is a moment after the last of them was asked for, by the server's clock; zero before it is known.
	until time.Time
}

// Raise notes that the answer to a clone was lost.
func (d *Doubt) Raise() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state = doubt{raised: d.state.raised + 1}
}

// Settle returns nil once no such clone is under way. Those that the caller knows do not count.
//
// A virtual machine that was looked for before may have appeared meanwhile, and has to be looked for again, unless
// sure is true: then there was no doubt.
func (d *Doubt) Settle(ctx context.Context, client *vim25.Client, known func(task types.ManagedObjectReference) bool) (sure bool, err error) {
	was := d.current()
	if was.settled {
		return true, nil
	}
	if was.until.IsZero() {
		now, err := methods.GetCurrentTime(ctx, client)
		if err != nil {
			return false, fmt.Errorf("asking vCenter for its time: %w", err)
		}
		was.until = *now
	}
	under, err := cloning(ctx, client, was.until, known)
	if err != nil {
		return false, fmt.Errorf("asking vCenter for clones under way: %w", err)
	}
	was.settled = !under
	d.take(was)
	if under {
		return false, errUnderWay
	}
	return false, nil
}

func (d *Doubt) current() doubt {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state
}

// take takes over what was found, unless doubt was raised anew meanwhile.
func (d *Doubt) take(found doubt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state.raised == found.raised {
		d.state = found
	}
}

// clones reports whether a task is a clone. vCenter describes it as VirtualMachine.clone, vcsim as VirtualMachine.cloneVm;
// the method's name is CloneVM_Task in the one and CloneVm in the other.
func clones(info types.TaskInfo) bool {
	return info.DescriptionId == "VirtualMachine.clone" || strings.EqualFold(strings.TrimSuffix(info.Name, "_Task"), "CloneVM")
}

// cloning reports whether a clone that was asked for until a moment is under way, whoever asked, unless it is known.
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
		if clones(info) && Running(info) && !info.QueueTime.After(until) && !known(ref) {
			return true, err
		}
	}
	return false, err
}
