// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
)

// metadata returns the instance metadata of cloud-init, as JSON, which is also YAML.
func metadata(spec Spec) ([]byte, error) {
	return json.Marshal(map[string]string{
		"instance-id":    spec.ID,
		"local-hostname": spec.Hostname,
		"local_hostname": spec.Hostname,
		"provider_id":    spec.ProviderID,
	})
}

// WriteSeed writes the disk of cloud-init's data source NoCloud.
func WriteSeed(path string, spec Spec, userData []byte) (err error) {
	metaData, err := metadata(spec)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "drover-seed-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	partial := path + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	size := int64(len(userData)+len(metaData)) + 1<<20 // the tables of the file system are far smaller than a mebibyte
	disk, err := file.CreateFromPath(partial, size)
	if err != nil {
		return err
	}
	defer disk.Close() //nolint:errcheck // written and synchronised before
	if err := os.Chmod(partial, 0o600); err != nil {
		return err
	}
	const block = 2048
	system, err := iso9660.Create(disk, size, 0, block, work)
	if err != nil {
		return fmt.Errorf("creating the file system: %w", err)
	}
	for name, content := range map[string][]byte{"user-data": userData, "meta-data": metaData} {
		if err := put(system, name, content); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	if err := system.Finalize(iso9660.FinalizeOptions{RockRidge: true, Joliet: true, VolumeIdentifier: "cidata"}); err != nil {
		return fmt.Errorf("writing the file system: %w", err)
	}
	return os.Rename(partial, path)
}

func put(system *iso9660.FileSystem, name string, content []byte) error {
	out, err := system.OpenFile("/"+name, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return err
	}
	_, err = out.Write(content)
	return errors.Join(err, out.Close())
}
