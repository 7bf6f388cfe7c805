// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package providers

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/controlplane/binaries"
	"drover.io/test/framework"
	"drover.io/test/workflow"
)

// waitTimeout bounds every wait; it is not a measure of how long anything takes.
const waitTimeout = 10 * time.Minute

// azureMachines is the path of a virtual machine of Azure.
const azureMachines = "providers/Microsoft.Compute/virtualMachines/{name}"

// anexiaMachines is the path of a virtual machine of the Anexia Engine.
const anexiaMachines = "/api/vsphere/v1/provisioning/vm.json/{id}"

// nutanixMachines is the path of the virtual machines of Prism Central.
const nutanixMachines = "/api/vmm/v4.2/ahv/config/vms"

// yandexServices begins the calls of Yandex Compute Cloud.
const yandexServices = "POST /yandex.cloud.compute.v1."

// clouds are the clouds. The budgets are the changes that one machine costs, and the reads of one
// at most: before it is deleted and until it is gone, with one more for each time that the cloud requires a retry.
var clouds = []*cloud{
	{
		name: "alibaba", kind: "AlibabaMachineTemplate", sizes: [2][]string{{"ecs.g8i.large", "eu-central-1a"}, {"ecs.g8i.xlarge", "eu-central-1b"}},
		providerID: regexp.MustCompile(`^alicloud://eu-central-1\.i-gw8[0-9a-f]{15}$`),
		budget:     map[string]int{"RunInstances": 1, "DeleteInstance": 1},
		read:       "DescribeInstances by ID", reads: 6,
	},
	{
		name: "anexia", kind: "AnexiaMachineTemplate", sizes: [2][]string{{"2"}, {"4"}},
		providerID: regexp.MustCompile(`^anexia://[0-9a-f]{32}$`),
		// An address is reserved before the virtual machine is requested, and goes with it.
		budget: map[string]int{"POST " + anexiaMachines + "/templates/{id}": 1, "DELETE " + anexiaMachines: 1, "POST /api/ipam/v1/address/reserve/ip/count.json": 1},
		read:   "GET /api/vsphere/v1/info.json/{id}/info", reads: 12,
	},
	{
		name: "aws", kind: "AWSMachineTemplate", sizes: [2][]string{{"m7i.large"}, {"m7i.xlarge"}},
		providerID: regexp.MustCompile(`^aws:///eu-central-1a/i-[0-9a-f]{17}$`),
		budget:     map[string]int{"RunInstances": 1, "TerminateInstances by ID": 1},
		read:       "DescribeInstances by ID", reads: 5,
	},
	{
		name: "azure", kind: "AzureMachineTemplate", sizes: [2][]string{{"Standard_D2s_v5", "1"}, {"Standard_D4s_v5", "2"}},
		providerID: regexp.MustCompile(`^azure:///subscriptions/[0-9a-f-]{36}/resourceGroups/nodes/providers/Microsoft\.Compute/virtualMachines/[a-z0-9-]+$`),
		// The network interface and the disk are deleted with the virtual machine.
		budget: map[string]int{
			"PUT " + azureMachines: 1, "DELETE " + azureMachines: 1, "PUT providers/Microsoft.Network/networkInterfaces/{name}": 1,
		},
		read: "GET " + azureMachines, reads: 8,
	},
	{
		name: "digitalocean", kind: "DigitalOceanMachineTemplate", sizes: [2][]string{{"s-2vcpu-4gb"}, {"s-4vcpu-8gb"}},
		providerID: regexp.MustCompile(`^digitalocean://[0-9]+$`),
		// A claim is an SSH key that is added before a Droplet is requested, and deleted when the Droplet is listed, and with the
		// machine, if it is still there.
		budget: map[string]int{"POST /v2/droplets": 1, "DELETE /v2/droplets/{id}": 1, "POST /v2/account/keys": 1, "DELETE /v2/account/keys/{id}": 2},
		read:   "GET /v2/droplets/{id}", reads: 6,
	},
	{
		name: "google", kind: "GoogleMachineTemplate", sizes: [2][]string{{"n4-standard-2", "europe-west3-a"}, {"n4-standard-4", "europe-west3-b"}},
		providerID: regexp.MustCompile(`^gce://drover-test/europe-west3-[ab]/[a-z0-9-]+$`),
		budget: map[string]int{
			"POST /compute/v1/projects/drover-test/zones/{name}/instances": 1, "DELETE /compute/v1/projects/drover-test/zones/{name}/instances/{name}": 1,
		},
		read: "GET /compute/v1/projects/drover-test/zones/{name}/instances/{name}", reads: 6,
	},
	{
		name: "hetzner", kind: "HetznerMachineTemplate", sizes: [2][]string{{"cx33"}, {"cx43"}},
		providerID: regexp.MustCompile(`^hcloud://[0-9]+$`),
		budget:     map[string]int{"POST /v1/servers": 1, "DELETE /v1/servers/{id}": 1},
		read:       "GET /v1/servers/{id}", reads: 5,
	},
	{
		name: "kubevirt", kind: "KubeVirtMachineTemplate", sizes: [2][]string{{"2", "zone-a"}, {"4", "zone-b"}},
		providerID: regexp.MustCompile(`^kubevirt://drover-[0-9a-f-]{36}$`),
	},
	{
		name: "metalstack", kind: "MetalStackMachineTemplate", sizes: [2][]string{{"c1-xlarge-x86", "fra-equ01"}, {"c2-xlarge-x86", "fra-equ02"}},
		providerID: regexp.MustCompile(`^metal://fra-equ0[12]/[0-9a-f-]{36}$`),
		// The address of the machine is allocated before it, and goes with it.
		budget: map[string]int{"POST /v1/machine/allocate": 1, "DELETE /v1/machine/{id}/free": 1, "POST /v1/ip/allocate": 1},
		read:   "GET /v1/machine/{id}", reads: 5,
	},
	{
		name: "nutanix", kind: "NutanixMachineTemplate", sizes: [2][]string{{"2", "pe-a"}, {"4", "pe-b"}},
		providerID: regexp.MustCompile(`^nutanix://[0-9a-f-]{36}$`),
		// A virtual machine is created stopped, and started then.
		budget: map[string]int{
			"POST " + nutanixMachines: 1, "POST " + nutanixMachines + "/{id}/$actions/power-on": 1, "DELETE " + nutanixMachines + "/{id}": 1,
		},
		read: "GET " + nutanixMachines + "/{id}", reads: 12,
	},
	{
		name: "openstack", kind: "OpenStackMachineTemplate", sizes: [2][]string{{"m1.small", "nova"}, {"m1.small", "zone-b"}},
		providerID: regexp.MustCompile(`^openstack:///[0-9a-f-]{36}$`),
		budget:     map[string]int{"POST /compute/v2.1/servers": 1, "DELETE /compute/v2.1/servers/{id}": 1},
		read:       "GET /compute/v2.1/servers/{id}", reads: 6,
	},
	{
		name: "vcd", kind: "VCDMachineTemplate", sizes: [2][]string{{"2", "zone-a"}, {"4", "zone-b"}},
		providerID: regexp.MustCompile(`^vmware-cloud-director://urn:vcloud:vm:[0-9a-f-]{36}$`),
		// A virtual machine is switched off before it is deleted. While one is added to the vApp or deleted, requests for another one
		// are refused as busy, and repeated.
		most: map[string]int{
			"POST /api/vApp/{id}/action/recomposeVApp": 2, "POST /api/vApp/{id}/action/reconfigureVm": 2, "PUT /api/vApp/{id}/productSections": 2,
			"POST /api/vApp/{id}/metadata": 2, "POST /api/vApp/{id}/power/action/powerOn": 2, "POST /api/vApp/{id}/action/undeploy": 2, "DELETE /api/vApp/{id}": 2,
		},
		read: "GET /api/vApp/{id}", reads: 14,
	},
	{
		name: "vsphere", kind: "VSphereMachineTemplate", sizes: [2][]string{{"2"}, {"4"}},
		providerID: regexp.MustCompile(`^vsphere://[0-9a-f-]{36}$`),
		budget:     map[string]int{"CloneVM_Task": 1, "PowerOnVM_Task": 1, "PowerOffVM_Task": 1, "Destroy_Task": 1},
		read:       "FindAllByUuid", reads: 10,
	},
	{
		name: "yandex", kind: "YandexMachineTemplate", sizes: [2][]string{{"2", "ru-central1-a"}, {"4", "ru-central1-b"}},
		providerID: regexp.MustCompile(`^yandex://fhm[0-9]{15}$`),
		// The disk is created before the instance, and deleted with it.
		budget: map[string]int{
			yandexServices + "InstanceService/Create": 1, yandexServices + "InstanceService/Delete": 1, yandexServices + "DiskService/Create": 1,
		},
		read: yandexServices + "InstanceService/Get", reads: 7,
	},
	{
		name: "qemu", kind: "QEMUMachineTemplate", sizes: [2][]string{{"1"}, {"2"}},
		providerID: regexp.MustCompile(`^qemu:///lab/vm-[0-9a-f-]{36}$`),
	},
}

