// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/token"
	"drover.io/bootstrap/internal/workload"
	"drover.io/runtime/envtest"
)

// env is a Reconciler with the clock of a test, whose writes are counted. No other one reconciles its
// BootstrapConfig: it has a management cluster without a manager.
type env struct {
	*Reconciler
	t       *testing.T
	clock   *clocktesting.FakeClock
	machine *clusterv1.Machine
	config  *bootstrapv1.BootstrapConfig
	events  chan string
	writes  int
}

func newEnv(t *testing.T, kubeconfig []byte) *env {
	t.Helper()
	t.Parallel()
	return another(t, kubeconfig)
}

// another is one in a test that runs in parallel already.
func another(t *testing.T, kubeconfig []byte) *env {
	t.Helper()
	scheme, err := envtest.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.NewWithWatch(unmanaged.Admin, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "clock-"}}
	labels := map[string]string{clusterv1.ClusterNameLabel: "c1"}
	cluster := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: "c1"},
		Spec:       clusterv1.ClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "api.example.test", Port: 6443}},
	}
	b := &env{t: t, clock: clocktesting.NewFakeClock(time.Now())}
	b.machine = &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Name: "m1", Labels: labels},
		Spec: clusterv1.MachineSpec{
			ClusterName: "c1", Version: "v1.36.3",
			Bootstrap:         clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group, Kind: "BootstrapConfig", Name: "m1"}},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "things.test", Kind: "Thing", Name: "m1"},
		},
	}
	b.config = &bootstrapv1.BootstrapConfig{
		ObjectMeta: metav1.ObjectMeta{Name: "m1", Labels: labels},
		Spec:       bootstrapv1.BootstrapConfigSpec{OperatingSystem: bootstrapv1.Ubuntu},
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "c1-kubeconfig"}, Data: map[string][]byte{"value": kubeconfig}}
	create := func(object client.Object) {
		t.Helper()
		object.SetNamespace(namespace.Name)
		if err := api.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	create(namespace)
	create(cluster)
	create(secret)
	create(b.machine)
	b.config.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(b.machine, clusterv1.GroupVersion.WithKind("Machine"))}
	create(b.config)
	cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	if err := api.Status().Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	c := interceptor.NewClient(api, b.count())
	recorder := events.NewFakeRecorder(10)
	b.events = recorder.Events
	b.Reconciler = &Reconciler{
		Client: c, Live: c, Connections: workload.NewConnections(c, b.clock),
		Events: recorder, Clock: b.clock, NewToken: token.New,
	}
	return b
}

func (b *env) count() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			b.writes++
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			b.writes++
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			b.writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}
}

// reconcile runs once and returns when to look again, and how many writes it took.
func (b *env) reconcile() (time.Duration, int) {
	b.t.Helper()
	b.writes = 0
	if err := b.Client.Get(b.t.Context(), client.ObjectKeyFromObject(b.config), b.config); err != nil {
		b.t.Fatal(err)
	}
	result, err := b.Reconcile(b.t.Context(), b.config.DeepCopy())
	if err != nil {
		b.t.Fatal(err)
	}
	return result.RequeueAfter, b.writes
}

func (b *env) token() *corev1.Secret {
	b.t.Helper()
	list := &corev1.SecretList{}
	if err := workloads.Client.List(b.t.Context(), list, client.MatchingLabels{bootstrapv1.MachineUIDLabel: string(b.machine.UID)}); err != nil {
		b.t.Fatal(err)
	}
	if len(list.Items) != 1 {
		b.t.Fatalf("%d tokens, want 1", len(list.Items))
	}
	return &list.Items[0]
}

func (b *env) expires() time.Time {
	b.t.Helper()
	at, err := time.Parse(time.RFC3339, string(b.token().Data["expiration"]))
	if err != nil {
		b.t.Fatal(err)
	}
	return at
}

