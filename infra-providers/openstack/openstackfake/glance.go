// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstackfake

import (
	"net/http"
	"slices"
)

func (c *Cloud) glance() {
	const root = "/image/v2"
	c.handle("GET "+root+"/images", http.StatusOK, func(r call) (object, *refusal) {
		query := r.URL.Query()
		return object{"images": shown(c.list("images", func(o object) bool {
			for _, tag := range query["tag"] {
				if !slices.Contains(o["tags"].([]string), tag) {
					return false
				}
			}
			name, status := query.Get("name"), query.Get("status")
			return (name == "" || o["name"] == name) && (status == "" || o["status"] == status)
		}))}, nil
	})
	c.handle("GET "+root+"/images/{id}", http.StatusOK, func(r call) (object, *refusal) {
		if known := c.things["images"][r.PathValue("id")]; known != nil {
			return known, nil
		}
		return nil, &refusal{http.StatusNotFound, object{"message": "No image found with ID " + r.PathValue("id"), "code": "404 Not Found", "title": "Not Found"}}
	})
}
