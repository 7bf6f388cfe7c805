// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"context"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

func TestInvalidSpecCreatesNoToken(t *testing.T) {
	cases := map[string]struct {
		secret *corev1.Secret
		change func(*bootstrapv1.BootstrapConfigSpec)
		field  string
	}{
		"data over the limit": {
			change: func(s *bootstrapv1.BootstrapConfigSpec) { s.MaxSizeBytes = new(int32(4096)) },
			field:  "spec.maxSizeBytes",
		},
		"a name that YAML cannot have": {
			change: func(s *bootstrapv1.BootstrapConfigSpec) {
				s.Kubelet.Configuration = &runtime.RawExtension{Raw: []byte(`{"` + strings.Repeat("x", 2_000) + `":1}`)}
			},
			field: "spec.kubelet.configuration",
		},
		"registry credentials that cannot be read": {
			secret: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "pull"}, Data: map[string][]byte{"key": []byte(`{"auths":{"registry.example.test":{"auth":"` + password + `"}}}`)}},
			change: func(s *bootstrapv1.BootstrapConfigSpec) {
				s.Containerd.RegistryCredentialsFrom = bootstrapv1.SecretKeyReference{Name: "pull", Key: "key"}
			},
			field: "spec.containerd.registryCredentialsFrom",
		},
		"registry credentials that are not there": {
			change: func(s *bootstrapv1.BootstrapConfigSpec) {
				s.Containerd.RegistryCredentialsFrom = bootstrapv1.SecretKeyReference{Name: "pull", Key: ".dockerconfigjson"}
			},
			field: "spec.containerd.registryCredentialsFrom",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			if c.secret != nil {
				c.secret.Namespace = f.namespace
				f.create(c.secret)
			}
			machine := f.machine("m1")
			config := f.config(machine, func(b *bootstrapv1.BootstrapConfig) { c.change(&b.Spec) })
			message := f.eventually(config, clusterv1.ReadyCondition, metav1.ConditionFalse, bootstrapv1.InvalidSpecReason)
			if !strings.HasPrefix(message, c.field+": ") || strings.Contains(message, password) {
				t.Errorf("message = %q, want it to begin with %s and to contain no secret", message, c.field)
			}
			if made := f.tokens(machine); len(made) > 0 {
				t.Errorf("%d tokens were made", len(made))
			}
			data := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: config.Name, Namespace: config.Namespace}}
			if err := f.get(data); !apierrors.IsNotFound(err) {
				t.Errorf("reading the data Secret: %v, want NotFound", err)
			}
		})
	}
}

// TestDataThatCannotBeWrittenIsReported: client-go accepts a bundle in which something else comes before the certificate.
func TestDataThatCannotBeWrittenIsReported(t *testing.T) {
	t.Parallel()
	f := newNamespace(t)
	config, err := clientcmd.Load(workloads.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, cluster := range config.Clusters {
		cluster.CertificateAuthorityData = append([]byte("-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"), cluster.CertificateAuthorityData...)
	}
	content, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	f.kubeconfig(content)
	f.newCluster()
	message := f.eventually(f.config(f.machine("m1"), nil), clusterv1.ReadyCondition, metav1.ConditionFalse, bootstrapv1.InvalidSpecReason)
	if !strings.HasPrefix(message, "certificate-authority-data of the Cluster's kubeconfig: ") {
		t.Errorf("message = %q", message)
	}
}

// TestCorrectedSecretIsUsed: Secrets are not watched.
func TestCorrectedSecretIsUsed(t *testing.T) {
	f := newFixture(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "pull", Namespace: f.namespace}, Data: map[string][]byte{"key": []byte("{}")}}
	f.create(secret)
	config := f.config(f.machine("m1"), func(b *bootstrapv1.BootstrapConfig) {
		b.Spec.Containerd.RegistryCredentialsFrom = bootstrapv1.SecretKeyReference{Name: "pull", Key: "key"}
	})
	f.eventually(config, clusterv1.ReadyCondition, metav1.ConditionFalse, bootstrapv1.InvalidSpecReason)
	secret.Data["key"] = []byte(`{"auths":{"registry.example.test":{"auth":"cHVsbGVyOmh1bnRlcjI="}}}`)
	if err := management.Client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	f.SetDefaultEventuallyTimeout(3 * poll)
	f.eventuallyReady(config)
}

// TestDataThatTheAPIServerRefusesIsReported has a namespace in which a ResourceQuota leaves no place for another Secret. No
// controller is running that would compute what is used.
func TestDataThatTheAPIServerRefusesIsReported(t *testing.T) {
	f := newFixture(t)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "tenant"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/secrets": resource.MustParse("1")}},
	}
	f.create(quota)
	quota.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: corev1.ResourceList{"count/secrets": resource.MustParse("1")}}
	f.Expect(management.Client.Status().Update(t.Context(), quota)).To(gomega.Succeed())
	another := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "another"}}
	f.Eventually(func() bool {
		return apierrors.IsForbidden(management.Client.Create(t.Context(), another.DeepCopy(), client.DryRunAll))
	}).Should(gomega.BeTrue())

	machine := f.machine("m1")
	config := f.config(machine, nil)
	message := f.eventually(config, clusterv1.ReadyCondition, metav1.ConditionFalse, bootstrapv1.RequestRefusedReason)
	if !strings.Contains(message, "exceeded quota: tenant") {
		t.Errorf("message = %q, want the quota", message)
	}
	if made := f.tokens(machine); len(made) > 0 {
		t.Errorf("%d tokens were made", len(made))
	}
	f.Expect(f.get(quota)).To(gomega.Succeed())
	quota.Status.Hard = corev1.ResourceList{"count/secrets": resource.MustParse("2")}
	f.Expect(management.Client.Status().Update(t.Context(), quota)).To(gomega.Succeed())
	f.SetDefaultEventuallyTimeout(3 * poll)
	f.eventuallyReady(config)
}

// TestTokenThatAPolicyRefusesIsReported: API servers answer with another status than for a missing permission.
func TestTokenThatAPolicyRefusesIsReported(t *testing.T) {
	f := newFixture(t)
	machine := f.machine("m1")
	token := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceSystem, Name: "refused-token", Labels: map[string]string{bootstrapv1.MachineUIDLabel: string(machine.UID)},
	}}
	meta := metav1.ObjectMeta{Name: "no-tokens-" + f.namespace}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{
			ObjectSelector: &metav1.LabelSelector{MatchLabels: token.Labels},
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
			}}},
		},
		Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "no bootstrap tokens here"}},
	}}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: meta.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
	}}
	for _, object := range []client.Object{policy, binding} {
		f.Expect(workloads.Client.Create(t.Context(), object)).To(gomega.Succeed())
		t.Cleanup(func() { _ = workloads.Client.Delete(context.Background(), object) })
	}
	f.Eventually(func() bool {
		return apierrors.IsInvalid(workloads.Client.Create(t.Context(), token.DeepCopy(), client.DryRunAll))
	}).Should(gomega.BeTrue())

	config := f.config(machine, nil)
	message := f.eventually(config, clusterv1.ReadyCondition, metav1.ConditionFalse, bootstrapv1.ClusterForbiddenReason)
	if !strings.Contains(message, "no bootstrap tokens here") {
		t.Errorf("message = %q, want that of the policy", message)
	}
}
