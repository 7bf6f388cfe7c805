// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package cloudinit writes a node.Node as cloud-config. It is pure: the same Node gives the same bytes. It
// has cloud-init's modules and encodings, and nothing of what a Node needs; package render calls it.
package cloudinit

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"drover.io/bootstrap/node"
	"drover.io/bootstrap/node/quote"
)

// config has the modules of cloud-config that are used, in the order in which they are read best.
type config struct {
	Hostname         string          `yaml:"hostname,omitempty"`
	PreserveHostname *bool           `yaml:"preserve_hostname,omitempty"`
	PreferFQDN       *bool           `yaml:"prefer_fqdn_over_hostname,omitempty"`
	Users            []any           `yaml:"users,omitempty"`
	DiskSetup        map[string]disk `yaml:"disk_setup,omitempty"`
	FSSetup          []filesystem    `yaml:"fs_setup,omitempty"`
	WriteFiles       []writeFile     `yaml:"write_files"`
	RunCmd           [][]string      `yaml:"runcmd"`
}

type user struct {
	Name              string   `yaml:"name"`
	Groups            []string `yaml:"groups,omitempty"`
	Sudo              string   `yaml:"sudo,omitempty"`
	Shell             string   `yaml:"shell"`
	LockPassword      bool     `yaml:"lock_passwd"`
	SSHAuthorizedKeys []string `yaml:"ssh_authorized_keys,omitempty"`
}

type disk struct {
	TableType string `yaml:"table_type"`
	Layout    bool   `yaml:"layout"`
	Overwrite bool   `yaml:"overwrite"`
}

type filesystem struct {
	Device     string `yaml:"device"`
	Partition  string `yaml:"partition"`
	Filesystem string `yaml:"filesystem"`
	Label      string `yaml:"label"`
	Overwrite  bool   `yaml:"overwrite"`
}

// Render writes the Node as cloud-config.
func Render(n *node.Node) ([]byte, error) {
	c := config{
		Hostname: n.Hostname,
		Users:    users(n.Users),
		RunCmd:   [][]string{{node.ScriptFile}},
	}
	for _, d := range n.Disks {
		c.addDisk(d)
	}
	if n.Hostname != "" {
		no, whole := false, strings.Contains(n.Hostname, ".")
		// On RHEL and Rocky cloud-init prefers the name that the cloud gives, unless that is turned off. Of a name with dots
		// it takes the first label only, unless that is turned on.
		c.PreserveHostname, c.PreferFQDN = &no, &whole
	}
	files, jinja := append(n.AllFiles(), unitFiles(n.Units)...), false
	for _, f := range files {
		c.WriteFiles = append(c.WriteFiles, encode(f))
		jinja = jinja || f.Jinja
	}
	var out bytes.Buffer
	var document yaml.Node
	if err := document.Encode(c); err != nil {
		return nil, fmt.Errorf("writing cloud-config: %w", err)
	}
	if jinja {
		out.WriteString("## template: jinja\n")
		shield(&document, files)
	}
	out.WriteString("#cloud-config\n")
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&document); err != nil {
		return nil, fmt.Errorf("writing cloud-config: %w", err)
	}
	return out.Bytes(), nil
}

// shield keeps jinja from every string of the document but the content of files that are templates themselves.
func shield(n *yaml.Node, files []node.File) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		n.Value = quote.Jinja(n.Value)
	}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i > 0 && n.Content[i-1].Value == "write_files" && i%2 == 1 {
			shieldFiles(child, files)
			continue
		}
		shield(child, files)
	}
}

// shieldFiles does so for the entries of write_files, which are in the order of files.
func shieldFiles(entries *yaml.Node, files []node.File) {
	for i, entry := range entries.Content {
		for j := 0; j+1 < len(entry.Content); j += 2 {
			if files[i].Jinja && entry.Content[j].Value == "content" {
				continue
			}
			shield(entry.Content[j+1], nil)
		}
	}
}

// addDisk never overwrites. The partition auto is the first one, or the whole disk where it has none, unless that
// holds a file system of another kind or label; none would format that too.
func (c *config) addDisk(d node.Disk) {
	if d.Partitioned {
		if c.DiskSetup == nil {
			c.DiskSetup = map[string]disk{}
		}
		c.DiskSetup[d.Device] = disk{TableType: "gpt", Layout: true}
	}
	c.FSSetup = append(c.FSSetup, filesystem{Device: d.Device, Partition: "auto", Filesystem: d.Filesystem, Label: d.Label})
}

// users keeps the image's default user, which cloud-init would drop when others are named.
func users(in []node.User) []any {
	if len(in) == 0 {
		return nil
	}
	out := []any{"default"}
	for _, u := range in {
		out = append(out, user{u.Name, u.Groups, u.Sudo, u.Shell, true, u.SSHAuthorizedKeys})
	}
	return out
}

func unitFiles(units []node.Unit) []node.File {
	const folder = "/etc/systemd/system/"
	var files []node.File
	for _, u := range units {
		if u.Content != "" {
			files = append(files, node.File{Path: folder + u.Name, Mode: 0o644, Content: []byte(u.Content), Jinja: u.Jinja})
		}
		for _, d := range u.DropIns {
			files = append(files, node.File{Path: folder + u.Name + ".d/" + d.Name, Mode: 0o644, Content: []byte(d.Content)})
		}
	}
	return files
}
