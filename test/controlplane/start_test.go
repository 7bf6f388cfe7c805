// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drover.io/test/controlplane/binaries"
)

func TestStartServesTheReleasedVersion(t *testing.T) {
	t.Parallel()
	if dir := binaries.Assets(); dir != "" {
		t.Skipf("the programs in %s have a version of their own", dir)
	}
	info, err := adminClient(t, sharedCluster(t)).Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	got := []string{info.GitVersion, info.Major, info.Minor, info.GitCommit, info.GitTreeState}
	if diff := cmp.Diff([]string{"v1.36.3", "1", "36", "", "clean"}, got); diff != "" {
		t.Errorf("version (-want +got):\n%s", diff)
	}
}

func TestStartAdmitsPods(t *testing.T) {
	t.Parallel()
	for name, withManager := range map[string]bool{
		"with a controller manager":    true,
		"without a controller manager": false,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t, Options{Name: "pods", ControllerManager: withManager})
			if _, err := adminClient(t, c).CoreV1().Pods("default").Create(t.Context(), newPod("a"), metav1.CreateOptions{}); err != nil {
				t.Errorf("creating a Pod: %v", err)
			}
		})
	}
}

func TestClustersRejectEachOther(t *testing.T) {
	t.Parallel()
	ours := sharedCluster(t)
	other := startCluster(t, Options{Name: "theirs"})

	if bytes.Equal(ours.CA(), other.CA()) {
		t.Error("both clusters have the same CA")
	}

	wrongServer := ours.AdminConfig()
	wrongServer.Host = other.AdminConfig().Host
	_, err := clientFor(t, wrongServer).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if !errors.As(err, new(x509.UnknownAuthorityError)) {
		t.Errorf("their server with our CA: got %v, want an unknown authority", err)
	}

	wrongClient := other.AdminConfig()
	wrongClient.CertData, wrongClient.KeyData = ours.AdminConfig().CertData, ours.AdminConfig().KeyData
	_, err = clientFor(t, wrongClient).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsUnauthorized(err) {
		t.Errorf("our client certificate at their server: got %v, want unauthorized", err)
	}

	raw, err := ours.ServiceAccountKubeconfig(t.Context(), "default", "default")
	if err != nil {
		t.Fatal(err)
	}
	wrongToken := other.AdminConfig()
	wrongToken.CertData, wrongToken.KeyData = nil, nil
	wrongToken.BearerToken = tokenOf(t, raw)
	_, err = clientFor(t, wrongToken).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsUnauthorized(err) {
		t.Errorf("our token at their server: got %v, want unauthorized", err)
	}
}

func TestAnonymousMayReadHealthOnly(t *testing.T) {
	t.Parallel()
	config := sharedCluster(t).AdminConfig()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.CAData)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}

	got := map[string]int{}
	for _, path := range []string{"/healthz", "/livez", "/readyz", "/version", "/api/v1/namespaces", "/metrics"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		got[path] = response.StatusCode
	}
	want := map[string]int{"/healthz": 200, "/livez": 200, "/readyz": 200, "/version": 401, "/api/v1/namespaces": 401, "/metrics": 401}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers to anonymous requests (-want +got):\n%s", diff)
	}
}

func TestStartReportsExitedProgram(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	_, err := Start(t.Context(), Options{Name: "dies", APIServerArgs: []string{"--no-such-flag"}})
	if err == nil {
		t.Fatal("started with a flag that does not exist")
	}
	if !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("the error lacks the end of the log: %v", err)
	}
	expectEmpty(t, dir)
}

func TestStartEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Options{Name: "cancelled"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	expectEmpty(t, dir)
}

func TestStartRefusesADirectoryInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	precious := filepath.Join(dir, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Options{Dir: dir}); err == nil {
		t.Error("started in a directory that holds something else")
	}
	if _, err := os.Stat(precious); err != nil {
		t.Errorf("what the directory held: %v", err)
	}
}

// expectEmpty checks that nothing was left in dir.
func expectEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) > 0 {
		t.Errorf("left behind: %v", entries)
	}
}

// newPod returns a Pod that the API server accepts.
func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "image"}}},
	}
}
