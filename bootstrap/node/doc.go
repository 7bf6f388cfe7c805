// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package node describes what a host must have to become a Node: files, units, kernel modules, sysctls, binaries
// with pinned digests, users and commands in order. Describe is pure: the same input gives the same Node. What
// differs between operating systems is in one file per operating system. It does not depend on cloud-init or
// Ignition: the renderers take a Node and write it in their language, and the controller calls both.
//
// # What a host finds where
//
// The paths are a contract with images, with validators and with the simulated host, which follows them as
// systemd and the kubelet would:
//
//	/etc/systemd/system/kubelet.service   the kubelet's whole command line, see below
//	/etc/drover/bootstrap-kubelet.conf    kubeconfig (0600) with endpoint and bootstrap token; its
//	                                      certificate-authority is the path of the CA file, not inline data
//	/etc/kubernetes/pki/ca.crt            CA of the API server, pinned; also the kubelet's client CA
//	/var/lib/kubelet/config.yaml          KubeletConfiguration
//	/etc/kubernetes/kubelet.conf          written by the kubelet when it starts first; names its client certificate,
//	                                      which exists once the API server has issued it
//	/var/lib/drover/prepared              exists from when bootstrap.sh starts the kubelet, which does not start before
//	/etc/containerd/config.toml           containerd, with mirrors below /etc/containerd/certs.d
//	/opt/drover/node-ip.sh                run before the kubelet, with spec.kubelet.nodeIP only
//	/opt/drover/server-name.sh            run before the kubelet, with spec.join.tlsServerName only
//	/opt/drover/bootstrap.sh              all steps in order; the last one writes the success file
//	/run/cluster-api/bootstrap-success.complete  the success file of the Cluster API contract
//
// With kubeadm join the files of the kubelet are kubeadm's to write, and these come instead:
//
//	/etc/drover/kubeadm/join.json         JoinConfiguration (0600)
//	/etc/drover/kubeadm/discovery.conf    kubeconfig (0600) with endpoint, CA and bootstrap token
//	/etc/kubernetes/bootstrap-kubelet.conf  the kubelet's bootstrap kubeconfig, which kubeadm writes and deletes
//
// kubelet.service has exactly one ExecStart. It is the path of the kubelet followed by literal arguments of
// the form --flag=value, one per line, joined by backslash and newline; no drop-in of ours changes it. An
// argument that holds a space, a quote or a backslash is enclosed in double quotes with backslash escapes, and
// %% is %, as systemd reads it. Two arguments may be variables alone, which are any number of flags: with kubeadm
// join $KUBELET_KUBEADM_ARGS, and with spec.kubelet.nodeIP $DROVER_NODE_IP, which node-ip.sh writes into
// /var/lib/drover/node-ip.env. Values that come from the instance's metadata are jinja expressions
// such as {{ ds.meta_data.local_hostname }}; then the user data starts with "## template: jinja", and only then.
package node
