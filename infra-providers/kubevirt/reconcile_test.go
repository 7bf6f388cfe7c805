// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt_test

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	virtv1 "kubevirt.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/providertest"
	"drover.io/infra-providers/internal/testenv"
	"drover.io/infra-providers/kubevirt"
	"drover.io/runtime/envtest"
)

// user is one of the infrastructure cluster who has the role for virtual machines in one namespace, and nothing else.
func (e *env) user() *rest.Config {
	e.t.Helper()
	content, err := os.ReadFile("../config/rbac/kubevirt/virtual_machines_role.yaml")
	if err != nil {
		e.t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.Unmarshal(content, role); err != nil {
		e.t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "drover-" + e.namespace}},
	}
	if err := e.api.Create(context.Background(), role); err != nil && !apierrors.IsAlreadyExists(err) {
		e.t.Fatal(err)
	}
	if err := e.api.Create(context.Background(), binding); err != nil {
		e.t.Fatal(err)
	}
	config, err := infra.AddUser("drover-" + e.namespace)
	if err != nil {
		e.t.Fatal(err)
	}
	return config
}

// serve runs the provider for a namespace of its own in the management cluster.
func (e *env) serve() *testenv.Harness {
	e.t.Helper()
	h := shared.NewHarness(e.t, "kubevirt")
	options := e.options()
	options.Own = nil
	providertest.Run(e.t, shared.Provider(e.t), h.Home.Namespace, kubevirt.Cloud(options))
	return h
}

// secret returns a Secret with the kubeconfig of a user.
func (e *env) secret(name string, config *rest.Config) *corev1.Secret {
	e.t.Helper()
	content, err := envtest.Kubeconfig(config)
	if err != nil {
		e.t.Fatal(err)
	}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"value": content}}
}

func newMachine(h *testenv.Harness, name string, spec infrav1.KubeVirtMachineSpec) *infrav1.KubeVirtMachine {
	machine := &infrav1.KubeVirtMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	h.CreateMachine(machine, "")
	return machine
}

// TestReconcileMachine follows a machine through its life under the roles that are shipped: in the management cluster, and in
// the namespace of the infrastructure cluster. It is migrated, which its Node does not notice, and its node is drained, which
// its Machine has to be replaced for.
func TestReconcileMachine(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.createSources()
	s := e.serve()
	user := e.user()
	s.Create(e.secret("infra", user))
	spec := fullSpec()
	spec.CredentialsSecretName, spec.Namespace, spec.Zone, spec.EvictionStrategy = "infra", e.namespace, "zone-a", "External"
	machine := newMachine(s, "worker-1", spec)
	s.WaitForReason(machine, infrav1.InstanceRunningReason)
	name := "drover-" + string(machine.UID)
	s.Expect(machine.Spec.ProviderID).To(gomega.Equal("kubevirt://" + name))
	s.Expect(machine.Status.FailureDomain).To(gomega.Equal("zone-a"))
	s.Expect(machine.Status.CloudAddresses).To(gomega.HaveLen(1))
	s.Expect(len(machine.Status.Addresses)).To(gomega.BeNumerically(">", 1), "the other networks are reported")
	before := machine.Status.DeepCopy()

	report := func(change func(*virtv1.VirtualMachine)) {
		vm := e.vm(name)
		change(vm)
		s.Expect(e.api.Status().Update(t.Context(), vm)).To(gomega.Succeed())
	}
	report(func(vm *virtv1.VirtualMachine) { vm.Status.PrintableStatus = virtv1.VirtualMachineStatusMigrating })
	e.poke(s, user)
	s.WaitForReason(machine, infrav1.InstanceRunningReason)
	if diff := cmp.Diff(before.Addresses, machine.Status.Addresses); diff != "" {
		t.Errorf("the migration changed the addresses (-before +after):\n%s", diff)
	}
	report(func(vm *virtv1.VirtualMachine) { vm.Status.PrintableStatus = virtv1.VirtualMachineStatusRunning })

	update(e, &virtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: name}}, func(vmi *virtv1.VirtualMachineInstance) {
		vmi.Status.EvacuationNodeName = "node-1"
	})
	e.poke(s, user)
	s.Expect(s.WaitForReason(machine, infrav1.EvictionRequestedReason)).To(gomega.ContainSubstring("node node-1 of the infrastructure cluster is drained"))
	s.Expect(machine.Status.InstanceState).To(gomega.Equal("Running"))

	s.Delete(machine)
	e.step()
	s.Expect(e.leftovers()).To(gomega.BeEmpty())
}

// poke makes the provider connect again and read the virtual machine itself, and not a list that is a minute old.
func (e *env) poke(h *testenv.Harness, config *rest.Config) {
	e.t.Helper()
	secret := e.secret("infra", config)
	e.pokes++
	secret.Data["value"] = append(secret.Data["value"], strings.Repeat("\n", e.pokes)...)
	h.Put(secret)
}

