// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

const (
	healthUnit   = "drover-health.service"
	healthScript = scriptFolder + "/health.sh"
)

// healthCheck restarts a kubelet or a containerd that runs but does not answer, which Restart= does not see.
// Three misses in a row, half a minute apart, so that a busy host is left alone. A kubelet that still waits for
// its certificate does not answer yet.
const healthCheck = `#!/bin/bash
kubelet=0 containerd=0
type curl ctr >/dev/null || exit 0
while sleep 30; do
  if [ -e ` + kubeletKubeconfig + ` ] && systemctl --quiet is-active kubelet.service && ! curl -fs -o /dev/null -m 20 http://127.0.0.1:10248/healthz; then
    kubelet=$((kubelet + 1))
  else
    kubelet=0
  fi
  if systemctl --quiet is-active containerd.service && ! timeout 20 ctr version >/dev/null 2>&1; then
    containerd=$((containerd + 1))
  else
    containerd=0
  fi
  if [ $containerd -ge 3 ]; then
    echo "restarting containerd: it does not answer"
    systemctl restart containerd.service
    containerd=0
  fi
  if [ $kubelet -ge 3 ]; then
    echo "restarting the kubelet: it does not answer"
    systemctl restart kubelet.service
    kubelet=0
  fi
done
`

const healthService = `[Unit]
Description=Restarts a kubelet or containerd that does not answer
After=kubelet.service

[Service]
ExecStart=` + healthScript + `
Restart=on-failure

[Install]
WantedBy=multi-user.target
`

func addHealthCheck(n *Node, _ distribution, _ Input) error {
	n.Files = append(n.Files, File{Path: healthScript, Mode: 0o755, Content: []byte(healthCheck)})
	n.Units = append(n.Units, Unit{Name: healthUnit, Content: healthService})
	n.Services = append(n.Services, healthUnit)
	return nil
}
