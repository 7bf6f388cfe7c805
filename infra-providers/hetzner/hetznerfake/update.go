// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetznerfake

import (
	"encoding/json"
	"net/http"

	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
)

// relabel reads the labels of an update. They replace those there were.
func relabel(body []byte, labels *map[string]string) *refusal {
	var asked struct {
		Labels *map[string]string `json:"labels"`
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		return &refusal{status: http.StatusBadRequest, code: "json_error", message: err.Error()}
	}
	if asked.Labels == nil {
		return nil
	}
	if denied := checkLabels(*asked.Labels); denied != nil {
		return denied
	}
	*labels = *asked.Labels
	return nil
}

func updateServer(c *Cloud, r request) (any, *refusal) {
	found := c.servers[r.id]
	if found == nil {
		return nil, notFound("server")
	}
	denied := relabel(r.body, &found.Labels)
	return schema.ServerUpdateResponse{Server: found.Server}, denied
}

func updateVolume(c *Cloud, r request) (any, *refusal) {
	found := c.volumes[r.id]
	if found == nil {
		return nil, notFound("volume")
	}
	denied := relabel(r.body, &found.Labels)
	return schema.VolumeUpdateResponse{Volume: found.Volume}, denied
}