// TestReconcileInvalidMachine has machines with invalid credentials and specs, and deletes the latter: a Secret that cannot be used keeps a machine.
func TestReconcileInvalidMachine(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	s := e.serve()
	allowed := e.user()
	s.Create(e.secret("infra", allowed))
	nobody, err := infra.AddUser("nobody-" + e.namespace)
	s.Expect(err).NotTo(gomega.HaveOccurred())
	s.Create(e.secret("nobody", nobody))
	for name, test := range map[string]struct {
		change          func(*infrav1.KubeVirtMachineSpec)
		reason, message string
	}{
		"no-secret":           {func(s *infrav1.KubeVirtMachineSpec) { s.CredentialsSecretName = "missing" }, infrav1.UnauthorizedReason, `"missing" not found`},
		"no-permission":       {func(s *infrav1.KubeVirtMachineSpec) { s.CredentialsSecretName = "nobody" }, infrav1.UnauthorizedReason, "forbidden"},
		"another-namespace":   {func(s *infrav1.KubeVirtMachineSpec) { s.Namespace = "kube-system" }, infrav1.UnauthorizedReason, "forbidden"},
		"no-own-cluster":      {func(s *infrav1.KubeVirtMachineSpec) { s.CredentialsSecretName, s.Namespace = "", "" }, infrav1.UnauthorizedReason, "no cluster of its own"},
		"no-such-data-source": {func(s *infrav1.KubeVirtMachineSpec) { s.RootDisk = dataSource("none") }, infrav1.InvalidConfigurationReason, "spec.rootDisk.source.dataSource"},
		"no-such-pvc": {func(s *infrav1.KubeVirtMachineSpec) {
			s.RootDisk = infrav1.KubeVirtRootDisk{Source: infrav1.KubeVirtDiskSource{PersistentVolumeClaim: infrav1.KubeVirtVolumeReference{Name: "none"}}}
		}, infrav1.InvalidConfigurationReason, "spec.rootDisk.source.persistentVolumeClaim"},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.In(t)
			spec := minimalSpec()
			spec.CredentialsSecretName, spec.Namespace = "infra", e.namespace
			test.change(&spec)
			machine := newMachine(s, name, spec)
			s.Expect(s.WaitForReason(machine, test.reason)).To(gomega.ContainSubstring(test.message))
			if test.reason == infrav1.InvalidConfigurationReason {
				s.Delete(machine)
			}
		})
	}
	s.Expect(e.leftovers()).To(gomega.BeEmpty())
}

func dataSource(name string) infrav1.KubeVirtRootDisk {
	return infrav1.KubeVirtRootDisk{Source: infrav1.KubeVirtDiskSource{DataSource: infrav1.KubeVirtVolumeReference{Name: name}}}
}

// TestTemplateCapacity is what the autoscaler needs to scale up from zero.
func TestTemplateCapacity(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.createSources()
	s := e.serve()
	s.Create(e.secret("infra", e.user()))
	template := func(name string, change func(*infrav1.KubeVirtMachineSpec)) *infrav1.KubeVirtMachineTemplate {
		template := &infrav1.KubeVirtMachineTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
		template.Spec.Template.Spec = minimalSpec()
		template.Spec.Template.Spec.CredentialsSecretName, template.Spec.Template.Spec.Namespace = "infra", e.namespace
		change(&template.Spec.Template.Spec)
		s.Create(template)
		return template
	}
	typed := func(name string) func(*infrav1.KubeVirtMachineSpec) {
		return func(s *infrav1.KubeVirtMachineSpec) {
			s.CPU, s.MemoryMiB, s.Instancetype = infrav1.KubeVirtCPU{}, 0, infrav1.KubeVirtReference{Name: name, Scope: "Namespace"}
			s.Architecture, s.RootDisk = "arm64", dataSource("ubuntu")
			s.RootDisk.Storage.SizeGiB = 50
		}
	}
	for template, want := range map[*infrav1.KubeVirtMachineTemplate][]string{
		template("cpus", func(s *infrav1.KubeVirtMachineSpec) { s.CPU = infrav1.KubeVirtCPU{Cores: 2, Sockets: 3, Threads: 2} }): {"12", "4Gi", "0", "amd64"},
		template("instancetype", typed("large")): {"4", "8Gi", "50Gi", "arm64"},
		template("none", typed("none")):          nil,
	} {
		s.Eventually(func(g gomega.Gomega) {
			s.Fetch(g, template)
			ready := meta.FindStatusCondition(template.Status.Conditions, clusterv1.ReadyCondition)
			g.Expect(ready).NotTo(gomega.BeNil())
			if want == nil {
				g.Expect(ready.Status).To(gomega.Equal(metav1.ConditionFalse))
				g.Expect(ready.Message).To(gomega.ContainSubstring("spec.instancetype"))
				return
			}
			g.Expect(ready.Status).To(gomega.Equal(metav1.ConditionTrue), ready.Message)
			capacity := template.Status.Capacity
			g.Expect([]string{capacity.Cpu().String(), capacity.Memory().String(), capacity.StorageEphemeral().String(), template.Status.NodeInfo.Architecture}).To(gomega.Equal(want))
		}).Should(gomega.Succeed())
	}
}

// TestConsoleNeedsItsPermission: without it, the rest works.
func TestConsoleNeedsItsPermission(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	d := e.connect()
	created, err := d.Create(t.Context(), e.request("1", newConfig(t, minimalSpec(), ""), "x"))
	if err != nil {
		t.Fatal(err)
	}
	e.step()
	e.wire.fail(fault{status: http.StatusForbidden, reason: metav1.StatusReasonForbidden}, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/log") })
	if _, err := d.(driver.ConsoleReader).Console(t.Context(), created.Identity); !driver.IsUnauthorized(err) {
		t.Errorf("got %v, want an UnauthorizedError", err)
	}
	if _, err := d.Get(t.Context(), created.Identity); err != nil {
		t.Errorf("the virtual machine is not read either: %v", err)
	}
}
