// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"drover.io/kubectl-drover/internal/check"
	"drover.io/runtime/envtest"
)

var serverVersion = regexp.MustCompile(`version v[0-9.]+`)

// TestCheck has an installation in which several things are wrong.
func TestCheck(t *testing.T) {
	t.Parallel()
	namespaceNamed(t, "check")
	apply(t, "testdata/check.yaml", "check")
	c := management.Client(t)
	objects := []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "drover-machine-controller"}},
		manager("drover-machine-controller", "v0.2.0"), manager("drover-bootstrap", "v0.1.0"),
		lease("drover-machine-controller", noon.Add(-5*time.Second)), lease("drover-bootstrap", noon.Add(-time.Hour)),
		kubeconfigSecret(t, "prod", noon.Add(72*time.Hour)), kubeconfigSecret(t, "old", noon.Add(-72*time.Hour)),
	}
	for _, o := range objects {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	running := manager("drover-machine-controller", "v0.2.0")
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(running), running); err != nil {
		t.Fatal(err)
	}
	running.Status = appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
	writeStatus(t, running)
	args := []string{"check", "--namespace", "check", "--this-namespace", "--installed-in", "check"}
	got := run(t, admin(t, management), args...)
	golden(t, "testdata/check.txt", fmt.Sprintf("%s%sexit code %d\n", serverVersion.ReplaceAllString(got.out, "version VERSION"), got.err, got.code))
	structured := run(t, admin(t, management), append(args, "-o", "json")...)
	var results []check.Result
	if err := json.Unmarshal([]byte(structured.out), &results); err != nil || structured.code != ExitProblem || check.NoneFailed(results) {
		t.Errorf("as JSON: exit code %d, error %v, output %s", structured.code, err, structured.out)
	}
	for _, secret := range []string{"PRIVATE KEY", "BEGIN CERTIFICATE", "LS0tLS1"} {
		if strings.Contains(got.out+structured.out, secret) {
			t.Errorf("the output has %q of a Secret", secret)
		}
	}
}

// TestCheckOfARelease has an installation as the chart of a release makes it, after a provider was removed: the names of its
// ClusterRoles end with the namespace, each image has a digest of its own, and the Lease of the provider stays behind.
func TestCheckOfARelease(t *testing.T) {
	t.Parallel()
	namespaceNamed(t, "check-release")
	c := management.Client(t)
	for _, name := range []string{"drover-machine-controller", "drover-bootstrap"} {
		content, err := os.ReadFile("../check/roles/" + strings.TrimPrefix(name, "drover-") + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		role := &rbacv1.ClusterRole{}
		if err := yaml.Unmarshal(content, role); err != nil {
			t.Fatal(err)
		}
		role.Name += ":check-release"
		running := managerIn("check-release", name, "v0.1.0@sha256:"+strings.Repeat(fmt.Sprint(len(name)%10), 64))
		sidecar := corev1.Container{Name: "proxy", Image: "registry.example.org/proxy:v9"}
		running.Spec.Template.Spec.Containers = append(running.Spec.Template.Spec.Containers, sidecar)
		for _, o := range []client.Object{role, running, leaseIn("check-release", name, noon.Add(-5*time.Second))} {
			if err := c.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		running.Status = appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
		writeStatus(t, running)
	}
	if err := c.Create(t.Context(), leaseIn("check-release", "drover-infra-aws", noon.Add(-time.Hour))); err != nil {
		t.Fatal(err)
	}
	args := []string{"check", "--namespace", "check-release", "--this-namespace", "--installed-in", "check-release"}
	if got := run(t, admin(t, management), args...); got.code != ExitOK || !strings.Contains(got.out, " ok, 0 warnings, 0 failed, 0 not checked\n") {
		t.Errorf("exit code %d, output %s, error %q", got.code, got.out, got.err)
	}
	role := &rbacv1.ClusterRole{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "drover-bootstrap:check-release"}, role); err != nil {
		t.Fatal(err)
	}
	role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "events") })
	if err := c.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	want := "warning  roles: ClusterRole drover-bootstrap:check-release does not permit what drover-bootstrap of this release does: create events.events.k8s.io, patch events.events.k8s.io\n"
	if got := run(t, admin(t, management), args...); got.code != ExitOK || !strings.Contains(got.out, want) {
		t.Errorf("a role that lacks a permission: exit code %d, output %s, error %q", got.code, got.out, got.err)
	}
}

// TestCheckWithoutDrover has an API server without the kinds.
func TestCheckWithoutDrover(t *testing.T) {
	t.Parallel()
	got := run(t, admin(t, empty), "check")
	if got.code != ExitProblem || !strings.Contains(got.out, "failed   kinds: ") || !strings.Contains(got.out, "install Drover, or choose another cluster with --context") {
		t.Errorf("exit code %d, output %q, error %q", got.code, got.out, got.err)
	}
}

func manager(name, version string) *appsv1.Deployment { return managerIn("check", name, version) }

func managerIn(namespace, name, version string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	d.Spec.Template.Labels = map[string]string{"app": name}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Image: "registry.example.org:5000/drover/" + name + ":" + version}}
	return d
}

func lease(name string, renewed time.Time) *coordinationv1.Lease {
	return leaseIn("check", name, renewed)
}

func leaseIn(namespace, name string, renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: renewed}, LeaseDurationSeconds: new(int32(15)), HolderIdentity: new("pod")},
	}
}

// kubeconfigSecret is the kubeconfig of a Cluster with a client certificate that ends at a time.
func kubeconfigSecret(t *testing.T, cluster string, end time.Time) *corev1.Secret {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "drover"}, NotBefore: end.AddDate(-1, 0, 0), NotAfter: end}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	content, err := envtest.Kubeconfig(&rest.Config{Host: "https://127.0.0.1:1", TLSClientConfig: rest.TLSClientConfig{
		CertData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		KeyData:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "check", Name: cluster + "-kubeconfig"}, Data: map[string][]byte{"value": content}}
}
