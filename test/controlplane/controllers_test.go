// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/certificate/csr"
)

func TestBootstrapTokenJoinsANode(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	admin := adminClient(t, c)
	bindBootstrappers(t, admin)
	createToken(t, admin, "joiner", time.Now().Add(time.Hour))

	joining := clientFor(t, withoutCertificate(c, func(config *rest.Config) { config.BearerToken = "joiner.0123456789abcdef" }))
	eventually(t, "the token may request certificates", func(ctx context.Context) error {
		get := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Group: certificatesv1.GroupName, Resource: "certificatesigningrequests", Verb: "create"},
		}}
		answer, err := joining.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, get, metav1.CreateOptions{})
		if err == nil && !answer.Status.Allowed {
			err = errors.New(answer.Status.Reason)
		}
		return err
	})
	key, cert := requestCertificate(t, joining, "system:node:n1")

	node := clientFor(t, withoutCertificate(c, func(config *rest.Config) { config.KeyData, config.CertData = key, cert }))
	if _, err := node.CoreV1().Nodes().Create(t.Context(), newNode("n1"), metav1.CreateOptions{}); err != nil {
		t.Errorf("registering its own Node: %v", err)
	}
	if _, err := node.CoreV1().Nodes().Create(t.Context(), newNode("n2"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("registering another Node: got %v, want forbidden", err)
	}
}

func TestExpiredBootstrapTokenIsCleaned(t *testing.T) {
	t.Parallel()
	admin := adminClient(t, sharedCluster(t))
	valid := createToken(t, admin, "valid0", time.Now().Add(time.Hour))
	expired := createToken(t, admin, "stale0", time.Now().Add(-time.Hour))

	secrets := admin.CoreV1().Secrets(metav1.NamespaceSystem)
	eventually(t, "the expired token is gone", func(ctx context.Context) error {
		_, err := secrets.Get(ctx, expired, metav1.GetOptions{})
		return absent(err)
	})
	if _, err := secrets.Get(t.Context(), valid, metav1.GetOptions{}); err != nil {
		t.Errorf("the valid token: %v", err)
	}
}

func TestOwnedObjectsAreCollected(t *testing.T) {
	t.Parallel()
	maps := adminClient(t, sharedCluster(t)).CoreV1().ConfigMaps("default")
	owner, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{
		*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap")),
	}}}
	free := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "free"}}
	for _, object := range []*corev1.ConfigMap{owned, free} {
		if _, err := maps.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := maps.Delete(t.Context(), "owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the owned object is gone", func(ctx context.Context) error {
		_, err := maps.Get(ctx, "owned", metav1.GetOptions{})
		return absent(err)
	})
	if _, err := maps.Get(t.Context(), "free", metav1.GetOptions{}); err != nil {
		t.Errorf("the object without an owner: %v", err)
	}
}

func TestEvictionRespectsADisruptionBudget(t *testing.T) {
	t.Parallel()
	admin := adminClient(t, sharedCluster(t))
	if _, err := admin.CoreV1().Nodes().Create(t.Context(), newNode("evictions"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	runPod(t, admin, "first")
	one := intstr.FromInt32(1)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "budget"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &one,
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"budget": "yes"}},
		},
	}
	if _, err := admin.PolicyV1().PodDisruptionBudgets("default").Create(t.Context(), budget, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitHealthy(t, admin, 1)
	if err := evict(t, admin, "first"); !apierrors.IsTooManyRequests(err) {
		t.Errorf("evicting the only Pod: got %v, want too many requests", err)
	}

	runPod(t, admin, "second")
	awaitHealthy(t, admin, 2)
	if err := evict(t, admin, "first"); err != nil {
		t.Errorf("evicting one of two Pods: %v", err)
	}
}

// bindBootstrappers allows bootstrap tokens to request certificates for Nodes
// and has those approved.
func bindBootstrappers(t *testing.T, admin kubernetes.Interface) {
	t.Helper()
	for _, role := range []string{"system:node-bootstrapper", "system:certificates.k8s.io:certificatesigningrequests:nodeclient"} {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "test:" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:bootstrappers"}},
		}
		if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// createToken creates a bootstrap token and returns the name of its Secret.
func createToken(t *testing.T, admin kubernetes.Interface, id string, expiration time.Time) string {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id":                       id,
			"token-secret":                   "0123456789abcdef",
			"expiration":                     expiration.UTC().Format(time.RFC3339),
			"usage-bootstrap-authentication": "true",
		},
	}
	if _, err := admin.CoreV1().Secrets(metav1.NamespaceSystem).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return secret.Name
}

// requestCertificate requests a kubelet's client certificate and waits until
// the controller manager has approved and signed it.
func requestCertificate(t *testing.T, client kubernetes.Interface, user string) (key, cert []byte) {
	t.Helper()
	private, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	if key, err = encodeKey(private); err != nil {
		t.Fatal(err)
	}
	request, err := certutil.MakeCSR(private, &pkix.Name{CommonName: user, Organization: []string{"system:nodes"}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	usages := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	name, uid, err := csr.RequestCertificateWithContext(ctx, client, request, "", certificatesv1.KubeAPIServerClientKubeletSignerName, nil, usages, private)
	if err != nil {
		t.Fatal(err)
	}
	cert, err = csr.WaitForCertificate(ctx, client, name, uid)
	if err != nil {
		t.Fatalf("waiting for the certificate of %s: %v", user, err)
	}
	return key, cert
}

// withoutCertificate returns a configuration with another proof of identity.
func withoutCertificate(c *ControlPlane, prove func(*rest.Config)) *rest.Config {
	config := c.AdminConfig()
	config.CertData, config.KeyData = nil, nil
	prove(config)
	return config
}

// newNode returns a Node.
func newNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// runPod creates a Pod that looks Ready on a Node.
func runPod(t *testing.T, admin kubernetes.Interface, name string) {
	t.Helper()
	pod := newPod(name)
	pod.Labels = map[string]string{"budget": "yes"}
	pod.Spec.NodeName = "evictions"
	created, err := admin.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	created.Status.Phase = corev1.PodRunning
	created.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if _, err := admin.CoreV1().Pods("default").UpdateStatus(t.Context(), created, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// awaitHealthy waits until the disruption controller counts n healthy Pods.
func awaitHealthy(t *testing.T, admin kubernetes.Interface, n int32) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d Pods count as healthy", n), func(ctx context.Context) error {
		budget, err := admin.PolicyV1().PodDisruptionBudgets("default").Get(ctx, "budget", metav1.GetOptions{})
		if err == nil && (budget.Status.ObservedGeneration != budget.Generation || budget.Status.CurrentHealthy != n) {
			err = fmt.Errorf("status is %+v", budget.Status)
		}
		return err
	})
}

// evict requests the eviction of a Pod.
func evict(t *testing.T, admin kubernetes.Interface, pod string) error {
	t.Helper()
	return admin.CoreV1().Pods("default").EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: "default"}})
}

// absent returns nil if err is that an object does not exist.
func absent(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err == nil:
		return errors.New("it is still there")
	default:
		return err
	}
}
