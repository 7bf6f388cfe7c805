// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package workload owns the connections from the manager to workload
// clusters: it reads each Cluster's kubeconfig Secret, connects, keeps a slim
// cache of the Nodes, probes, and connects again when the API server comes back
// or the kubeconfig is rotated.
//
// It decides nothing about Clusters, Machines or Nodes and writes no object:
// the controllers get a Connection and its State from Connections, and events
// from NodeEvents and ClusterEvents. No call that they make waits for a
// connection. One goroutine per Cluster (connector) does the waiting, so a cluster
// that cannot be reached costs the others nothing.
//
//	           kubeconfig read, GET /version, Nodes listed
//	┌───────────┐ ──────────────────────────────────────▶ ┌───────────┐
//	│ not       │                                         │ connected │──┐ rotated kubeconfig:
//	│ connected │ ◀────────────────────────────────────── │           │◀─┘ new connection first,
//	└───────────┘  FailureThreshold probes failed, or 401 └───────────┘    then the old one closes
//	   │     ▲     and the kubeconfig in the Secret is refused too
//	   └─────┘ back-off with jitter; at once when the Secret changes
package workload
