// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/token"
	"drover.io/runtime/envtest"
)

func TestTokenIsDeletedOnceTheNodeHasJoined(t *testing.T) {
	f := newFixture(t)
	machine := f.machine("m1")
	config := f.config(machine, nil)
	f.eventuallyReady(config)

	if config.Status.DataSecretName != "m1" || !ptr.Deref(config.Status.Initialization.DataSecretCreated, false) {
		t.Errorf("status = %+v, want dataSecretName m1 and dataSecretCreated", config.Status)
	}
	secret := f.dataSecret(config)
	want := metav1.ObjectMeta{
		Labels:          map[string]string{clusterv1.ClusterNameLabel: "c1"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(config, bootstrapv1.GroupVersion.WithKind("BootstrapConfig"))},
	}
	if diff := cmp.Diff(want, metav1.ObjectMeta{Labels: secret.Labels, OwnerReferences: secret.OwnerReferences}); diff != "" {
		t.Errorf("metadata of the data Secret (-want +got):\n%s", diff)
	}
	if secret.Type != clusterv1.ClusterSecretType || string(secret.Data["format"]) != "cloud-config" {
		t.Errorf("data Secret has type %q and format %q", secret.Type, secret.Data["format"])
	}
	tok, ok := token.Parse(string(secret.Data["token"]))
	value := string(secret.Data["value"])
	if !ok || !strings.Contains(value, tok.Value()) || !strings.Contains(value, "server: https://api.example.test:6443") {
		t.Fatal("the bootstrap data does not hold the token and the endpoint")
	}
	if !strings.Contains(string(secret.Data["redact"]), tok.Value()) {
		t.Errorf("the token is not in the list of secrets: %q", secret.Data["redact"])
	}
	if got, want := identity(t, tok), []string{"system:bootstrappers", token.Group, "system:authenticated"}; !cmp.Equal(got, want) {
		t.Errorf("groups of the token's holder = %v, want %v", got, want)
	}

	f.join(machine)
	f.Eventually(func() []string { f.Expect(f.get(config)).To(gomega.Succeed()); return config.Finalizers }).Should(gomega.BeEmpty())
	if left := f.tokens(machine); len(left) != 0 {
		t.Errorf("%d tokens are left after the Node has joined", len(left))
	}
	f.Expect(management.Client.Delete(t.Context(), config)).To(gomega.Succeed())
	f.Eventually(func() bool { return apierrors.IsNotFound(f.get(config)) }).Should(gomega.BeTrue())
}

// identity returns whom the workload cluster authenticates by a token.
func identity(t *testing.T, tok token.Token) []string {
	t.Helper()
	config := rest.AnonymousClientConfig(workloads.Admin)
	config.BearerToken = tok.Value()
	reviews := authorizationv1.ResourceAttributes{Group: authenticationv1.GroupName, Resource: "selfsubjectreviews", Verb: "create"}
	if err := envtest.AwaitAccess(t.Context(), config, reviews); err != nil {
		t.Fatal(err)
	}
	s, err := envtest.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.UserInfo.Groups
}

func TestDataIsReusedAfterACrash(t *testing.T) {
	f := newFixture(t)
	machine := f.machine("m1")
	config := f.config(machine, func(c *bootstrapv1.BootstrapConfig) {
		c.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	})
	f.eventually(config, clusterv1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason)
	written := f.leftData(config, "abcdef.0123456789abcde1")

	f.Expect(f.get(config)).To(gomega.Succeed())
	config.Annotations = nil
	f.Expect(management.Client.Update(t.Context(), config)).To(gomega.Succeed())
	f.eventuallyReady(config)

	if got := f.dataSecret(config); got.UID == written.UID || string(got.Data["token"]) != "abcdef.0123456789abcde1" {
		t.Error("the unpublished data Secret is not what the spec requests, with the same token")
	}
	if got := f.tokens(machine); len(got) != 1 || string(got[0].Data["token-secret"]) != "0123456789abcde1" {
		t.Errorf("%d tokens, want exactly the one of the data Secret", len(got))
	}
}

