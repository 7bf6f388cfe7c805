// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/kubectl-drover/internal/object"
	"drover.io/kubectl-drover/internal/tree"
	"drover.io/kubectl-drover/internal/why"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	namespaceNamed(t, "describe")
	apply(t, "testdata/tree.yaml", "describe")
	kubeconfig := admin(t, management)
	for name, args := range map[string][]string{
		"cluster":           {"cluster", "shop"},
		"cluster-wide":      {"cluster/shop", "-o", "wide"},
		"machinedeployment": {"md", "web"},
		"machine":           {"machine", "web-new-0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run(t, kubeconfig, append([]string{"describe", "--namespace", "describe"}, args...)...)
			golden(t, "testdata/describe-"+name+".txt", fmt.Sprintf("%s%sexit code %d\n", got.out, got.err, got.code))
		})
	}
}

func TestDescribeAsJSON(t *testing.T) {
	t.Parallel()
	namespaceNamed(t, "describe-json")
	apply(t, "testdata/tree.yaml", "describe-json")
	got := run(t, admin(t, management), "describe", "cluster", "shop", "--namespace", "describe-json", "-o", "json")
	var item tree.Item
	if err := json.Unmarshal([]byte(got.out), &item); err != nil || got.code != ExitOK {
		t.Fatalf("exit code %d, error %v, output %s%s", got.code, err, got.out, got.err)
	}
	if item.Kind != "Cluster" || len(item.Children) != 2 || item.Well() {
		t.Errorf("got %+v", item)
	}
}

// TestDescribeReadsInChunks counts the requests for a Cluster with many Machines: one for each list, and one for each 500
// Machines; none for the objects of a single Machine.
func TestDescribeReadsInChunks(t *testing.T) {
	t.Parallel()
	const machines = 1100
	namespaceNamed(t, "many")
	c := management.Client(t)
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "many", Name: "many"}}
	cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "many.example.org", Port: 6443}
	if err := c.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	createMachines(t, c, machines)
	reader, requests := countingReader(t)
	item, err := (&tree.Builder{Reader: reader}).Cluster(t.Context(), client.ObjectKeyFromObject(cluster))
	if err != nil {
		t.Fatal(err)
	}
	if len(item.Children) != 1 || len(item.Children[0].Names) != machines {
		t.Errorf("the tree has %d groups", len(item.Children))
	}
	// The Cluster, MachineSets and MachineDeployments, and three chunks of Machines.
	if got := requests.requests.Load(); got != 6 {
		t.Errorf("%d requests were made, want 6", got)
	}
}

// countingReader reads the management cluster, and counts the requests.
func countingReader(t *testing.T) (*object.Reader, *counter) {
	t.Helper()
	config, err := management.Start()
	if err != nil {
		t.Fatal(err)
	}
	requests := &counter{}
	counted := rest.CopyConfig(config)
	counted.Wrap(func(next http.RoundTripper) http.RoundTripper { requests.RoundTripper = next; return requests })
	reader, err := object.NewReader(counted, management.Client(t).RESTMapper())
	if err != nil {
		t.Fatal(err)
	}
	return reader, requests
}

// usableKubeconfig leads nowhere.
var usableKubeconfig = []byte("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {token: t}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n")

// TestWhyOfAClusterReadsMachinesOnce has many MachineDeployments that wait for something.
func TestWhyOfAClusterReadsMachinesOnce(t *testing.T) {
	t.Parallel()
	key := pool(t, "many-pools")
	web := deploymentOf(t, key)
	for i := range 9 {
		md := web.DeepCopy()
		md.ObjectMeta = metav1.ObjectMeta{Namespace: key.Namespace, Name: fmt.Sprintf("web-%d", i), Labels: web.Labels, Annotations: web.Annotations}
		if err := management.Client(t).Create(t.Context(), md); err != nil {
			t.Fatal(err)
		}
		md.Status = web.Status
		writeStatus(t, md)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "shop-kubeconfig"}, Data: map[string][]byte{"value": usableKubeconfig}}
	if err := management.Client(t).Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	reader, requests := countingReader(t)
	finder := &why.Finder{Reader: reader, Now: noon, Workload: func(context.Context, client.ObjectKey) (*object.Reader, error) {
		return nil, errors.New("not read")
	}}
	answer, err := finder.Answer(t.Context(), object.Cluster, client.ObjectKey{Namespace: key.Namespace, Name: "shop"})
	if err != nil || answer.Well || answer.Finding.Others < 9 {
		t.Errorf("got %+v, error %v", answer.Finding, err)
	}
	// The Cluster, its Secret, MachineDeployments, MachineSets and Machines, and what belongs to one Machine.
	if got := requests.requests.Load(); got > 8 {
		t.Errorf("%d requests were made, want 8 at most", got)
	}
}

func createMachines(t *testing.T, c client.Client, n int) {
	t.Helper()
	var group sync.WaitGroup
	errs := make(chan error, n)
	next := make(chan int)
	for range 8 {
		group.Go(func() {
			for i := range next {
				m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
					Namespace: "many", Name: fmt.Sprintf("m-%04d", i), Labels: map[string]string{clusterv1.ClusterNameLabel: "many"},
				}}
				m.Spec.ClusterName = "many"
				m.Spec.Bootstrap.DataSecretName = new("data")
				m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.drover.io", Kind: "SimMachine", Name: m.Name}
				if err := c.Create(t.Context(), m); err != nil {
					errs <- err
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
	close(errs)
	for err := range errs {
		t.Fatal(err)
	}
}
