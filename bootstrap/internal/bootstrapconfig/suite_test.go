// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/checksum"
	"drover.io/bootstrap/internal/testenv"
	"drover.io/bootstrap/internal/workload"
	"drover.io/runtime/claim"
	"drover.io/runtime/envtest"
	"drover.io/runtime/logtest"
)

// Shared by all tests of this package: one management cluster with the controller running under the RBAC that
// ships with it, one without a controller, and one workload cluster.
var (
	management, unmanaged, workloads *testenv.Cluster
	logs                             = &logtest.Recorder{Verbosity: 7}
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx, cancel := context.WithCancel(context.Background())
	err := startClusters()
	stopped := make(chan error, 1)
	if err == nil {
		err = startManager(ctx, stopped)
	}
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		stopped <- nil
	}
	if err == nil {
		err = assertKept(ctx)
	}
	cancel()
	err = errors.Join(err, <-stopped)
	for _, c := range []*testenv.Cluster{management, unmanaged, workloads} {
		if c != nil {
			err = errors.Join(err, c.Stop())
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func startClusters() (err error) {
	if management, err = testenv.StartManagement(); err != nil {
		return err
	}
	if unmanaged, err = testenv.StartManagement(); err != nil {
		return err
	}
	workloads, err = testenv.StartWorkload()
	return err
}

func startManager(ctx context.Context, stopped chan<- error) error {
	ctrl.SetLogger(logs.Logger())
	s, err := envtest.Scheme()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(management.Manager(), ctrl.Options{Scheme: s, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	reconciler := &Reconciler{
		Client:       mgr.GetClient(),
		Live:         mgr.GetAPIReader(),
		Connections:  workload.NewConnections(mgr.GetAPIReader(), clock.RealClock{}),
		Claims:       &claim.Reader{Management: mgr.GetAPIReader(), Namespace: "drover-system"},
		Events:       mgr.GetEventRecorder("drover-bootstrap"),
		Clock:        clock.RealClock{},
		NewToken:     made.next,
		ReadChecksum: checksum.Read,
		Workers:      4,
	}
	if err := reconciler.Register(mgr); err != nil {
		return err
	}
	go func() { stopped <- mgr.Start(ctx) }()
	return nil
}

// fixture is a namespace with a Cluster that machines can join.
type fixture struct {
	*gomega.WithT
	t         *testing.T
	namespace string
	cluster   *clusterv1.Cluster
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	f := newNamespace(t)
	f.kubeconfig(workloads.Kubeconfig)
	f.newCluster()
	return f
}

func newNamespace(t *testing.T) *fixture {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := management.Client.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(2 * time.Minute)
	g.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	return &fixture{WithT: g, t: t, namespace: namespace.Name}
}

func (f *fixture) create(object client.Object) {
	f.t.Helper()
	if err := management.Client.Create(f.t.Context(), object); err != nil {
		f.t.Fatalf("creating %T: %v", object, err)
	}
}

func (f *fixture) newCluster() {
	f.t.Helper()
	f.newClusterWithoutInfrastructure()
	f.infrastructureProvisioned()
}

func (f *fixture) newClusterWithoutInfrastructure() {
	f.t.Helper()
	f.cluster = &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: "c1", Namespace: f.namespace},
		Spec:       clusterv1.ClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "api.example.test", Port: 6443}},
	}
	f.create(f.cluster)
}

func (f *fixture) infrastructureProvisioned() {
	f.t.Helper()
	f.cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	if err := management.Client.Status().Update(f.t.Context(), f.cluster); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) kubeconfig(data []byte) {
	f.t.Helper()
	f.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "c1-kubeconfig", Namespace: f.namespace},
		Type:       clusterv1.ClusterSecretType,
		Data:       map[string][]byte{"value": data},
	})
}

func (f *fixture) machine(name string) *clusterv1.Machine {
	f.t.Helper()
	return f.machineOfVersion(name, "v1.36.3")
}

func (f *fixture) machineOfVersion(name, version string) *clusterv1.Machine {
	f.t.Helper()
	machine := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: f.namespace, Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"}},
		Spec: clusterv1.MachineSpec{
			ClusterName: "c1",
			Version:     version,
			Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: bootstrapv1.GroupVersion.Group, Kind: "BootstrapConfig", Name: name,
			}},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: "infrastructure.drover.io", Kind: "SimMachine", Name: name,
			},
		},
	}
	f.create(machine)
	return machine
}

// config makes the BootstrapConfig of a Machine as the core would: with the Machine as its owner when it is created.
func (f *fixture) config(machine *clusterv1.Machine, change func(*bootstrapv1.BootstrapConfig)) *bootstrapv1.BootstrapConfig {
	f.t.Helper()
	config := &bootstrapv1.BootstrapConfig{
		ObjectMeta: metav1.ObjectMeta{
			Name: machine.Name, Namespace: machine.Namespace, Labels: machine.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(machine, clusterv1.GroupVersion.WithKind("Machine"))},
		},
		Spec: bootstrapv1.BootstrapConfigSpec{OperatingSystem: bootstrapv1.Ubuntu},
	}
	if change != nil {
		change(config)
	}
	f.create(config)
	return config
}

func (f *fixture) get(object client.Object) error {
	return management.Client.Get(f.t.Context(), client.ObjectKeyFromObject(object), object)
}

// eventually waits until the condition has this status and reason, and returns its message.
func (f *fixture) eventually(config *bootstrapv1.BootstrapConfig, kind string, status metav1.ConditionStatus, reason string) string {
	f.t.Helper()
	var message string
	f.Eventually(func() string {
		if err := f.get(config); err != nil {
			return err.Error()
		}
		c := meta.FindStatusCondition(config.Status.Conditions, kind)
		if c == nil {
			return "no condition " + kind
		}
		message = c.Message
		if c.Status != status {
			return fmt.Sprintf("%s: %s: %s", c.Status, c.Reason, c.Message)
		}
		return c.Reason
	}).Should(gomega.Equal(reason))
	return message
}

func (f *fixture) eventuallyReady(config *bootstrapv1.BootstrapConfig) {
	f.t.Helper()
	f.eventually(config, clusterv1.ReadyCondition, metav1.ConditionTrue, bootstrapv1.DataSecretAvailableReason)
}

func (f *fixture) dataSecret(config *bootstrapv1.BootstrapConfig) *corev1.Secret {
	f.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: config.Name, Namespace: config.Namespace}}
	if err := f.get(secret); err != nil {
		f.t.Fatal(err)
	}
	return secret
}

// tokens are the bootstrap tokens of a Machine in the workload cluster.
func (f *fixture) tokens(machine *clusterv1.Machine) []corev1.Secret {
	f.t.Helper()
	list := &corev1.SecretList{}
	err := workloads.Client.List(f.t.Context(), list, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{bootstrapv1.MachineUIDLabel: string(machine.UID)})
	if err != nil {
		f.t.Fatal(err)
	}
	return list.Items
}

func (f *fixture) join(machine *clusterv1.Machine) {
	f.t.Helper()
	machine.Status.NodeRef.Name = machine.Name
	machine.Status.Initialization.InfrastructureProvisioned = new(true)
	if err := management.Client.Status().Update(f.t.Context(), machine); err != nil {
		f.t.Fatal(err)
	}
}
