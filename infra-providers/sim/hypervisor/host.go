// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hypervisor

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"drover.io/infra-providers/internal/statedir"
	"drover.io/infra-providers/sim/kubelet"
	"drover.io/infra-providers/sim/userdata"
)

// host runs one instance in this process.
type host struct {
	spec   Spec
	dir    *statedir.Dir[Spec]
	cancel context.CancelFunc
	done   chan struct{}
	notify func(Instance)

	mu sync.Mutex
	// tags replace those of spec after a change.
	tags    map[string]string
	joined  bool
	failed  bool
	message string
}

// instance returns the state of the instance.
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

// run boots the host and runs its kubelet until ctx or the simulated fault ends it.
func (h *host) run(ctx context.Context) {
	if !sleepUntil(ctx, h.bootedAt()) {
		return
	}
	h.notify(h.instance())
	if h.spec.NeverJoins {
		h.fail("fault neverJoins: the kubelet is never started")
		return
	}
	disk := disk{h.dir, h.spec.ID}
	config, err := loadKubeletConfig(disk, h.spec)
	if err != nil {
		h.fail(err.Error())
		return
	}
	hangs, ok := h.hangsAt()
	if !ok {
		h.kubelet(config, disk).Run(ctx)
		return
	}
	untilHang, cancel := context.WithDeadline(ctx, hangs)
	defer cancel()
	h.kubelet(config, disk).Run(untilHang)
	if ctx.Err() == nil {
		h.fail(fmt.Sprintf("fault diesAfterSeconds: the host stopped responding after %s", h.spec.HangsAfter))
	}
}

// hangsAt is when the fault diesAfterSeconds stops the kubelet. ok is false without the fault, and after a restart, which
// ends a hang.
func (h *host) hangsAt() (at time.Time, ok bool) {
	at = h.spec.Created.Add(h.spec.BootDelay + h.spec.HangsAfter)
	return at, h.spec.HangsAfter != 0 && !h.spec.Restarted.After(at)
}

// bootedAt is the time of the creation or of the last restart, plus the boot delay.
func (h *host) bootedAt() time.Time {
	on := h.spec.Created
	if h.spec.Restarted.After(on) {
		on = h.spec.Restarted
	}
	return on.Add(h.spec.BootDelay)
}

// loadKubeletConfig applies the user data and returns the configuration of the kubelet.
func loadKubeletConfig(disk disk, spec Spec) (*kubelet.Config, error) {
	written, err := userdata.Parse(disk.userData(), userdata.Metadata{
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
		Failing: func(reason string) { h.update(func() { h.failed, h.message = true, reason }) },
	})
}

func (h *host) fail(reason string) {
	disk{h.dir, h.spec.ID}.log(reason)
	h.update(func() { h.failed, h.message = true, reason })
}

// update notifies only if the state has changed.
func (h *host) update(change func()) {
	before := h.instance()
	h.mu.Lock()
	change()
	h.mu.Unlock()
	after := h.instance()
	if before.Joined != after.Joined || before.Failed != after.Failed || before.Message != after.Message {
		h.notify(after)
	}
}

// sleepUntil returns false when ctx ends first.
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
