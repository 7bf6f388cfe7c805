// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
)

// Census is what exists in the cloud, as its owner would see it.
type Census struct {
	// Instances and Disks are the identities that have one.
	Instances, Disks map[types.UID]driver.Identity
	// Doubled are the machines, by cluster namespace and name, that have more than one instance.
	Doubled []string
	// Restarts counts how often each identity's instance was restarted.
	Restarts map[types.UID]int
	// Calls counts what was asked, by operation.
	Calls map[string]int
}

// Census counts without being a call.
func (c *Cloud) Census() Census {
	c.mu.Lock()
	defer c.mu.Unlock()
	census := Census{
		Instances: map[types.UID]driver.Identity{},
		Disks:     map[types.UID]driver.Identity{},
		Restarts:  maps.Clone(c.restarts),
		Calls:     maps.Clone(c.counts),
	}
	seen := map[string]bool{}
	for uid, known := range c.disks {
		census.Disks[uid] = known.owner
	}
	for _, known := range c.servers {
		id := known.instance.Identity
		census.Instances[id.UID] = id
		machine := id.Owner.Namespace + "/" + id.Name
		if seen[machine] {
			census.Doubled = append(census.Doubled, machine)
		}
		seen[machine] = true
	}
	return census
}

// UserData returns what the instance of an identity was given.
func (c *Cloud) UserData(uid types.UID) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.find(driver.Identity{UID: uid}); known != nil {
		return known.userData
	}
	return nil
}

// ImageOf returns the ID of the image that an instance was made from.
func (c *Cloud) ImageOf(instance driver.Instance) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.find(instance.Identity); known != nil {
		return known.image
	}
	return ""
}

// Register adds an image.
func (c *Cloud) Register(name string, image driver.Image) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.images[name] = image
}

// Deregister removes an image behind everybody's back.
func (c *Cloud) Deregister(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.images, name)
}

// Destroy removes an instance behind everybody's back, as somebody else with access would.
func (c *Cloud) Destroy(uid types.UID) {
	c.mutate(uid, func(known *server) { c.forget(known) })
}

// Set changes an instance behind everybody's back, and tells who asked to be told.
func (c *Cloud) Set(uid types.UID, change func(*driver.Instance)) {
	c.mutate(uid, func(known *server) { change(&known.instance) })
}

func (c *Cloud) mutate(uid types.UID, change func(*server)) {
	c.mu.Lock()
	known, tell := c.find(driver.Identity{UID: uid}), c.changed
	var id driver.Identity
	if known != nil {
		change(known)
		id = known.instance.Identity
	}
	c.mu.Unlock()
	if known != nil && tell != nil {
		tell(id)
	}
}

// HideNext makes the next instance missing from one list.
func (c *Cloud) HideNext() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hide = 1
}
