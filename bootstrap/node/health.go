// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

const (
	healthUnit   = "drover-health.service"
	healthScript = scriptFolder + "/health.sh"
	loadFile     = "/proc/loadavg"
	consoleFile  = "/dev/console"
	// healthzPort is the default port of the kubelet's health endpoint on the loopback device.
	healthzPort = 10248
)

// healthCheck restarts a kubelet or a containerd that runs but does not answer, which Restart= does not see.
// One miss is none: it takes three in a row, half a minute apart. Where more than four processes per CPU want to run
// it takes twenty, because there an answer may only be late, and a restart would add to what the host has to do. A
// kubelet that still waits for its certificate is left alone, since it would lose the key of its request. Every five minutes
// its last error about that is written to the console, where the management cluster finds why there is no Node. It writes its
// kubeconfig when it starts, long before the certificate that is named there, and several other errors a second.
const healthCheck = `#!/bin/bash
export PATH=/opt/bin:$PATH
kubelet=0 containerd=0 unjoined=0
type curl ctr nproc >/dev/null || exit 1
joined() {
  [ -e "$(sed -n 's/^ *client-certificate: //p' ` + kubeletKubeconfig + ` 2>/dev/null)" ]
}
while sleep 30; do
  read -r load _ < ` + loadFile + `
  patience=3
  if [ "${load%.*}" -ge $((4 * $(nproc))) ]; then patience=20; fi
  if joined && systemctl --quiet is-active kubelet.service && ! curl -fs -o /dev/null -m 20 http://127.0.0.1:10248/healthz; then
    kubelet=$((kubelet + 1))
  else
    kubelet=0
  fi
  if ! joined && [ $((unjoined = (unjoined + 1) % 10)) = 0 ]; then
    {
      journalctl --unit kubelet.service --since=-5min --output cat --no-pager | grep '^[EF][0-9].* \(certificate_manager\|bootstrap\|run\)[.]go:' | tail -n 1 | cut -c 1-1000
      echo "drover-bootstrap: state=Waiting step=Join"
    } > ` + consoleFile + `
  fi
  if systemctl --quiet is-active containerd.service && ! timeout 20 ctr version >/dev/null 2>&1; then
    containerd=$((containerd + 1))
  else
    containerd=0
  fi
  if [ $containerd -ge $patience ]; then
    echo "restarting containerd: it did not answer $containerd times"
    systemctl restart containerd.service
    containerd=0
  fi
  if [ $kubelet -ge $patience ]; then
    echo "restarting the kubelet: it did not answer $kubelet times"
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