// leftData is the data Secret of a controller that crashed before dataSecretName was set.
func (f *fixture) leftData(config *bootstrapv1.BootstrapConfig, tok string) *corev1.Secret {
	f.t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: config.Name, Namespace: config.Namespace, Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(config, bootstrapv1.GroupVersion.WithKind("BootstrapConfig"))},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{"value": []byte("#cloud-config\n"), "format": []byte("cloud-config"), "token": []byte(tok)},
	}
	f.create(secret)
	return secret
}

func TestStatusIsRebuiltAfterAMove(t *testing.T) {
	f := newFixture(t)
	machine := f.machine("m1")
	machine.Spec.Bootstrap.DataSecretName = new("m1")
	f.Expect(management.Client.Update(t.Context(), machine)).To(gomega.Succeed())
	f.join(machine)
	config := f.config(machine, nil)
	f.eventuallyReady(config)

	if config.Status.DataSecretName != "m1" {
		t.Errorf("dataSecretName = %q, want m1", config.Status.DataSecretName)
	}
	if got := f.tokens(machine); len(got) != 0 {
		t.Errorf("%d tokens were made for a Machine that has joined", len(got))
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "m1", Namespace: f.namespace}}
	if err := f.get(secret); !apierrors.IsNotFound(err) {
		t.Errorf("new data was made for a Machine that has joined: %v", err)
	}
}

func TestTokenOfAMachineThatNeverJoinedIsDeleted(t *testing.T) {
	f := newFixture(t)
	machine := f.machine("m1")
	config := f.config(machine, nil)
	f.eventuallyReady(config)
	if got := f.tokens(machine); len(got) != 1 {
		t.Fatalf("%d tokens, want 1", len(got))
	}
	f.Expect(management.Client.Delete(t.Context(), config)).To(gomega.Succeed())
	f.Eventually(func() bool { return apierrors.IsNotFound(f.get(config)) }).Should(gomega.BeTrue())
	if left := f.tokens(machine); len(left) != 0 {
		t.Errorf("%d tokens are left", len(left))
	}
}

func TestDeletionSucceedsWithoutClusterAndKubeconfig(t *testing.T) {
	for name, gone := range map[string]func(*fixture) client.Object{
		"Cluster": func(f *fixture) client.Object { return f.cluster },
		"kubeconfig": func(f *fixture) client.Object {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "c1-kubeconfig", Namespace: f.namespace}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			config := f.config(f.machine("m1"), nil)
			f.eventuallyReady(config)
			f.Expect(management.Client.Delete(t.Context(), gone(f))).To(gomega.Succeed())
			f.Expect(management.Client.Delete(t.Context(), config)).To(gomega.Succeed())
			f.Eventually(func() bool { return apierrors.IsNotFound(f.get(config)) }).Should(gomega.BeTrue())
		})
	}
}

func TestMachineThatIsBeingDeletedGetsNoData(t *testing.T) {
	t.Parallel()
	f := newNamespace(t)
	f.kubeconfig(workloads.Kubeconfig)
	f.newClusterWithoutInfrastructure()
	machine := f.machine("m1")
	machine.Finalizers = []string{"example.test/keep"}
	f.Expect(management.Client.Update(t.Context(), machine)).To(gomega.Succeed())
	config := f.config(machine, nil)
	f.eventually(config, clusterv1.ReadyCondition, metav1.ConditionFalse, bootstrapv1.WaitingForClusterReason)
	f.Expect(management.Client.Delete(t.Context(), machine)).To(gomega.Succeed())
	f.eventually(config, clusterv1.ReadyCondition, metav1.ConditionFalse, bootstrapv1.WaitingForMachineReason) // the controller has seen it
	f.infrastructureProvisioned()
	if got := f.tokens(machine); len(got) != 0 || len(config.Finalizers) != 0 {
		t.Errorf("%d tokens and finalizers %v, want none", len(got), config.Finalizers)
	}
}
