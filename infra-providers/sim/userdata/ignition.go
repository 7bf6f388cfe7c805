// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package userdata

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"strings"

	"encoding/base64"
)

// ignitionConfig is the part of Ignition 3 that the bootstrap uses.
type ignitionConfig struct {
	Ignition struct {
		Version string `json:"version"`
	} `json:"ignition"`
	Storage struct {
		Files []struct {
			Path     string           `json:"path"`
			Contents ignitionSource   `json:"contents"`
			Append   []ignitionSource `json:"append"`
		} `json:"files"`
	} `json:"storage"`
	Systemd struct {
		Units []struct {
			Name     string `json:"name"`
			Enabled  bool   `json:"enabled"`
			Mask     bool   `json:"mask"`
			Contents string `json:"contents"`
			Dropins  []struct {
				Name     string `json:"name"`
				Contents string `json:"contents"`
			} `json:"dropins"`
		} `json:"units"`
	} `json:"systemd"`
}

type ignitionSource struct {
	Source      string `json:"source"`
	Compression string `json:"compression"`
}

func isIgnition(data []byte) bool {
	var probe struct {
		Ignition *struct{} `json:"ignition"`
	}
	return bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) && json.Unmarshal(data, &probe) == nil && probe.Ignition != nil
}

func parseIgnition(data []byte, meta Metadata) (*Disk, error) {
	var config ignitionConfig
	if err := json.Unmarshal(data, &config); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(config.Ignition.Version, "3.") {
		return nil, fmt.Errorf("ignition.version %q is not supported, only 3.x is", config.Ignition.Version)
	}
	disk := &Disk{Files: map[string][]byte{metadataFile: environment(meta)}, Hostname: meta.LocalHostname}
	for i, file := range config.Storage.Files {
		var content []byte
		for _, source := range append([]ignitionSource{file.Contents}, file.Append...) {
			more, err := source.read()
			if err != nil {
				return nil, fmt.Errorf("storage.files[%d] %q: %w", i, file.Path, err)
			}
			content = append(content, more...)
		}
		disk.Files[path.Clean(file.Path)] = content
	}
	for _, unit := range config.Systemd.Units {
		if unit.Mask {
			continue
		}
		if unit.Contents != "" {
			disk.Files["/etc/systemd/system/"+unit.Name] = []byte(unit.Contents)
		}
		for _, dropin := range unit.Dropins {
			disk.Files["/etc/systemd/system/"+unit.Name+".d/"+dropin.Name] = []byte(dropin.Contents)
		}
		if unit.Enabled {
			disk.Commands = append(disk.Commands, "systemctl enable --now "+unit.Name)
		}
	}
	if name := bytes.TrimSpace(disk.Files["/etc/hostname"]); len(name) > 0 {
		disk.Hostname = string(name)
	}
	return disk, nil
}

// metadataFile has the instance metadata on a Flatcar host, since Ignition has no templates.
const metadataFile = "/run/metadata/flatcar"

func environment(meta Metadata) []byte {
	return fmt.Appendf(nil, "COREOS_SIM_PROVIDER_ID=%s\nCOREOS_SIM_INSTANCE_ID=%s\nCOREOS_SIM_HOSTNAME=%s\nCOREOS_SIM_ZONE=%s\n",
		meta.ProviderID, meta.InstanceID, meta.LocalHostname, meta.Zone)
}

// read decodes a data URL. A simulated host downloads nothing: any other source is empty, such as the binaries of
// Kubernetes.
func (s ignitionSource) read() ([]byte, error) {
	encoded, ok := strings.CutPrefix(s.Source, "data:")
	if !ok {
		return nil, nil
	}
	kind, body, ok := strings.Cut(encoded, ",")
	if !ok {
		return nil, fmt.Errorf("data URL has no comma")
	}
	content, err := url.PathUnescape(body)
	if err != nil {
		return nil, err
	}
	plain := []byte(content)
	if strings.HasSuffix(kind, ";base64") {
		if plain, err = base64.StdEncoding.DecodeString(content); err != nil {
			return nil, err
		}
	}
	if s.Compression == "gzip" {
		return gunzip(plain)
	}
	return plain, nil
}