func (b *env) ready(kind string) metav1.Condition {
	b.t.Helper()
	if err := b.Client.Get(b.t.Context(), client.ObjectKeyFromObject(b.config), b.config); err != nil {
		b.t.Fatal(err)
	}
	c := meta.FindStatusCondition(b.config.Status.Conditions, kind)
	if c == nil {
		return metav1.Condition{}
	}
	return metav1.Condition{Status: c.Status, Reason: c.Reason}
}

func TestCountsItsWrites(t *testing.T) {
	b := newEnv(t, workloads.Kubeconfig)
	if _, writes := b.reconcile(); writes != 3 {
		t.Errorf("%d writes to make the data, want 3: finalizer, data Secret, status", writes)
	}
	if _, writes := b.reconcile(); writes != 0 {
		t.Errorf("%d writes when nothing has changed, want none", writes)
	}
	b.machine.Status.NodeRef.Name = "m1"
	if err := b.Client.Status().Update(t.Context(), b.machine); err != nil {
		t.Fatal(err)
	}
	if next, writes := b.reconcile(); writes != 1 || next != 0 {
		t.Errorf("%d writes when the Node has joined, want 1: finalizer; look again after %s, want never", writes, next)
	}
	if next, writes := b.reconcile(); writes != 0 || next != 0 {
		t.Errorf("%d writes after that, want none; look again after %s, want never", writes, next)
	}
}

func TestTokenIsRenewedOnlyWhileItIsNeeded(t *testing.T) {
	b := newEnv(t, workloads.Kubeconfig)
	next, _ := b.reconcile()
	if want := 15 * time.Minute; next != want {
		t.Errorf("looks again after %s, want %s", next, want)
	}
	first := b.expires()
	b.clock.Step(14 * time.Minute)
	b.reconcile()
	if got := b.expires(); !got.Equal(first) {
		t.Errorf("renewed before half of its time: %s, then %s", first, got)
	}
	b.clock.Step(2 * time.Minute)
	b.reconcile()
	if got := b.expires().Sub(first); got < 15*time.Minute {
		t.Errorf("renewed by %s, want 16m", got)
	}

	secret := b.token()
	if err := workloads.Client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	b.clock.Step(time.Hour)
	b.reconcile()
	if got := b.token(); got.Name != secret.Name || !cmp.Equal(got.Data["token-secret"], secret.Data["token-secret"]) {
		t.Error("the token that expired was not made again as the host has it")
	}

	last := b.expires()
	meta.SetStatusCondition(&b.machine.Status.Conditions, metav1.Condition{Type: clusterv1.MachineInfrastructureReadyCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineInfrastructureDeletedReason})
	if err := b.Client.Status().Update(t.Context(), b.machine); err != nil {
		t.Fatal(err)
	}
	b.clock.Step(time.Hour)
	b.reconcile()
	if got := b.expires(); !got.Equal(last) {
		t.Error("renewed although the instance is gone")
	}
}

func TestDeletionDoesNotWaitForAnUnreachableCluster(t *testing.T) {
	b := newEnv(t, changed(t, func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = "https://" + closedPort(t) }))
	if err := b.setFinalizer(t.Context(), b.config, true); err != nil {
		t.Fatal(err)
	}
	if err := b.Client.Delete(t.Context(), b.config); err != nil {
		t.Fatal(err)
	}
	if next, _ := b.reconcile(); next == 0 {
		t.Error("gave up at once, want another try")
	}
	b.clock.Step(time.Minute)
	b.reconcile()
	if err := b.Client.Get(t.Context(), client.ObjectKeyFromObject(b.config), b.config); !apierrors.IsNotFound(err) {
		t.Errorf("err = %v, want the BootstrapConfig to be gone", err)
	}
	select {
	case <-b.events:
	default:
		t.Error("no event reports that the token is left to expire")
	}
}