// TestMachineDeployments brings up two machines in each cloud, rolls them once, scales to zero and deletes the
// Cluster: nothing is left, and the cloud got no unnecessary calls.
func TestMachineDeployments(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	start, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	stack, err := framework.Start(start, framework.Options{Without: []string{"infra-sim"}, EveryCloud: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stack.Stop(); err != nil {
			t.Error(err)
		}
	})
	program := filepath.Join(stack.Dir, "fakecloud")
	build := exec.CommandContext(start, "go", "build", "-o", program, "./internal/fakecloud")
	build.Dir, build.Env = filepath.Join(root, "infra-providers"), append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the clouds: %v: %s", err, out)
	}
	var running errgroup.Group
	running.SetLimit(cloudsAtOnce)
	for _, c := range clouds {
		running.Go(func() error {
			t.Run(c.name, func(t *testing.T) { test(t, stack, c, root, program) })
			return nil
		})
	}
	_ = running.Wait() // the subtests have failed
	left, err := (&workflow.Workflow{Stack: stack, Namespace: "default", Cluster: "none"}).Remaining(t.Context())
	if err != nil || len(left) > 0 {
		t.Errorf("left after all: %v, %v", left, err)
	}
}

// test starts the cloud and its provider, and runs the workflow in a namespace of its own.
func test(t *testing.T, stack *framework.Stack, c *cloud, root, program string) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.name}}
	if err := stack.ManagementClient.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	c.open(t, program, stack.Dir)
	provider := c.provide(t.Context(), t, stack, root)
	t.Cleanup(func() {
		if provider.Stop(); t.Failed() {
			t.Log(provider.Tail())
		}
	})
	provider.AllowExit(true)
	live(t, stack, c)
}

