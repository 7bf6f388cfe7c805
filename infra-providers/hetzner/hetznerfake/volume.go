// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetznerfake

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
	"k8s.io/utils/ptr"
)

func createVolume(c *Cloud, r request) (any, *refusal) {
	var requested schema.VolumeCreateRequest
	if err := json.Unmarshal(r.body, &requested); err != nil {
		return nil, &refusal{status: http.StatusBadRequest, code: "json_error", message: err.Error()}
	}
	place := slices.IndexFunc(c.locations, func(l schema.Location) bool { return requested.Location != nil && l.Name == requested.Location.Name })
	taken := func(id int64) bool { return c.volumes[id].Name == requested.Name }
	switch {
	case place < 0:
		return nil, badInput("location", "does not exist")
	case requested.Size < 10 || requested.Size > 10240:
		return nil, badInput("size", "is not between 10 and 10240")
	case len(requested.Name) > 64:
		return nil, badInput("name", "is too long")
	}
	for id := range c.volumes {
		if taken(id) {
			return nil, &refusal{status: http.StatusConflict, code: "uniqueness_error", message: "volume name is already used", field: "name"}
		}
	}
	created := &volume{Volume: schema.Volume{
		ID: newID(), Name: requested.Name, Size: requested.Size, Format: requested.Format, Location: c.locations[place], Status: "creating",
		Labels: ptr.Deref(requested.Labels, nil), Created: time.Now().Truncate(time.Second),
	}, Automount: ptr.Deref(requested.Automount, false)}
	if refused := checkLabels(created.Labels); refused != nil {
		return nil, refused
	}
	c.volumes[created.ID] = created
	return schema.VolumeCreateResponse{Volume: created.Volume, Action: c.startVolumeAction(created, "create_volume")}, nil
}

// startVolumeAction starts an action on a volume.
func (c *Cloud) startVolumeAction(on *volume, command string) *schema.Action {
	action := c.action(command, schema.ActionResourceReference{ID: on.ID, Type: "volume"})
	on.busy = c.requests + c.options.ActionDelay
	c.finishActions()
	return &action
}

func deleteVolume(c *Cloud, r request) (any, *refusal) {
	switch found := c.volumes[r.id]; {
	case found == nil:
		return nil, notFound("volume")
	case found.busy > 0:
		return nil, locked()
	case found.Protection.Delete:
		return nil, &refusal{status: http.StatusLocked, code: "protected", message: "volume is protected"}
	case found.Server != nil:
		return nil, badInput("volume", "is attached to a server")
	}
	delete(c.volumes, r.id)
	return nil, nil
}

func detachVolume(c *Cloud, r request) (any, *refusal) {
	found := c.volumes[r.id]
	switch {
	case found == nil:
		return nil, notFound("volume")
	case found.busy > 0 || found.Server != nil && c.servers[*found.Server].busy > 0:
		return nil, locked()
	case found.Server == nil:
		return nil, badInput("volume", "is not attached")
	}
	found.detaching = true
	return schema.VolumeActionDetachVolumeResponse{Action: *c.startVolumeAction(found, "detach_volume")}, nil
}

// Attach attaches a new volume without labels to a server, and returns a function that reports whether the volume still
// exists and then deletes it.
func (c *Cloud) Attach(server int64) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attach(c.servers[server], nil)
}

// AttachCopy is Attach for a volume with the labels of the server.
func (c *Cloud) AttachCopy(server int64) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attach(c.servers[server], maps.Clone(c.servers[server].Labels))
}

func (c *Cloud) attach(holder *server, labels map[string]string) func() bool {
	created := &volume{Volume: schema.Volume{
		ID: newID(), Name: "pvc-1", Size: 10, Location: c.locations[0], Status: "available", Server: &holder.ID, Labels: labels,
		Created: time.Now().Truncate(time.Second),
	}}
	c.volumes[created.ID] = created
	holder.Volumes = append(holder.Volumes, created.ID)
	return c.remover(created.ID)
}

// CopyLabels creates a volume with the labels of a server, attached to none, and returns what Attach does.
func (c *Cloud) CopyLabels(server int64) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	created := &volume{Volume: schema.Volume{
		ID: newID(), Name: "pvc-1", Size: 10, Location: c.locations[0], Status: "available", Labels: maps.Clone(c.servers[server].Labels),
		Created: time.Now().Truncate(time.Second),
	}}
	c.volumes[created.ID] = created
	return c.remover(created.ID)
}

func (c *Cloud) remover(id int64) func() bool {
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, there := c.volumes[id]
		delete(c.volumes, id)
		return there
	}
}

// Untag removes labels from a server and its volumes, as an operator might, and returns a function that reports whether
// all of them still exist and then deletes them.
func (c *Cloud) Untag(server int64, keys ...string) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	holder := c.servers[server]
	holder.Labels = without(holder.Labels, keys)
	beside := slices.Clone(holder.Volumes)
	for _, id := range beside {
		c.volumes[id].Labels = without(c.volumes[id].Labels, keys)
	}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		there := c.servers[server] == holder && holder.Status == "running"
		for _, id := range beside {
			attached, ok := c.volumes[id]
			there = there && ok && attached.Server != nil
			delete(c.volumes, id)
		}
		c.deleteServer(holder)
		return there
	}
}

func without(labels map[string]string, keys []string) map[string]string {
	left := maps.Clone(labels)
	for _, key := range keys {
		delete(left, key)
	}
	return left
}
