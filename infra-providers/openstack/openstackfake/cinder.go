// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstackfake

import (
	"fmt"
	"net/http"
)

// volumeTypes are the types there are.
var volumeTypes = []any{nil, "", "fast"}

func (c *Cloud) cinder() {
	const root = "/volume/v3/" + project
	c.handle("GET "+root+"/volumes/detail", http.StatusOK, func(r call) (object, *refusal) {
		for _, volume := range c.things["volumes"] {
			if volume["status"] == "creating" {
				if reads, _ := volume["reads"].(int); reads > 0 {
					volume["status"] = "available"
				}
				volume["reads"] = 1
			}
		}
		// The metadata filter is left out on purpose: an administrator may forbid it, and Cinder then
		// ignores it.
		return c.page(r.Request, c.list("volumes", always), "volumes"), nil
	})
	c.handle("POST "+root+"/volumes", http.StatusAccepted, func(r call) (object, *refusal) {
		requested := r.body["volume"].(object)
		known := false
		for _, kind := range volumeTypes {
			known = known || requested["volume_type"] == kind
		}
		if !known {
			return nil, badRequest("Invalid input received: Volume type %v could not be found.", requested["volume_type"])
		}
		created := object{"status": "creating", "created_at": "2026-01-01T00:00:00.000000", "attachments": []object{}}
		for field, value := range requested {
			created[field] = value
		}
		if image, ok := requested["imageRef"].(string); ok {
			created["volume_image_metadata"] = object{"image_id": image}
		}
		if created["availability_zone"] == nil {
			created["availability_zone"] = "nova"
		}
		return object{"volume": c.put("volumes", created)}, nil
	})
	c.handle("PUT "+root+"/volumes/{id}", http.StatusOK, func(r call) (object, *refusal) {
		known := c.things["volumes"][r.PathValue("id")]
		if known == nil {
			return nil, notFound("Volume " + r.PathValue("id"))
		}
		// Metadata is replaced, not merged.
		for field, value := range r.body["volume"].(object) {
			known[field] = value
		}
		return object{"volume": known}, nil
	})
	c.handle("DELETE "+root+"/volumes/{id}", http.StatusAccepted, func(r call) (object, *refusal) {
		known := c.things["volumes"][r.PathValue("id")]
		switch {
		case known == nil:
			return nil, notFound("Volume " + r.PathValue("id"))
		case known["status"] != "available" && known["status"] != "error":
			return nil, badRequest("Invalid volume: Volume status must be available or error, but current status is: %s.", fmt.Sprint(known["status"]))
		}
		delete(c.things["volumes"], r.PathValue("id"))
		return nil, nil
	})
}
