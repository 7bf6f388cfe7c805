// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/node/quote"
)

// untouchable are files and folders whose replacement leaves a host that cannot boot, be logged in to or join.
var untouchable = []string{
	"/proc", "/sys", "/dev", "/run", "/boot", "/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/fstab", "/etc/machine-id",
	"/sbin/init", "/usr/sbin/init", "/bin/sh", "/usr/bin/sh", "/bin/bash", "/usr/bin/bash", "/lib/systemd", "/usr/lib/systemd",
	// A kubelet that has these does not join again.
	kubeletKubeconfig, "/var/lib/kubelet/pki",
	nodeIPFile, preparedFile,
	stagedFolder,
}

// stagedFolder has the files that the script copies to their paths, below these.
const stagedFolder = scriptFolder + "/files"

// placeFunction does so. Folders that are missing belong to the owner of the file, as those that cloud-init makes since 23.1.
const placeFunction = `place() { # path, owner, mode
  local made=$1
  until [ -e "${made%/*}/" ]; do made=${made%/*}; done
  mkdir -p "${1%/*}"
  cp ` + stagedFolder + `"$1" "$1"
  if ! chown "$2" "$1"; then echo "bootstrap: spec.files: the owner $2 of $1 does not exist" >&2; exit 1; fi
  if [ "$made" != "$1" ]; then chown -R "$2" "$made"; fi
  chmod "$3" "$1"
}`

// placeFirstFunction does so before packages are installed, where the folder and the owner exist by then: what apt reads, for example,
// may belong to its own user. Folders that are missing may be those of a package.
const placeFirstFunction = `place_first() { # path, owner, mode
  if [ -d "${1%/*}" ] && chown "$2" ` + stagedFolder + `"$1" 2>/dev/null; then
    chown root:root ` + stagedFolder + `"$1"
    place "$@"
  fi
}`

// folders are on every host: no file can be in their place.
var folders = []string{
	"/bin", "/etc", "/home", "/lib", "/lib64", "/mnt", "/opt", "/root", "/sbin", "/srv", "/tmp", "/usr", "/usr/bin", "/usr/lib",
	"/usr/local", "/usr/local/bin", "/usr/sbin", "/var", "/var/lib", "/var/lib/drover", "/var/log",
}

func addFiles(n *Node, os distribution, in Input) error {
	for i, f := range in.Spec.Files {
		field := "spec.files[" + itoa(i) + "]"
		if err := checkPath(n, os, f.Path); err != "" {
			return invalid(field+".path", "%s: %s", f.Path, err)
		}
		content, err := fileContent(f, field, in.Secrets)
		if err != nil {
			return err
		}
		mode, err := fileMode(f, field)
		if err != nil {
			return err
		}
		n.Files = append(n.Files, File{Path: f.Path, Owner: f.Owner, Mode: mode, Content: content})
	}
	return nil
}

// placements put the files in their places that cloud-init has written elsewhere: where packages are installed, those that can be
// before that, and all of them after it.
func placements(n *Node, os distribution, packages bool) (before, after []string) {
	var files []string
	for _, f := range n.Files {
		if os.format == bootstrapv1.CloudConfig && f.Staged() != "" {
			files = append(files, fmt.Sprintf("%s %s %04o", quote.Shell(f.Path), quote.Shell(cmp.Or(f.Owner, "root:root")), f.Mode))
		}
	}
	switch {
	case len(files) == 0:
		return nil, nil
	case packages:
		all := "place_files() { # place or place_first\n  \"$1\" " + strings.Join(files, "\n  \"$1\" ") + "\n}"
		return []string{placeFunction, placeFirstFunction, all, "place_files place_first"}, []string{"place_files place"}
	}
	after = []string{placeFunction}
	for _, f := range files {
		after = append(after, "place "+f)
	}
	return nil, after
}

// checkPath refuses to replace what the host needs. It returns what is wrong.
func checkPath(n *Node, os distribution, path string) string {
	within := func(folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }
	if i := slices.IndexFunc(untouchable, within); i >= 0 {
		return "the host needs " + untouchable[i] + " as it is"
	}
	if i := slices.IndexFunc(os.readOnly, within); i >= 0 {
		return os.readOnly[i] + " cannot be written to on this operating system: /opt and /etc can"
	}
	if slices.Contains(folders, path) {
		return "is a folder"
	}
	for _, ours := range n.paths() {
		switch {
		case path == ours:
			return "the file is written by the controller, or twice"
		case strings.HasPrefix(ours, path+"/"):
			return "must be a folder, because " + ours + " is in it"
		case strings.HasPrefix(path, ours+"/"):
			return ours + " is a file"
		}
	}
	return ""
}

// paths are all files that the host gets so far, whatever writes them.
func (n *Node) paths() []string {
	paths := []string{unitFolder + BootstrapUnit}
	for _, f := range n.AllFiles() {
		paths = append(paths, f.Path)
	}
	for _, u := range n.Units {
		paths = append(paths, unitFolder+u.Name)
		for _, d := range u.DropIns {
			paths = append(paths, unitFolder+u.Name+".d/"+d.Name)
		}
	}
	for _, d := range n.Downloads {
		target := d.Target
		if d.Unpack {
			target += "/*"
		}
		paths = append(paths, target)
	}
	for _, u := range n.Users {
		paths = append(paths, "/etc/sudoers.d/"+u.Name)
	}
	if n.Hostname != "" {
		paths = append(paths, "/etc/hostname")
	}
	return paths
}

func fileContent(f bootstrapv1.File, field string, secrets map[bootstrapv1.SecretKeyReference][]byte) ([]byte, error) {
	if f.Content == nil {
		value, found := secrets[f.ContentFrom]
		if !found {
			return nil, invalid(field+".contentFrom", "Secret %q has no key %q", f.ContentFrom.Name, f.ContentFrom.Key)
		}
		return value, nil
	}
	if f.Encoding != bootstrapv1.Base64 {
		return []byte(*f.Content), nil
	}
	content, err := base64.StdEncoding.DecodeString(*f.Content)
	if err != nil {
		return nil, invalid(field+".content", "is not base64")
	}
	return content, nil
}

func fileMode(f bootstrapv1.File, field string) (fs.FileMode, error) {
	if f.Permissions == "" {
		if f.Content == nil {
			return 0o600, nil
		}
		return 0o644, nil
	}
	mode, err := strconv.ParseUint(f.Permissions, 8, 12)
	if err != nil {
		return 0, invalid(field+".permissions", "%q is not an octal mode such as 0644", f.Permissions)
	}
	return fs.FileMode(mode), nil
}
