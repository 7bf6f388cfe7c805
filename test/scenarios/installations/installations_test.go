// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package installations

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/controlplane"
	"drover.io/test/framework"
)

// waitTimeout bounds each wait; it does not measure how long one takes.
var waitTimeout = flag.Duration("wait-timeout", 10*time.Minute, "how long something may take to become true")

// writes records every request for a change.
const writes = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: None
  nonResourceURLs: ["*"]
- level: None
  resources: [{group: coordination.k8s.io}, {group: authentication.k8s.io}, {group: authorization.k8s.io}]
- level: Request
  verbs: [create]
  resources: [{group: ""}, {group: events.k8s.io}, {group: cluster.x-k8s.io}, {group: infrastructure.drover.io}, {group: bootstrap.drover.io}]
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`

// call is a request for a change.
type call struct {
	Verb      string
	User      struct{ Username string }
	ObjectRef struct{ Resource, Subresource, Namespace, Name string }
}

func calls(t *testing.T, cluster *controlplane.ControlPlane) []call {
	t.Helper()
	file, err := os.Open(cluster.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // read only
	var all []call
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return all // a last line without its end is not complete yet
		}
		var one call
		if err := json.Unmarshal(line, &one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
}

func await(t *testing.T, stack *framework.Stack, missing func(context.Context) (string, error)) {
	t.Helper()
	var last string
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, *waitTimeout, true, func(ctx context.Context) (bool, error) {
		for _, m := range stack.Managers() {
			if err := m.Err(); err != nil && !m.ExitAllowed() {
				return false, err
			}
		}
		output, err := missing(ctx)
		if err != nil {
			last = err.Error()
			return false, nil //nolint:nilerr // looked at again
		}
		last = output
		return output == "", nil
	})
	if err != nil {
		t.Fatalf("%v: %s", err, last)
	}
}

// TestTwoInstallationsLeaveEachOtherAlone runs two installations on one management cluster that create machines for one
// workload cluster, roll them and delete everything, first divided by watch filters in one namespace, then by namespaces.
func TestTwoInstallationsLeaveEachOtherAlone(t *testing.T) {
	stack, err := framework.Start(t.Context(), framework.Options{
		Without:      []string{"bootstrap", "infra-sim"},
		Args:         map[string][]string{"machine-controller": {"--namespace=drover-system"}}, // which has nothing of its kinds
		ControlPlane: func(o *controlplane.Options) { o.AuditPolicy = []byte(writes) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, m := range stack.Managers() {
				t.Log(m.Tail())
			}
		}
		if err := stack.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, test := range []struct {
		name       string
		labelled   bool
		namespaces [2]string
		args       [2]string
	}{
		{"by-watch-filter", true, [2]string{"shared", "shared"}, [2]string{"--watch-filter=ours", "--watch-filter=theirs"}},
		{"by-namespace", false, [2]string{"one", "two"}, [2]string{"--namespace=one", "--namespace=two"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var both []*installation
			for i, side := range []string{"ours", "theirs"} {
				both = append(both, &installation{
					stack: stack, name: side, accounts: side + "-" + test.name, namespace: test.namespaces[i], labelled: test.labelled,
				})
			}
			runBoth(t, both, test.args)
		})
	}
}

// runBoth runs the workflow of both installations, and checks what each has written.
func runBoth(t *testing.T, both []*installation, args [2]string) {
	ctx, stack := t.Context(), both[0].stack
	for i, each := range both {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: each.namespace}}
		if err := stack.ManagementClient.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		must(t, each.permit(ctx))
		must(t, each.launch(ctx, args[i]))
		must(t, each.begin(ctx))
	}
	if both[0].labelled {
		unused := &installation{stack: stack, namespace: both[0].namespace}
		must(t, unused.create(ctx, []byte(traps)))
	}
	for _, each := range both {
		await(t, stack, each.running)
		must(t, each.roll(ctx))
	}
	for _, each := range both {
		await(t, stack, each.running)
	}
	if both[0].labelled {
		labelOtherInstallation(t, both[0])
	}
	approvals := approved(t, stack)
	for _, each := range both {
		must(t, stack.ManagementClient.Delete(ctx, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: each.namespace, Name: each.name}}))
	}
	for _, each := range both {
		await(t, stack, gone(each, clusterv1.GroupVersion.WithKind("ClusterList"), each.name))
		await(t, stack, gone(each, schema.GroupVersionKind{Group: "infrastructure.drover.io", Version: "v1alpha1", Kind: "SimMachineList"}, each.name))
		for _, m := range each.managers {
			m.AllowExit(true)
			m.Stop()
		}
	}
	for i, each := range both {
		checkWrites(t, each, both[1-i], approvals)
	}
}

// labelOtherInstallation removes the traps: objects without an installation, and objects of the other one.
func labelOtherInstallation(t *testing.T, ours *installation) {
	unowned := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: ours.namespace, Name: "unowned"}}
	must(t, ours.stack.ManagementClient.Get(t.Context(), client.ObjectKeyFromObject(unowned), unowned))
	if len(unowned.Finalizers) > 0 || len(unowned.Status.Conditions) > 0 {
		t.Errorf("a MachineSet without the label was touched: %v, %v", unowned.Finalizers, unowned.Status.Conditions)
	}
	must(t, ours.stack.ManagementClient.Delete(t.Context(), unowned))
	must(t, ours.stack.ManagementClient.Delete(t.Context(), &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: ours.namespace, Name: "theirs-trap"}}))
	must(t, ours.stack.ManagementClient.Delete(t.Context(), &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: ours.namespace, Name: "theirs-stray"}}))
	await(t, ours.stack, gone(ours, clusterv1.GroupVersion.WithKind("MachineList"), "theirs-trap"))
	await(t, ours.stack, gone(ours, clusterv1.GroupVersion.WithKind("MachineList"), "theirs-stray"))
}

// gone names the objects of the kind with the prefix that are left.
func gone(i *installation, kind schema.GroupVersionKind, prefix string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := i.stack.ManagementClient.List(ctx, list, client.InNamespace(i.namespace)); err != nil {
			return "", err
		}
		for _, item := range list.Items {
			if strings.HasPrefix(item.GetName(), prefix) {
				return item.GetKind() + " " + item.GetName() + " is left", nil
			}
		}
		return "", nil
	}
}

// approved are the Machines, by the name of each certificate request that was approved for one.
func approved(t *testing.T, stack *framework.Stack) map[string]string {
	t.Helper()
	list := &certificatesv1.CertificateSigningRequestList{}
	must(t, stack.WorkloadClient.List(t.Context(), list))
	machines := map[string]string{}
	for _, request := range list.Items {
		for _, condition := range request.Status.Conditions {
			if _, machine, is := strings.Cut(condition.Message, "belongs to Machine "); is {
				machines[request.Name] = machine
			}
		}
	}
	return machines
}

// checkWrites fails for every write of one installation to what is not its own.
func checkWrites(t *testing.T, one, other *installation, approvals map[string]string) {
	t.Helper()
	own := map[string]int{}
	for _, call := range calls(t, one.stack.Management) {
		account, is := strings.CutPrefix(call.User.Username, "system:serviceaccount:"+one.accounts+":")
		if !is {
			continue
		}
		if call.ObjectRef.Namespace != one.namespace || !strings.HasPrefix(call.ObjectRef.Name, one.name) {
			t.Errorf("%s of %s requested to %s %+v", account, one.name, call.Verb, call.ObjectRef)
			continue
		}
		own[account]++
	}
	for _, account := range programs {
		if own[account] == 0 {
			t.Errorf("%s of %s has written nothing", account, one.name)
		}
	}
	own = map[string]int{}
	for _, call := range calls(t, one.stack.Workload) {
		if call.User.Username != one.accounts {
			continue
		}
		own[call.ObjectRef.Resource]++
		machine, of := approvals[call.ObjectRef.Name]
		switch {
		case call.ObjectRef.Resource == "nodes" && strings.HasPrefix(call.ObjectRef.Name, other.name),
			of && !strings.HasPrefix(machine, one.namespace+"/"+one.name):
			t.Errorf("%s requested in the workload cluster to %s %+v (%s)", one.name, call.Verb, call.ObjectRef, machine)
		}
	}
	if own["nodes"] == 0 || own["certificatesigningrequests"] == 0 {
		t.Errorf("%s has written in the workload cluster: %v", one.name, own)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
