// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
)

// Snapshot is what exists in the cloud.
type Snapshot struct {
	// Instances and Disks are the identities that have one.
	Instances, Disks map[types.UID]driver.Identity
	// Duplicates are the machines, by cluster namespace and name, that have more than one instance.
	Duplicates []string
	// Restarts counts how often each identity's instance was restarted.
	Restarts map[types.UID]int
	// Calls has the number of calls by operation.
	Calls map[string]int
}

// Snapshot reads everything without being a call.
func (c *Cloud) Snapshot() Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	snapshot := Snapshot{
		Instances: map[types.UID]driver.Identity{},
		Disks:     map[types.UID]driver.Identity{},
		Restarts:  maps.Clone(c.restarts),
		Calls:     maps.Clone(c.counts),
	}
	seen := map[string]bool{}
	for uid, known := range c.disks {
		snapshot.Disks[uid] = known.owner
	}
	for _, known := range c.servers {
		id := known.instance.Identity
		snapshot.Instances[id.UID] = id
		machine := id.Owner.Namespace + "/" + id.Name
		if seen[machine] {
			snapshot.Duplicates = append(snapshot.Duplicates, machine)
		}
		seen[machine] = true
	}
	return snapshot
}

// Changes counts the calls that change something, and of Provision those that took a step.
func (c *Cloud) Changes() (count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	count = c.provisioned
	for _, operation := range []string{"create", "disk", "delete", "restart", "tag"} {
		count += c.counts[operation]
	}
	return count
}

// UserData returns the user data of the instance of an identity.
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

// RegisterImage adds an image.
func (c *Cloud) RegisterImage(name string, image driver.Image) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.images[name] = image
}

// DeregisterImage removes an image, as another client of the cloud would.
func (c *Cloud) DeregisterImage(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.images, name)
}

// Destroy removes an instance, as another client of the cloud would.
func (c *Cloud) Destroy(uid types.UID) {
	c.change(uid, func(known *server) { c.remove(known) })
}

// Set changes an instance, as another client of the cloud would, and notifies.
func (c *Cloud) Set(uid types.UID, change func(*driver.Instance)) {
	c.change(uid, func(known *server) { change(&known.instance) })
}

func (c *Cloud) change(uid types.UID, change func(*server)) {
	c.mu.Lock()
	known, notify := c.find(driver.Identity{UID: uid}), c.changed
	var id driver.Identity
	if known != nil {
		change(known)
		id = known.instance.Identity
	}
	c.mu.Unlock()
	if known != nil && notify != nil {
		notify(id)
	}
}

// HideNext makes the next instance missing from one list.
func (c *Cloud) HideNext() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hide = 1
}

// RestoreTags puts the tags of an identity on the instance of a provider ID, as another client of the cloud would.
func (c *Cloud) RestoreTags(providerID string, id driver.Identity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.find(driver.Identity{ProviderID: providerID}); known != nil {
		id.ProviderID = providerID
		known.instance.Identity = id
	}
}

// Copy makes another instance with the tags of one, as "launch more like this" does, and returns its provider ID.
func (c *Cloud) Copy(providerID string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.find(driver.Identity{ProviderID: providerID})
	if known == nil {
		return ""
	}
	created := c.createServer(driver.CreateRequest[Config]{Identity: known.instance.Identity, Config: known.config}, driver.Image{ID: known.image})
	return created.instance.ProviderID
}

// DestroyInstance removes the instance of a provider ID, as another client of the cloud would.
func (c *Cloud) DestroyInstance(providerID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.find(driver.Identity{ProviderID: providerID}); known != nil {
		c.remove(known)
	}
}

// Untag removes tags from the instance of a provider ID and its disk, as another client of the cloud would, and returns
// a function that reports whether both still exist and then removes them.
func (c *Cloud) Untag(providerID string, keys ...string) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.find(driver.Identity{ProviderID: providerID})
	uid := known.instance.Identity.UID
	_, beside := c.disks[uid]
	tags := known.instance.Identity.Tags()
	for _, key := range keys {
		delete(tags, key)
	}
	id, _ := driver.FromTags(tags)
	id.ProviderID = providerID
	known.instance.Identity = id
	if left := c.disks[uid]; beside {
		left.owner = id
		c.disks[uid] = left
	}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		there := c.find(driver.Identity{ProviderID: providerID}) == known && known.instance.State == driver.Running
		if _, left := c.disks[uid]; left != beside {
			there = false
		}
		c.remove(known)
		delete(c.disks, uid)
		return there
	}
}
