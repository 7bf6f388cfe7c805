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
		extra:        addFlatcarFiles,
	}
}

// kubeletDropIn is the drop-in by which Kubernetes' system extension of Flatcar has systemd start the kubelet whenever it does
// not run.
const kubeletDropIn = "/etc/systemd/system/multi-user.target.d/10-kubelet-service.conf"

// addFlatcarFiles configures the update engine, and leaves the start of the kubelet to the script and to kubeadm. While
// kubeadm join configures a kubelet it stops it, and restarts it at the end: one that systemd started in between would have
// used the token for a key that is lost with the restart.
func addFlatcarFiles(n *Node, in Input) error {
	n.Files = append(n.Files,
		File{Path: "/etc/flatcar/update.conf", Mode: 0o644, Content: []byte(flatcarUpdates(in.Spec.Flatcar.Updates))},
		// This one shadows that of the extension.
		File{Path: kubeletDropIn, Mode: 0o644, Content: []byte("# The kubelet is started by its own unit.\n")},
	)
	return nil
}

// flatcarUpdates is the configuration of the update engine.
func flatcarUpdates(updates bootstrapv1.FlatcarUpdateStrategy) string {
	switch updates {
	case bootstrapv1.FlatcarUpdatesReboot:
		return "REBOOT_STRATEGY=reboot\n"
	case bootstrapv1.FlatcarUpdatesOff:
		return "SERVER=disabled\nREBOOT_STRATEGY=off\n"
	default:
		return "REBOOT_STRATEGY=off\n"
	}
}
