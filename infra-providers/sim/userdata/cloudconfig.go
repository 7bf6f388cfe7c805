// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package userdata

import (
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"strings"

	"sigs.k8s.io/yaml"
)

// cloudConfig is the part of cloud-init's format that the bootstrap uses.
type cloudConfig struct {
	Hostname         string      `json:"hostname"`
	FQDN             string      `json:"fqdn"`
	PreferFQDN       bool        `json:"prefer_fqdn_over_hostname"`
	PreserveHostname bool        `json:"preserve_hostname"`
	WriteFiles       []writeFile `json:"write_files"`
	BootCommands     []any       `json:"bootcmd"`
	RunCommands      []any       `json:"runcmd"`
}

type writeFile struct {
	Path     string `json:"path"`
	Content  string `json:"content"`
	Encoding string `json:"encoding"`
	Append   bool   `json:"append"`
	// Permissions must be a string: YAML reads a bare 0644 as a number, which cloud-init refuses.
	Permissions any `json:"permissions"`
}

func parseTemplate(data []byte, meta Metadata) (*Disk, error) {
	_, body, _ := strings.Cut(string(data), "\n")
	rendered, missing, err := render(body, variables(meta))
	if err != nil {
		return nil, err
	}
	if !startsWith("#cloud-config")([]byte(rendered)) {
		return nil, errors.New(`the line after "## template: jinja" must be "#cloud-config"`)
	}
	disk, err := parseCloudConfig([]byte(rendered), meta)
	if err != nil {
		return nil, err
	}
	for _, name := range missing {
		disk.Warnings = append(disk.Warnings, fmt.Sprintf("the template uses %q, which this cloud does not have", name))
	}
	return disk, nil
}

func parseCloudConfig(data []byte, meta Metadata) (*Disk, error) {
	var config cloudConfig
	if err := yaml.Unmarshal(data, &config); err != nil {
		return nil, err
	}
	disk := &Disk{Files: map[string][]byte{}, Hostname: hostname(config, meta)}
	for i, file := range config.WriteFiles {
		content, err := decode(file)
		if err != nil {
			return nil, fmt.Errorf("write_files[%d] %q: %w", i, file.Path, err)
		}
		name := path.Clean(file.Path)
		if file.Append {
			content = append(disk.Files[name], content...)
		}
		disk.Files[name] = content
	}
	for _, list := range [][]any{config.BootCommands, config.RunCommands} {
		for _, command := range list {
			disk.Commands = append(disk.Commands, commandLine(command))
		}
	}
	return disk, nil
}

func hostname(config cloudConfig, meta Metadata) string {
	switch {
	case config.PreserveHostname:
		return meta.LocalHostname
	case config.PreferFQDN && config.FQDN != "":
		return config.FQDN
	case config.Hostname != "":
		return config.Hostname
	case config.FQDN != "":
		name, _, _ := strings.Cut(config.FQDN, ".")
		return name
	default:
		return meta.LocalHostname
	}
}

func decode(file writeFile) ([]byte, error) {
	if !path.IsAbs(file.Path) {
		return nil, errors.New("path must be absolute")
	}
	if _, text := file.Permissions.(string); file.Permissions != nil && !text {
		return nil, errors.New("permissions must be a string in quotes")
	}
	switch strings.ToLower(file.Encoding) {
	case "", "text/plain":
		return []byte(file.Content), nil
	case "b64", "base64":
		return base64.StdEncoding.DecodeString(unfold(file.Content))
	case "gz", "gzip":
		return gunzip([]byte(file.Content))
	case "gz+b64", "gz+base64", "gzip+b64", "gzip+base64":
		compressed, err := base64.StdEncoding.DecodeString(unfold(file.Content))
		if err != nil {
			return nil, err
		}
		return gunzip(compressed)
	default:
		return nil, fmt.Errorf("unknown encoding %q", file.Encoding)
	}
}

// unfold removes the line breaks from base64.
func unfold(text string) string {
	return strings.Join(strings.Fields(text), "")
}

func commandLine(command any) string {
	words, ok := command.([]any)
	if !ok {
		return fmt.Sprint(command)
	}
	line := make([]string, len(words))
	for i, word := range words {
		line[i] = fmt.Sprint(word)
	}
	return strings.Join(line, " ")
}
