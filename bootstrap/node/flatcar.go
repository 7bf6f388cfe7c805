// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// flatcar is Flatcar Container Linux: /usr is read-only, containerd is part of it, the kubelet is a download or
// a system extension.
func flatcar() distribution {
	return distribution{
		format:     bootstrapv1.Ignition,
		kubelet:    "/usr/bin/kubelet",
		resolvConf: "/run/systemd/resolve/resolv.conf",
		metadata:   "/run/metadata/flatcar",
		readOnly:   []string{"/usr", "/bin", "/sbin", "/lib", "/lib64"},
		time:       timesyncd,
		trustFile:  "/etc/ssl/certs/drover.pem",
		// The unit of the image reads a configuration below /usr.
		containerd: "ExecStart=\nExecStart=/usr/bin/containerd --config " + containerdConfig + "\n",
		setup: []string{
			// Docker's socket would start a daemon that drops forwarded packets.
			"systemctl mask --quiet --now docker.socket docker.service",
		},
		trustCommand: "update-ca-certificates",
		extra:        flatcarUpdates,
	}
}

// flatcarUpdates configures the update engine.
func flatcarUpdates(n *Node, in Input) error {
	var config string
	switch in.Spec.Flatcar.Updates {
	case bootstrapv1.FlatcarUpdatesReboot:
		config = "REBOOT_STRATEGY=reboot\n"
	case bootstrapv1.FlatcarUpdatesOff:
		config = "SERVER=disabled\nREBOOT_STRATEGY=off\n"
	default:
		config = "REBOOT_STRATEGY=off\n"
	}
	n.Files = append(n.Files, File{Path: "/etc/flatcar/update.conf", Mode: 0o644, Content: []byte(config)})
	return nil
}
