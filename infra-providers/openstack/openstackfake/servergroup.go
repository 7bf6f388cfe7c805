// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstackfake

import "net/http"

// serverGroups serves os-server-groups.
func (c *Cloud) serverGroups(handle func(string, int, func(call) (object, *refusal))) {
	const kind = "os-server-groups"
	handle("GET /"+kind, http.StatusOK, func(r call) (object, *refusal) {
		if offset := r.URL.Query().Get("offset"); offset != "" && offset != "0" {
			return object{"server_groups": []object{}}, nil
		}
		return object{"server_groups": shown(c.list(kind, always))}, nil
	})
	handle("GET /"+kind+"/{id}", http.StatusOK, func(r call) (object, *refusal) {
		if known := c.things[kind][r.PathValue("id")]; known != nil {
			return object{"server_group": known}, nil
		}
		return nil, notFound("Instance group " + r.PathValue("id"))
	})
	handle("POST /"+kind, http.StatusOK, func(r call) (object, *refusal) {
		requested := r.body["server_group"].(object)
		return object{"server_group": c.put(kind, object{"name": requested["name"], "policy": requested["policy"], "members": []string{}})}, nil
	})
	handle("DELETE /"+kind+"/{id}", http.StatusNoContent, func(r call) (object, *refusal) {
		if c.things[kind][r.PathValue("id")] == nil {
			return nil, notFound("Instance group " + r.PathValue("id"))
		}
		delete(c.things[kind], r.PathValue("id"))
		return nil, nil
	})
}
