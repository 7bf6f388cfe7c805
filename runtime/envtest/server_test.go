// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"os"
	"path/filepath"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
)

var management, unused = &Server{Project: true, AdmitNodes: true}, &Server{}

func TestMain(m *testing.M) { Main(m, management.Stop, unused.Stop) }

func TestServerHasTheKindsOfTheProject(t *testing.T) {
	t.Parallel()
	c, namespace := management.Client(t), management.Namespace(t)
	for _, list := range []client.ObjectList{&bootstrapv1.BootstrapConfigList{}, &infrav1.SimMachineList{}} {
		if err := c.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Error(err)
		}
	}
	if again := management.Namespace(t); again == namespace {
		t.Errorf("the namespace %q was returned twice", again)
	}
}

func TestKubeconfigReachesTheServer(t *testing.T) {
	t.Parallel()
	config, err := management.Start()
	if err != nil {
		t.Fatal(err)
	}
	content, err := Kubeconfig(config)
	if err != nil {
		t.Fatal(err)
	}
	read, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewClient(read)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "kube-system"}, &corev1.Namespace{}); err != nil {
		t.Error(err)
	}
}

func TestURL(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"127.0.0.1:6443": "https://127.0.0.1:6443", "https://a": "https://a", "http://a": "http://a",
	} {
		if got := URL(&rest.Config{Host: host}); got != want {
			t.Errorf("the URL of %q is %q, want %q", host, got, want)
		}
	}
}

// TestUserMayDoWhatAManifestPermits has a user whose role and binding are in a manifest.
func TestUserMayDoWhatAManifestPermits(t *testing.T) {
	t.Parallel()
	admin, err := management.Start()
	if err != nil {
		t.Fatal(err)
	}
	user := Impersonate(admin, "reader")
	c, err := NewClient(user)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.List(t.Context(), &rbacv1.ClusterRoleList{}); !apierrors.IsForbidden(err) {
		t.Errorf("before: got %v", err)
	}
	if err := CreateManifest(t.Context(), management.Client(t), filepath.Join("testdata", "reader.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := AwaitAccess(t.Context(), user, authorizationv1.ResourceAttributes{Group: rbacv1.GroupName, Resource: "clusterroles", Verb: "list"}); err != nil {
		t.Fatal(err)
	}
	if err := c.List(t.Context(), &rbacv1.ClusterRoleList{}); err != nil {
		t.Errorf("after: %v", err)
	}
}

func TestCreateManifestFailsWithoutTheManifest(t *testing.T) {
	t.Parallel()
	if err := CreateManifest(t.Context(), management.Client(t), "no/such/manifest.yaml"); err == nil {
		t.Error("no error")
	}
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(broken, []byte("a: b: c"), 0o600); err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel("/", broken)
	if err != nil {
		t.Fatal(err)
	}
	if err := CreateManifest(t.Context(), management.Client(t), "../../../../../../../../../../"+relative); err == nil {
		t.Error("no error of a manifest that is no YAML")
	}
}

func TestServerThatWasNotStartedStops(t *testing.T) {
	t.Parallel()
	if err := unused.Stop(); err != nil {
		t.Error(err)
	}
}