// cloudsAtOnce is how many clouds are tested at a time. Most of the time of each passes in waiting for it.
const cloudsAtOnce = 4

// pollPeriod is how often drivers want an instance to be read that starts or stops, at most.
const pollPeriod = 5 * time.Second

// live is the workflow.
func live(t *testing.T, stack *framework.Stack, c *cloud) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*waitTimeout)
	defer cancel()
	events := &workflow.Workflow{Stack: stack, Namespace: c.name, Cluster: c.name, SharesWorkload: true}
	beating, rest := context.WithCancel(ctx)
	defer rest()
	go (&kubelets{told: events, registered: map[types.UID]bool{}}).run(beating)

	began, lived := time.Now(), map[string]bool{}
	for what, step := range steps(events, c) {
		if err := step(ctx); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		running, err := events.Machines(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range running {
			lived[m.Name] = true
			if what == "two machines run" || what == "two others run" {
				c.check(t, &m)
			}
		}
	}
	if left := c.left(t); len(left) > 0 {
		t.Errorf("the cloud still has %q", left)
	}
	calls := c.calls(t)
	t.Logf("%d machines lived in %s", len(lived), time.Since(began).Round(time.Second))
	for _, call := range slices.Sorted(maps.Keys(calls)) {
		t.Logf("%6.2f a machine: %s", float64(calls[call])/float64(len(lived)), call)
	}
	if len(lived) != 4 {
		t.Errorf("%d machines lived, want 4", len(lived))
	}
	for call, each := range c.budget {
		if got := calls[call]; got != each*len(lived) {
			t.Errorf("%s was called %d times for %d machines, want %d for each", call, got, len(lived), each)
		}
	}
	for call, each := range c.most {
		if got := calls[call]; got < len(lived) || got > each*len(lived) {
			t.Errorf("%s was called %d times for %d machines, want 1 to %d for each", call, got, len(lived), each)
		}
	}
	// An instance that changes is read now and then, so a slow computer reads more often.
	if got, most := calls[c.read], c.reads*len(lived)+int(time.Since(began)/pollPeriod); got > most {
		t.Errorf("%s was called %d times for %d machines, want %d at most", c.read, got, len(lived), most)
	}
}

