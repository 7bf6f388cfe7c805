// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hypervisor

import (
	"os"

	"drover.io/infra-providers/internal/statedir"
)

const (
	consoleFile = "console.log"
	// consoleLimit is the size at which the console's file starts again; one older part is kept.
	consoleLimit = 256 << 10
)

// disk is the folder of one instance. It implements kubelet.Store.
type disk struct {
	dir *statedir.Dir[Spec]
	id  string
}

// Load returns nil when there is no such file.
func (d disk) Load(name string) []byte { return read(d.dir.Path(d.id, name)) }

// Save replaces a file as a whole. It fails once the instance is deleted.
func (d disk) Save(name string, content []byte) error { return d.dir.Replace(d.id, name, content) }

func (d disk) userData() []byte { return read(d.dir.UserData(d.id)) }

// log appends a line to the console. It is lost when the instance is deleted.
func (d disk) log(line string) {
	_ = statedir.AppendBounded(d.dir.Path(d.id, consoleFile), []byte(line+"\n"), consoleLimit)
}

func read(path string) []byte {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return content
}
