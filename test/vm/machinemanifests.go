// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	_ "embed"
	"strings"
	"text/template"
)

//go:embed machine.yaml
var manifests string

// Machine is what differs between tests in the manifests of their machine: a Cluster, templates and a MachineDeployment
// that are all called demo.
type Machine struct {
	// Host and Port are where the workload API server is, by the names in its certificate.
	Host string
	Port int32
	// Artifacts has what the machine downloads.
	Artifacts *ArtifactServer
	// Version is that of Kubernetes, Acceleration QEMU's, and Checksum the kubelet's.
	Version, Acceleration, Checksum string
	// Container is for a machine that is a container, Ignition for Flatcar's format, Kubeadm for a join by it, and Disks for
	// a virtual machine whose spare disks Ignition formats.
	Container, Ignition, Kubeadm, Disks bool
	// Profile is for a machine whose binaries are those of a NodeProfile for its version, on Debian.
	Profile bool
}

// Manifests renders machine.yaml.
func (m Machine) Manifests() ([]byte, error) {
	indent := func(text string) string {
		return "      " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n      ")
	}
	parsed, err := template.New("machine.yaml").Funcs(template.FuncMap{"indent": indent}).Parse(manifests)
	if err != nil {
		return nil, err
	}
	var documents bytes.Buffer
	err = parsed.Execute(&documents, m)
	return documents.Bytes(), err
}