func TestUnreachableClusterIsTriedWithBackoff(t *testing.T) {
	b := newEnv(t, changed(t, func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = "https://" + closedPort(t) }))
	first, writes := b.reconcile()
	if writes != 3 {
		t.Errorf("%d writes, want 3: finalizer, data Secret, status", writes)
	}
	want := metav1.Condition{Status: metav1.ConditionFalse, Reason: bootstrapv1.ClusterUnreachableReason}
	if diff := cmp.Diff(want, b.ready(clusterv1.ReadyCondition)); diff != "" {
		t.Errorf("Ready (-want +got):\n%s", diff)
	}
	b.clock.Step(first)
	second, writes := b.reconcile()
	if second <= first || writes != 0 {
		t.Errorf("requeued after %s, then %s, with %d writes; want longer and none", first, second, writes)
	}
}

func TestTokenIsReplacedWhenItsIDIsTaken(t *testing.T) {
	b := newEnv(t, workloads.Kubeconfig)
	taken := token.Token{ID: "taken1", Secret: "0123456789abcdef"}
	other := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-taken1", Namespace: metav1.NamespaceSystem},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{"token-id": "taken1", "token-secret": "fedcba9876543210"},
	}
	if err := workloads.Client.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	b.NewToken = func() (token.Token, error) { return taken, nil }
	if _, err := b.Reconcile(t.Context(), b.config.DeepCopy()); err == nil {
		t.Fatal("used an id that is taken")
	}
	b.NewToken = token.New
	b.reconcile()
	if got := b.token(); got.Name == other.Name {
		t.Error("uses the token of another")
	}
	if err := workloads.Client.Get(t.Context(), types.NamespacedName{Namespace: other.Namespace, Name: other.Name}, other); err != nil || string(other.Data["token-secret"]) != "fedcba9876543210" {
		t.Errorf("the token of another was changed: %v", err)
	}
}

// TestUnpublishedDataFollowsCorrections has a kubeconfig with the CA of another API server, which is corrected before the data is
// published: a host that boots with the old one would never join.
func TestUnpublishedDataFollowsCorrections(t *testing.T) {
	b := newEnv(t, changed(t, func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
		c.CertificateAuthorityData = management.Admin.CAData
	}))
	data := func() *corev1.Secret {
		t.Helper()
		secret := &corev1.Secret{}
		if err := b.Client.Get(t.Context(), client.ObjectKeyFromObject(b.config), secret); err != nil {
			t.Fatal(err)
		}
		return secret
	}
	b.reconcile()
	before := data()
	if _, writes := b.reconcile(); writes != 0 || data().UID != before.UID {
		t.Errorf("%d writes while nothing is corrected, want none", writes)
	}
	kubeconfig := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.config.Namespace, Name: "c1-kubeconfig"}}
	kubeconfig.Data = map[string][]byte{"value": workloads.Kubeconfig}
	if err := b.Client.Update(t.Context(), kubeconfig); err != nil {
		t.Fatal(err)
	}
	b.reconcile()
	if got := b.ready(clusterv1.ReadyCondition); got.Status != metav1.ConditionTrue {
		t.Fatalf("Ready is %v", got)
	}
	after := data()
	if bytes.Equal(before.Data["value"], after.Data["value"]) || string(before.Data["token"]) != string(after.Data["token"]) {
		t.Error("the data that is published is what was written before the correction, or has another token")
	}
	if b.reconcile(); data().UID != after.UID {
		t.Error("data that was published is written again")
	}
}

// TestAccessIsCheckedPeriodically: a workload cluster may be restored from a backup that is older than the bindings by which hosts request
// certificates.
func TestAccessIsCheckedPeriodically(t *testing.T) {
	b := newEnv(t, workloads.Kubeconfig)
	known := func() bool {
		t.Helper()
		connection, err := b.Connections.Get(t.Context(), client.ObjectKey{Namespace: b.config.Namespace, Name: "c1"})
		if err != nil {
			t.Fatal(err)
		}
		return !connection.CheckDue(accessCheck + string(b.config.Spec.Join.Method))
	}
	b.reconcile()
	if !known() {
		t.Error("it is not known after the first token")
	}
	b.clock.Step(accessPeriod)
	if known() {
		t.Errorf("it is accepted after %s", accessPeriod)
	}
	b.reconcile()
	if !known() {
		t.Error("it was not looked at again")
	}
}
