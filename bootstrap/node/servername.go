// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net"
	"strings"
)

const serverNameScript = scriptFolder + "/server-name.sh"

// keepServerName puts the name of the API server's certificate into the kubeconfig that the kubelet writes for
// itself, which leaves it out: without, a kubelet that is restarted could not verify the API server. It leaves alone a file that
// the kubelet has not written to its end, and may run twice at a time.
const keepServerName = `#!/bin/bash
set -euo pipefail
file=` + kubeletKubeconfig + `
if grep -qs 'client-key' "$file" && ! grep -q 'tls-server-name:' "$file"; then
  sed -i '/^ *tls-server-name:/d; s|^\( *\)server: .*|&\n\1tls-server-name: "SERVER_NAME"|' "$file"
fi
`

// addServerName has the kubelet's kubeconfig corrected before each start of the kubelet.
func addServerName(n *Node, _ distribution, in Input) error {
	endpoint, name := reach(in)
	if name == "" {
		return nil
	}
	fragment, err := kubeletFragment(in)
	if err != nil {
		return err
	}
	host, _, _ := net.SplitHostPort(endpoint)
	if rotate, set := fragment["rotateCertificates"]; set && rotate != true && name != host { // then it reads the file as soon as it has written it
		return invalid(kubeletConfigurationField+".rotateCertificates", "must be true where the API server is verified by another name than that of its endpoint: the kubelet leaves that name out")
	}
	n.Files = append(n.Files, File{Path: serverNameScript, Mode: 0o755, Content: []byte(strings.Replace(keepServerName, "SERVER_NAME", name, 1))})
	for i := range n.Units {
		if n.Units[i].Name == kubeletUnit {
			n.Units[i].DropIns = append(n.Units[i].DropIns, DropIn{Name: "20-server-name.conf", Content: "[Service]\nExecStartPre=" + serverNameScript + "\n"})
		}
	}
	return nil
}
