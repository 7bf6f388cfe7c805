// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestStopLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	c, err := Start(t.Context(), Options{Name: "stops", ControllerManager: true})
	if err != nil {
		t.Fatal(err)
	}
	processes := c.Processes()
	var names []string
	for _, process := range processes {
		names = append(names, process.Name)
		if err := running(process.PID); err != nil {
			t.Errorf("%s while the cluster runs: %v", process.Name, err)
		}
	}
	if diff := cmp.Diff([]string{"etcd", "kube-apiserver", "kube-controller-manager"}, names); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}

	for range 2 { // the second time has nothing to do
		if err := c.Stop(); err != nil {
			t.Errorf("stopping: %v", err)
		}
	}
	for _, process := range processes {
		if err := running(process.PID); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("%s after the stop: got %v, want %v", process.Name, err, syscall.ESRCH)
		}
	}
	expectEmpty(t, dir)
}

func TestStopKeepsAChosenDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	c, err := Start(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(); err != nil {
		t.Errorf("stopping: %v", err)
	}
	if info, err := os.Stat(filepath.Join(dir, "kube-apiserver.log")); err != nil || info.Size() == 0 {
		t.Errorf("the log of the API server: %v, %v", info, err)
	}
}

func TestStopReportsExitedProgram(t *testing.T) {
	t.Parallel()
	c, err := Start(t.Context(), Options{Name: "crashed"})
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(c.Processes()[1].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the death is noticed", func(context.Context) error {
		if pid := c.Processes()[1].PID; pid != 0 {
			return fmt.Errorf("process %d runs", pid)
		}
		return nil
	})
	if err := c.Stop(); err == nil || !strings.Contains(err.Error(), "kube-apiserver") {
		t.Errorf("got %v, want an error about kube-apiserver", err)
	}
}

func TestAPIServerComesBackWithItsData(t *testing.T) {
	t.Parallel()
	c := startCluster(t, Options{Name: "returns"})
	maps := adminClient(t, c).CoreV1().ConfigMaps("default")
	kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Data: map[string]string{"key": "value"}}
	if _, err := maps.Create(t.Context(), kept, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, before := c.Endpoint()

	for range 2 {
		if err := c.StopAPIServer(); err != nil {
			t.Fatal(err)
		}
		if _, err := maps.Get(t.Context(), "kept", metav1.GetOptions{}); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("while it is down: got %v, want %v", err, syscall.ECONNREFUSED)
		}
		if err := c.StartAPIServer(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := maps.Get(t.Context(), "kept", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(kept.Data, got.Data); diff != "" {
			t.Errorf("data (-want +got):\n%s", diff)
		}
	}
	if _, after := c.Endpoint(); after != before {
		t.Errorf("port moved from %d to %d", before, after)
	}
}

func TestAPIServerComesBackToItsWatchers(t *testing.T) {
	t.Parallel()
	c := startCluster(t, Options{Name: "watched", ControllerManager: true})
	server := c.apiServer.process
	if err := c.StopAPIServer(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("exit status 0", server.State()); diff != "" {
		t.Errorf("how it ended (-want +got):\n%s", diff)
	}
	if err := c.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	admin := adminClient(t, c)
	expired := createToken(t, admin, "stale1", time.Now().Add(-time.Hour))
	eventually(t, "the controller manager is at work again", func(ctx context.Context) error {
		_, err := admin.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, expired, metav1.GetOptions{})
		return absent(err)
	})
}

func TestPausedAPIServerDoesNotAnswer(t *testing.T) {
	t.Parallel()
	c := startCluster(t, Options{Name: "pauses"})
	if err := c.PauseAPIServer(); err != nil {
		t.Fatal(err)
	}
	config := c.AdminConfig()
	config.Timeout = time.Second
	namespaces := clientFor(t, config).CoreV1().Namespaces()
	if _, err := namespaces.Get(t.Context(), "default", metav1.GetOptions{}); !os.IsTimeout(err) {
		t.Errorf("while it is frozen: got %v, want a timeout", err)
	}
	if err := c.ResumeAPIServer(); err != nil {
		t.Fatal(err)
	}
	if _, err := adminClient(t, c).CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
		t.Errorf("after it went on: %v", err)
	}
	if err := c.PauseAPIServer(); err != nil { // Stop must end a frozen one too
		t.Fatal(err)
	}
}

func TestAuditLogHoldsWhatThePolicySelects(t *testing.T) {
	t.Parallel()
	c := startCluster(t, Options{Name: "audited", AuditPolicy: []byte(`
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: [writer]
  verbs: [create]
`)})
	raw, err := c.Kubeconfig("writer", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	maps := clientFrom(t, raw).CoreV1().ConfigMaps("default")
	for _, name := range []string{"a", "b"} {
		if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := maps.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
	}

	log, err := os.ReadFile(c.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range bytes.Lines(log) {
		var event struct {
			Verb      string
			ObjectRef struct{ Resource, Name string }
		}
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatal(err)
		}
		got = append(got, event.Verb+" "+event.ObjectRef.Resource+" "+event.ObjectRef.Name)
	}
	if diff := cmp.Diff([]string{"create configmaps a", "create configmaps b"}, got); diff != "" {
		t.Errorf("audit log (-want +got):\n%s", diff)
	}
}

// running returns nil if the process runs.
func running(pid int) error {
	return syscall.Kill(pid, 0)
}
