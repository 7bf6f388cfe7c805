// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"strings"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/node/quote"
)

const (
	containerdUnit      = "containerd.service"
	containerdConfig    = "/etc/containerd/config.toml"
	registryFolder      = "/etc/containerd/certs.d"
	defaultSandboxImage = "registry.k8s.io/pause:3.10.1"
)

// containerdTOML is version 2 of the configuration: containerd 1.6 and later read it, 2.x too.
const containerdTOML = `version = 2

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %s

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
    conf_dir = "/etc/cni/net.d"

  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = true

  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "` + registryFolder + `"
`

// containerdService is the unit of a containerd that was downloaded: an image may have none. It finds runc and its
// shim by the PATH of the drop-in.
const containerdService = `[Unit]
Description=containerd container runtime
After=network.target local-fs.target

[Service]
Type=notify
ExecStartPre=-/sbin/modprobe overlay
ExecStart=/opt/bin/containerd --config ` + containerdConfig + `
Delegate=yes
KillMode=process
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity
OOMScoreAdjust=-999

[Install]
WantedBy=multi-user.target
`

func addContainerd(n *Node, os distribution, in Input) error {
	spec := in.Spec.Containerd
	auth, err := containerdAuth(in)
	if err != nil {
		return err
	}
	sandbox, err := quote.TOML(sandboxImage(spec))
	if err != nil {
		return invalid("spec.containerd.sandboxImage", "%v", err)
	}
	n.Files = append(n.Files,
		File{Path: containerdConfig, Mode: 0o600, Content: append(fmt.Appendf(nil, containerdTOML, sandbox), auth...)},
		File{Path: "/etc/crictl.yaml", Mode: 0o644, Content: []byte("runtime-endpoint: " + containerdEndpoint + "\nimage-endpoint: " + containerdEndpoint + "\n")},
	)
	if err := addMirrors(n, spec.Mirrors); err != nil {
		return err
	}
	var mounts string
	if requires := n.requiresMounts(); requires != "" {
		mounts = "[Unit]\n" + requires + "\n"
	}
	own := os.containerd
	if len(in.Spec.Binaries.Containerd)+len(in.Spec.Binaries.Runc) > 0 {
		own += "Environment=PATH=/opt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
	}
	unit := Unit{Name: containerdUnit}
	if len(in.Spec.Binaries.Containerd) > 0 {
		unit.Content = containerdService
		own = strings.TrimPrefix(own, os.containerd) // which is for the containerd of the image
	}
	unit.DropIns = []DropIn{{Name: "10-drover.conf", Content: mounts + "[Service]\nEnvironmentFile=-" + proxyFile + "\nRestart=always\nLimitNOFILE=1048576\n" + own}}
	n.Units = append(n.Units, unit)
	return nil
}

func sandboxImage(spec bootstrapv1.Containerd) string {
	if spec.SandboxImage == "" {
		return defaultSandboxImage
	}
	return spec.SandboxImage
}
