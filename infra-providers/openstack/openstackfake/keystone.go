// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstackfake

import (
	"encoding/json"
	"net/http"
	"time"
)

// keystone serves logins by password and the catalog, and every service's version document.
func (c *Cloud) keystone() {
	c.mux.HandleFunc("POST /identity/v3/auth/tokens", func(w http.ResponseWriter, r *http.Request) {
		var requested struct {
			Auth struct {
				Identity struct {
					Password struct {
						User struct{ Name, Password string }
					}
				}
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		err := json.NewDecoder(r.Body).Decode(&requested)
		user := requested.Auth.Identity.Password.User
		if err != nil || user.Name != User || user.Password != c.password {
			write(w, http.StatusUnauthorized, object{"error": object{"code": 401, "title": "Unauthorized", "message": "The request you have created requires authentication."}})
			return
		}
		w.Header().Set("X-Subject-Token", c.token())
		write(w, http.StatusCreated, object{"token": object{
			"expires_at": time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z"),
			"project":    object{"id": project, "name": "demo"},
			"catalog": []object{
				c.service("compute", "nova", "/compute/v2.1"),
				c.service("network", "neutron", "/network"),
				c.service("image", "glance", "/image"),
				c.service("volumev3", "cinderv3", "/volume/v3/"+project),
			},
		}})
	})
	for path, version := range map[string]object{
		"/compute/v2.1/{$}": {"version": object{"id": "v2.1", "status": "CURRENT", "version": "2.93", "min_version": "2.1"}},
		"/network/{$}":      {"versions": []object{{"id": "v2.0", "status": "CURRENT"}}},
		"/image/{$}":        {"versions": []object{{"id": "v2.15", "status": "CURRENT"}}},
	} {
		c.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, version) })
	}
}

func (c *Cloud) service(kind, name, path string) object {
	return object{"type": kind, "name": name, "id": name, "endpoints": []object{
		{"id": name, "interface": "public", "region": Region, "region_id": Region, "url": c.address + path},
	}}
}

// addDefaults adds what an operator provides.
func (c *Cloud) addDefaults() {
	owned := func(kind string, thing object) object {
		thing["furnished"] = true
		return c.put(kind, thing)
	}
	owned("flavors", object{"id": "1", "name": "m1.small", "vcpus": 1, "ram": 512, "disk": 1})
	owned("flavors", object{"id": "2", "name": "m1.large", "vcpus": 4, "ram": 8192, "disk": 80})
	owned("flavors", object{"id": "3", "name": "huge", "vcpus": 9999, "ram": 9999999, "disk": 1})
	owned("flavors", object{"id": "4", "name": "diskless", "vcpus": 1, "ram": 512, "disk": 0})
	for year, name := range map[string]string{"2024": "old", "2025": "ubuntu", "2026": "ubuntu"} {
		owned("images", object{"name": name, "status": "active", "created_at": year + "-01-01T00:00:00Z", "updated_at": year + "-01-01T00:00:00Z", "tags": []string{"node"}, "os_distro": "ubuntu", "os_version": year, "architecture": "aarch64"})
	}
	owned("images", object{"name": "queued", "status": "queued", "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z", "tags": []string{}})
	network := owned("networks", object{"name": "net"})
	owned("networks", object{"name": "duplicate"})
	owned("networks", object{"name": "duplicate"})
	public := owned("networks", object{"name": "public", "router:external": true})
	owned("subnets", object{"name": "sub4", "network_id": network["id"], "cidr": "10.9.0.0/16", "ip_version": 4})
	owned("subnets", object{"name": "sub6", "network_id": network["id"], "cidr": "fd00::/64", "ip_version": 6})
	owned("subnets", object{"name": "public4", "network_id": public["id"], "cidr": "203.0.113.0/24", "ip_version": 4})
	owned("security-groups", object{"name": "default"})
	owned("security-groups", object{"name": "workers"})
	owned("os-server-groups", object{"name": "spread", "policy": "soft-anti-affinity", "members": []string{}})
	owned("os-keypairs", object{"id": "ops", "name": "ops"})
}
