// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package guides

import (
	"slices"
	"strings"
)

// page is one whose blocks without a language TestGuides runs.
type page struct {
	name string
	// before is run first, with what the page expects, and after at the end, with what the next page expects.
	before, after string
	// replace are pairs: a value that the reader replaces, or that would wait for ever, and that of the test.
	replace []string
	// objects are the kinds whose YAML the page has the reader apply.
	objects []string
}

// pages are run in this order on one stack. In their values $NAME is the environment of runner.
var pages = []page{
	{name: "guides/autoscaling"},
	{name: "guides/budgets"},
	{name: "guides/freeze"},
	{name: "guides/rollback"},
	{name: "reference/kubectl-drover"},
	{name: "reference/bootstrapconfig"},
	{
		name:    "reference/nodeprofile",
		before:  `printf 'apiVersion: bootstrap.drover.io/v1alpha1\nkind: NodeProfile\nmetadata: {name: fleet}\nspec: {}\n' | kubectl apply -f -`,
		replace: []string{"workers-abc12", "$MACHINE"},
		after:   "kubectl delete nodeprofile fleet",
	},
	{name: "reference/logs", replace: []string{"demo-workers-x7k2p", "$MACHINE"}},
	{name: "guides/tracing", replace: []string{"demo-workers-x7k2p", "$MACHINE"}},
	{
		name:    "guides/attach-workers",
		replace: []string{"203.0.113.10:6443", "$HOST:$PORT", "host: 203.0.113.10", "host: $HOST", "port: 6443", "port: $PORT"},
		objects: []string{"Cluster"},
		after:   "kubectl delete cluster edge; kubectl delete secret edge-kubeconfig",
	},
	{name: "runbooks", replace: []string{
		"machinedeployment/NAME", "machinedeployment/demo-workers", "machinehealthcheck/NAME", "machinehealthcheck/demo-workers",
		"KIND/NAME", "simmachine/$MACHINE", "bootstrapconfig/NAME", "bootstrapconfig/$MACHINE", "machine/NAME", "machine/$MACHINE", "cluster/NAME", "cluster/demo",
		"deployment-name=NAME", "deployment-name=demo-workers",
		"machinedeployment --namespace NAMESPACE NAME", "machinedeployment --namespace default demo-workers",
		"machinehealthcheck --namespace NAMESPACE NAME", "machinehealthcheck --namespace default demo-workers",
		"machine --namespace NAMESPACE NAME", "machine --namespace default $MACHINE",
		"cluster --namespace NAMESPACE NAME", "cluster --namespace default demo",
		"NAMESPACE", "default", "KIND", "simmachines", "WORKLOAD", "workload.kubeconfig",
	}},
	{
		name:    "guides/restart",
		replace: []string{"<name>", "$MACHINE"},
		after:   "kubectl annotate machine $MACHINE cluster.x-k8s.io/paused-",
	},
	{name: "tutorials/getting-started", replace: []string{"<path>", ".", " --watch", ""}}, // it deletes the cluster
}

// isRun reports whether TestGuides runs a page, such as guides/freeze.
func isRun(name string) bool {
	return slices.ContainsFunc(pages, func(p page) bool { return p.name == name || strings.HasPrefix(name, p.name+"/") })
}
