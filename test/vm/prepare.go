// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Prepare makes of the root what a kubelet takes for a machine with a host name: settings of the kernel, which are the
// host's, and no network but the one that the container has. Call it before Boot.
func (c *Container) Prepare(hostname string) error {
	for from, to := range map[string]string{"fixture.sh": "/fixture.sh", "fixture.service": "/etc/systemd/system/fixture.service"} {
		content, err := os.ReadFile(filepath.Join(filepath.Dir(c.script), "fixture", from))
		if err != nil {
			return err
		}
		if err := c.Write(to, string(content), 0o755); err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(c.Root, "etc/resolv.conf")); err != nil {
		return err
	}
	for path, content := range map[string]string{
		"/etc/hostname":    hostname + "\n", // as the cloud names it
		"/etc/hosts":       "127.0.0.1 localhost\n" + Address + " " + hostname + "\n",
		"/etc/resolv.conf": "",
	} {
		if err := c.Write(path, content, 0o644); err != nil {
			return err
		}
	}
	if err := c.Systemctl("enable", "fixture.service"); err != nil {
		return err
	}
	return c.Systemctl("mask", "systemd-networkd.service", "systemd-networkd-wait-online.service", "systemd-networkd.socket")
}

// Systemctl changes the units of the root.
func (c *Container) Systemctl(args ...string) error {
	command := exec.Command("systemctl", append([]string{"--quiet", "--root=" + c.Root}, args...)...)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("running systemctl %v: %w\n%s", args, err, output)
	}
	return nil
}