// steps yields the workflow step by step.
func steps(events *workflow.Workflow, c *cloud) func(yield func(string, func(context.Context) error) bool) {
	use := func(size int) func(context.Context) error {
		return func(ctx context.Context) error {
			name := []string{c.name + "-one", c.name + "-two"}[size]
			if err := c.offer(ctx, events.Stack, events.Namespace, name, size); err != nil {
				return err
			}
			md := events.MachineDeployment()
			if err := events.Stack.ManagementClient.Get(ctx, client.ObjectKeyFromObject(md), md); err != nil {
				return err
			}
			before := md.DeepCopy()
			md.Spec.Template.Spec.InfrastructureRef.Kind, md.Spec.Template.Spec.InfrastructureRef.Name = c.kind, name
			return events.Stack.ManagementClient.Patch(ctx, md, client.MergeFrom(before))
		}
	}
	running := func(n int) func(context.Context) error {
		return func(ctx context.Context) error { return events.AwaitRunning(ctx, n) }
	}
	scale := func(n int32) func(context.Context) error {
		return func(ctx context.Context) error { return events.Scale(ctx, n) }
	}
	return func(yield func(string, func(context.Context) error) bool) {
		_ = yield("a Cluster and its MachineDeployment", func(ctx context.Context) error { return events.Create(ctx, 0) }) &&
			yield("a template", use(0)) && yield("two are wanted", scale(2)) && yield("two machines run", running(2)) &&
			yield("another template", use(1)) && yield("two others run", running(2)) &&
			yield("none is wanted", scale(0)) && yield("none is left", running(0)) &&
			yield("the Cluster is deleted", events.Delete) && yield("nothing is left", events.AwaitNothingLeft)
	}
}

// check compares the status of a running machine.
func (c *cloud) check(t *testing.T, m *clusterv1.Machine) {
	t.Helper()
	if !c.providerID.MatchString(m.Spec.ProviderID) {
		t.Errorf("Machine %s has providerID %q, want %s", m.Name, m.Spec.ProviderID, c.providerID)
	}
	internal := slices.ContainsFunc(m.Status.Addresses, func(a clusterv1.MachineAddress) bool { return a.Type == clusterv1.MachineInternalIP })
	if !internal && c.name != "vsphere" { // whose addresses VMware Tools would report
		t.Errorf("Machine %s has no internal address: %+v", m.Name, m.Status.Addresses)
	}
}
