// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// maxNodeInfo is how many bytes of each text in status.nodeInfo are kept, as many characters as a version may have in the
// status of a MachineSet. A kubelet may report more, and so may root on its host.
const maxNodeInfo = 256

// boundedNodeInfo returns a copy of what a kubelet reports about itself, with texts of a bounded length.
func boundedNodeInfo(reported *corev1.NodeSystemInfo) *corev1.NodeSystemInfo {
	info := reported.DeepCopy()
	for _, text := range []*string{
		&info.MachineID, &info.SystemUUID, &info.BootID, &info.KernelVersion, &info.OSImage, &info.ContainerRuntimeVersion,
		&info.KubeletVersion, &info.OperatingSystem, &info.Architecture,
		&info.KubeProxyVersion, //nolint:staticcheck // deprecated, but a kubelet can still report it
	} {
		if len(*text) > maxNodeInfo {
			*text = strings.ToValidUTF8((*text)[:maxNodeInfo], "")
		}
	}
	return info
}
