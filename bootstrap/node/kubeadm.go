// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// Where kubeadm join finds what it needs.
const (
	kubeadmInImage    = "/usr/bin/kubeadm"
	kubeadmDownloaded = "/opt/bin/kubeadm"

	joinFolder    = "/etc/drover/kubeadm"
	joinFile      = joinFolder + "/join.json"
	discoveryFile = joinFolder + "/discovery.conf"
	patchFolder   = joinFolder + "/patches"

	// joinedFile exists once kubeadm has joined.
	joinedFile = joinFolder + "/joined"

	// kubeadmBootstrapKubeconfig is where kubeadm writes the bootstrap kubeconfig, whatever the unit of the kubelet names.
	kubeadmBootstrapKubeconfig = "/etc/kubernetes/bootstrap-kubelet.conf"
)

// joinConfiguration is the part of kubeadm's JoinConfiguration v1beta4 that we use.
type joinConfiguration struct {
	APIVersion       string           `json:"apiVersion"`
	Kind             string           `json:"kind"`
	Discovery        discovery        `json:"discovery"`
	NodeRegistration nodeRegistration `json:"nodeRegistration"`
	Timeouts         timeouts         `json:"timeouts"`
	Patches          *patches         `json:"patches,omitempty"`
}

// discovery is a kubeconfig with the CA and the token: kubeadm takes both from it, and the server's name too.
type discovery struct {
	File struct {
		KubeConfigPath string `json:"kubeConfigPath"`
	} `json:"file"`
}

type nodeRegistration struct {
	Name      string         `json:"name,omitempty"`
	CRISocket string         `json:"criSocket"`
	Taints    []corev1.Taint `json:"taints"`
	ExtraArgs []kubeadmArg   `json:"kubeletExtraArgs,omitempty"`
	Ignored   []string       `json:"ignorePreflightErrors,omitempty"`
}

type kubeadmArg struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// timeouts are durations such as 5m0s.
type timeouts struct {
	// TLSBootstrap is how long kubeadm waits for the certificate of the kubelet. A host whose kubelet gets it later would be a
	// Node whose bootstrap has ended with an error: without its postCommands and its health check.
	TLSBootstrap string `json:"tlsBootstrap"`
}

type patches struct {
	Directory string `json:"directory"`
}

// addKubeadm describes the Node to kubeadm join, which writes the kubelet's files.
func addKubeadm(n *Node, os distribution, in Input) error {
	if in.Spec.Join.Method != bootstrapv1.JoinKubeadm {
		if len(in.Spec.Binaries.Kubeadm) > 0 {
			return invalid("spec.binaries.kubeadm", "is for spec.join.method Kubeadm")
		}
		if len(in.Spec.Join.IgnorePreflightErrors) > 0 {
			return invalid("spec.join.ignorePreflightErrors", "is for spec.join.method Kubeadm")
		}
		return nil
	}
	n.kubeadm = kubeadmInImage
	if len(in.Spec.Binaries.Kubeadm) > 0 {
		n.kubeadm = kubeadmDownloaded
	}
	join := joinConfiguration{APIVersion: "kubeadm.k8s.io/v1beta4", Kind: "JoinConfiguration", Timeouts: timeouts{TLSBootstrap: "30m0s"}}
	join.Discovery.File.KubeConfigPath = discoveryFile
	fragment, err := kubeletFragment(in)
	if err != nil {
		return err
	}
	join.Patches = &patches{Directory: patchFolder}
	patch, err := json.Marshal(kubeadmPatch(in, fragment))
	if err != nil {
		return fmt.Errorf("writing patch of KubeletConfiguration: %w", err)
	}
	n.Files = append(n.Files, File{Path: patchFolder + "/kubeletconfiguration+merge.json", Mode: 0o644, Content: append(patch, '\n')})
	if join.NodeRegistration, err = registration(os, in.Spec.Kubelet); err != nil {
		return err
	}
	join.NodeRegistration.Ignored = in.Spec.Join.IgnorePreflightErrors
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	encoder.SetEscapeHTML(false) // jinja must find its expressions as they were written
	if err := encoder.Encode(join); err != nil {
		return fmt.Errorf("writing JoinConfiguration: %w", err)
	}
	n.Files = append(n.Files, File{Path: joinFile, Mode: 0o600, Content: content.Bytes(), Jinja: hasJinja(content.String())})
	return nil
}

// kubeadmPatch is put over the configuration of the cluster: what has a field of its own in the spec, where the host's health
// check reads, since the cluster may have another address, and the operator's fragment.
func kubeadmPatch(in Input, fragment map[string]any) map[string]any {
	patch := map[string]any{"healthzPort": healthzPort, "healthzBindAddress": "127.0.0.1"}
	if addresses := in.Spec.Kubelet.ClusterDNS; len(addresses) > 0 {
		patch["clusterDNS"] = addresses
	}
	for key, value := range fragment {
		if key != "healthzBindAddress" || value != nil {
			patch[key] = value
		}
	}
	return patch
}

// registration has in kubeadm's fields what is otherwise in the kubelet's command line.
func registration(os distribution, k bootstrapv1.Kubelet) (nodeRegistration, error) {
	r := nodeRegistration{Name: k.HostnameOverride, CRISocket: containerdEndpoint}
	for _, t := range [][2]string{{"spec.kubelet.providerID", k.ProviderID}, {"spec.kubelet.hostnameOverride", k.HostnameOverride}} {
		if variable.MatchString(t[1]) {
			return r, invalid(t[0], "kubeadm does not fill in variables: use spec.join.method KubeletTLSBootstrap")
		}
	}
	var err error
	if r.Taints, err = nodeTaints(k); err != nil {
		return r, err
	}
	args, err := kubeletArgs(os, k)
	if err != nil {
		return r, err
	}
	for _, arg := range args[ownArgs:] {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg.text, "--"), "=")
		if name != "register-with-taints" && name != "hostname-override" {
			r.ExtraArgs = append(r.ExtraArgs, kubeadmArg{name, value})
		}
	}
	return r, nil
}
