// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hypervisor

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"drover.io/infra-providers/sim/kubelet"
	"drover.io/infra-providers/sim/userdata"
)

// host is the life of one instance in this process.
type host struct {
	spec   Spec
	store  *store
	cancel context.CancelFunc
	done   chan struct{}
	tell   func(Instance)

	mu sync.Mutex
	// tags stand in for those of spec once they were changed.
	tags    map[string]string
	joined  bool
	failed  bool
	message string
}

// instance is what the outside sees.
func (h *host) instance() Instance {
	h.mu.Lock()
	defer h.mu.Unlock()
	boots := time.Until(h.spec.Created.Add(h.spec.BootDelay))
	spec := h.spec
	if h.tags != nil {
		spec.Tags = h.tags
	}
	return Instance{
		Spec:    spec,
		Running: boots <= 0,
		BootsIn: max(boots, 0),
		Joined:  h.joined,
		Failed:  h.failed,
		Message: h.message,
	}
}

func (h *host) tag(tags map[string]string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tags = tags
}

// run boots the host and keeps it alive as long as it is meant to live.
func (h *host) run(ctx context.Context) {
	boot := h.boot()
	if !sleepUntil(ctx, boot) {
		return
	}
	h.tell(h.instance())
	if h.spec.NeverJoins {
		h.fail("fault neverJoins: the kubelet is never started")
		return
	}
	disk := disk{h.store, h.spec.ID}
	config, err := load(disk, h.spec)
	if err != nil {
		h.fail(err.Error())
		return
	}
	dies := h.spec.Created.Add(h.spec.BootDelay + h.spec.DiesAfter)
	if h.spec.DiesAfter == 0 || h.spec.Restarted.After(dies) { // a restart is the end of a hang
		h.kubelet(config, disk).Run(ctx)
		return
	}
	alive, cancel := context.WithDeadline(ctx, dies)
	defer cancel()
	h.kubelet(config, disk).Run(alive)
	if ctx.Err() == nil {
		h.fail(fmt.Sprintf("fault diesAfterSeconds: the host fell silent after %s", h.spec.DiesAfter))
	}
}

// boot is when the host is up: the time of its creation or last restart, and as long as booting takes.
func (h *host) boot() time.Time {
	on := h.spec.Created
	if h.spec.Restarted.After(on) {
		on = h.spec.Restarted
	}
	return on.Add(h.spec.BootDelay)
}

// load does what happens on a host before its kubelet runs.
func load(disk disk, spec Spec) (*kubelet.Config, error) {
	written, err := userdata.Parse(disk.Load(userDataFile), userdata.Metadata{
		InstanceID:    spec.ID,
		LocalHostname: spec.Hostname,
		ProviderID:    spec.ProviderID,
		Zone:          spec.Zone,
		InstanceType:  spec.InstanceType,
		LocalIPv4:     spec.InternalIP,
	})
	if err != nil {
		return nil, err
	}
	for _, warning := range written.Warnings {
		disk.log("cloud-init: " + warning)
	}
	return kubelet.Load(written)
}

func (h *host) kubelet(config *kubelet.Config, disk disk) *kubelet.Kubelet {
	return kubelet.New(config, kubelet.Machine{
		SystemUUID:   strings.TrimPrefix(h.spec.ID, "sim-"),
		Zone:         h.spec.Zone,
		InstanceType: h.spec.InstanceType,
		InternalIP:   h.spec.InternalIP,
		Architecture: h.spec.Architecture,
		Capacity:     h.spec.Capacity,
	}, disk, kubelet.Report{
		Log:     disk.log,
		Joined:  func() { h.update(func() { h.joined, h.failed, h.message = true, false, "" }) },
		Failing: func(why string) { h.update(func() { h.failed, h.message = true, why }) },
	})
}

func (h *host) fail(why string) {
	disk{h.store, h.spec.ID}.log(why)
	h.update(func() { h.failed, h.message = true, why })
}

// update tells of a change only if there is one.
func (h *host) update(change func()) {
	before := h.instance()
	h.mu.Lock()
	change()
	h.mu.Unlock()
	after := h.instance()
	if before.Joined != after.Joined || before.Failed != after.Failed || before.Message != after.Message {
		h.tell(after)
	}
}

// sleepUntil reports false when ctx ended first.
func sleepUntil(ctx context.Context, moment time.Time) bool {
	timer := time.NewTimer(time.Until(moment))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
