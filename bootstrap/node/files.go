// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/base64"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// untouchable are files and folders whose replacement leaves a host that cannot boot or be logged in to.
var untouchable = []string{
	"/proc", "/sys", "/dev", "/run", "/boot", "/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/fstab", "/etc/machine-id",
}

func addFiles(n *Node, _ distribution, in Input) error {
	for i, f := range in.Spec.Files {
		field := "spec.files[" + itoa(i) + "]"
		if err := checkPath(n, f.Path); err != "" {
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

// checkPath refuses to replace what the host needs. It returns what is wrong.
func checkPath(n *Node, path string) string {
	if within := slices.IndexFunc(untouchable, func(u string) bool { return path == u || strings.HasPrefix(path, u+"/") }); within >= 0 {
		return "the host needs " + untouchable[within] + " as it is"
	}
	for _, ours := range n.AllFiles() {
		switch {
		case path == ours.Path:
			return "the file is written by the controller, or twice"
		case strings.HasPrefix(ours.Path, path+"/"):
			return "must be a folder, because " + ours.Path + " is in it"
		case strings.HasPrefix(path, ours.Path+"/"):
			return ours.Path + " is a file"
		}
	}
	return ""
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
