// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

const (
	networkdFile = "/etc/systemd/networkd.conf.d/50-drover.conf"

	// networkdConfig keeps the routes and rules of a CNI plugin. By default systemd-networkd takes all away that it does not
	// know, whenever it is restarted, as by an update of systemd, or a link changes.
	networkdConfig = "[Network]\nManageForeignRoutes=no\nManageForeignRoutingPolicyRules=no\n"

	// networkdRestart has it read the file: it runs since before that was written.
	networkdRestart = "if systemctl --quiet is-active systemd-networkd.service; then systemctl restart systemd-networkd.service; fi"
)

// addNetworkd has systemd-networkd leave alone what it has not configured.
func addNetworkd(n *Node, os distribution, _ Input) error {
	if !os.networkd {
		return nil
	}
	n.Files = append(n.Files, File{Path: networkdFile, Mode: 0o644, Content: []byte(networkdConfig)})
	n.Setup = append(n.Setup, networkdRestart)
	return nil
}
