// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetznerfake

import (
	"encoding/json"
	"net/http"

	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
)

// replaceLabels replaces labels by those of an update.
func replaceLabels(body []byte, labels *map[string]string) *refusal {
	var requested struct {
		Labels *map[string]string `json:"labels"`
	}
	if err := json.Unmarshal(body, &requested); err != nil {
		return &refusal{status: http.StatusBadRequest, code: "json_error", message: err.Error()}
	}
	if requested.Labels == nil {
		return nil
	}
	if refused := checkLabels(*requested.Labels); refused != nil {
		return refused
	}
	*labels = *requested.Labels
	return nil
}

func updateServer(c *Cloud, r request) (any, *refusal) {
	found := c.servers[r.id]
	if found == nil {
		return nil, notFound("server")
	}
	refused := replaceLabels(r.body, &found.Labels)
	return schema.ServerUpdateResponse{Server: found.Server}, refused
}

func updateVolume(c *Cloud, r request) (any, *refusal) {
	found := c.volumes[r.id]
	if found == nil {
		return nil, notFound("volume")
	}
	refused := replaceLabels(r.body, &found.Labels)
	return schema.VolumeUpdateResponse{Volume: found.Volume}, refused
}
