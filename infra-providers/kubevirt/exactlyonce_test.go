// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/testenv"
	"drover.io/infra-providers/kubevirt"
	"drover.io/runtime/envtest"
)

func identity(uid types.UID) driver.Identity {
	return driver.Identity{UID: uid, Name: "worker-1", Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home"}}
}

func (e *env) request(uid types.UID, config kubevirt.InstanceConfig, data string) driver.CreateRequest[kubevirt.InstanceConfig] {
	return driver.CreateRequest[kubevirt.InstanceConfig]{Identity: identity(uid), Config: config, UserData: []byte(data), Format: "cloud-config"}
}

// TestLateCreation: a request for a VirtualMachine that arrives after the machine was deleted leaves nothing behind, because
// Kubernetes' own garbage collector deletes what has an owner that does not exist.
func TestLateCreation(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.collectGarbage()
	e.createSources()
	var late *http.Request
	var body []byte
	options := e.options()
	next := options.Transport
	options.Transport = func(below http.RoundTripper) http.RoundTripper {
		wrapped := next(below)
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if createsVM(r) && late == nil {
				late = r.Clone(context.Background())
				body, _ = io.ReadAll(r.Body)
				return nil, context.DeadlineExceeded
			}
			return wrapped.RoundTrip(r)
		})
	}
	d, err := kubevirt.Cloud(options).Connect(t.Context(), driver.Account{Region: e.namespace}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Create(t.Context(), e.request("late", newConfig(t, fullSpec(), ""), "#cloud-config\n")); err == nil || late == nil {
		t.Fatalf("got %v, want no answer", err)
	}
	if err := d.Delete(t.Context(), identity("late")); err != nil {
		t.Fatal(err)
	}
	late.Body, late.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	response, err := e.server.Next.RoundTrip(late)
	if err != nil || response.StatusCode != http.StatusCreated {
		t.Fatalf("the late request: %+v, %v", response, err)
	}
	_ = response.Body.Close()
	e.step()
	e.eventually("everything to be deleted", func() bool {
		e.step()
		volumes := &cdiv1.DataVolumeList{}
		if err := e.api.List(context.Background(), volumes, client.InNamespace(e.namespace)); err != nil {
			t.Fatal(err)
		}
		return len(e.leftovers()) == 0 && len(volumes.Items) == 0
	})
}

// TestBootstrapDataAfterAnIncompleteCreation: the data of the last attempt counts, because a token of an earlier one may have
// expired.
func TestBootstrapDataAfterAnIncompleteCreation(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	d, config := e.connect(), newConfig(t, minimalSpec(), "")
	e.wire.fail(fault{status: http.StatusInternalServerError, reason: metav1.StatusReasonInternalError}, createsVM)
	if _, err := d.Create(t.Context(), e.request("1", config, "first")); err == nil {
		t.Fatal("the creation succeeded")
	}
	created, err := d.Create(t.Context(), e.request("1", config, "second"))
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{}
	if err := e.api.Get(t.Context(), client.ObjectKey{Namespace: e.namespace, Name: created.ID}, secret); err != nil {
		t.Fatal(err)
	}
	if got := string(secret.Data["userdata"]); got != "second" {
		t.Errorf("got %q", got)
	}
	vm := e.vm(created.ID)
	if len(vm.OwnerReferences) != 1 || vm.OwnerReferences[0].UID != secret.UID {
		t.Errorf("the owners are %+v", vm.OwnerReferences)
	}
}

// TestQuota: the admission plugin of the API server refuses with the same reason as a missing permission.
func TestQuota(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	hard := corev1.ResourceList{"count/virtualmachines.kubevirt.io": resource.MustParse("0")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: "vms"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
	if err := e.api.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	quota.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: hard}
	if err := e.api.Status().Update(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	d, config := e.connect(), newConfig(t, minimalSpec(), "")
	e.eventually("the quota to count", func() bool {
		_, err := d.Create(t.Context(), e.request("1", config, "x"))
		if err == nil { // the plugin reads quotas from a cache
			_ = d.Delete(t.Context(), identity("1"))
			e.step()
			return false
		}
		return driver.IsQuotaExceeded(err)
	})
	if err := d.Delete(t.Context(), identity("1")); err != nil {
		t.Fatal(err)
	}
	e.step()
	if left := e.leftovers(); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}

// TestCopiesAreKept: what others made from a machine's DataVolume has its labels and is no part of it, whatever its name.
func TestCopiesAreKept(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.createSources()
	d := e.connect()
	if _, err := d.Create(t.Context(), e.request("1", newConfig(t, fullSpec(), ""), "x")); err != nil {
		t.Fatal(err)
	}
	e.step()
	original := &cdiv1.DataVolume{}
	if err := e.api.Get(t.Context(), client.ObjectKey{Namespace: e.namespace, Name: "drover-1-data"}, original); err != nil {
		t.Fatal(err)
	}
	backups := []client.Object{
		&cdiv1.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: "backup", Labels: original.Labels, Annotations: original.Annotations}, Spec: original.Spec},
		&cdiv1.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: "drover-1-data-backup", Labels: original.Labels, Annotations: original.Annotations}, Spec: original.Spec},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: "drover-1-backup", Labels: original.Labels, Annotations: original.Annotations}},
	}
	for _, backup := range backups {
		if err := e.api.Create(t.Context(), backup); err != nil {
			t.Fatal(err)
		}
	}
	copies := map[string]bool{}
	for object, err := range d.(driver.AttachedObjectLister).AttachedObjects(t.Context(), identity("1").Owner) {
		if err != nil {
			t.Fatal(err)
		}
		copies[object.ID] = object.Copy
	}
	if copies["drover-1"] || copies["drover-1-data"] || copies["drover-1-root"] || len(copies) != 3+len(backups) {
		t.Errorf("got %v", copies)
	}
	if err := d.Delete(t.Context(), identity("1")); err != nil {
		t.Fatal(err)
	}
	for _, backup := range backups {
		if !copies[backup.GetName()] {
			t.Errorf("%s is no copy", backup.GetName())
		}
		if err := e.api.Get(t.Context(), client.ObjectKeyFromObject(backup), backup); err != nil || !backup.GetDeletionTimestamp().IsZero() {
			t.Errorf("the copy %s: %v, deleted at %v", backup.GetName(), err, backup.GetDeletionTimestamp())
		}
	}
}

// TestReplacedObjects: what has the name of an object by the time of its deletion is kept.
func TestReplacedObjects(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	d := e.connect()
	created, err := d.Create(t.Context(), e.request("1", newConfig(t, minimalSpec(), ""), "x"))
	if err != nil {
		t.Fatal(err)
	}
	replacement := e.vm(created.ID).DeepCopy()
	deletes := func(r *http.Request) bool {
		return r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/virtualmachines/")
	}
	e.wire.before(deletes, func() {
		old := e.vm(created.ID)
		if err := e.api.Delete(context.Background(), old); err != nil {
			t.Error(err)
		}
		e.step()
		replacement.ObjectMeta = metav1.ObjectMeta{Namespace: e.namespace, Name: created.ID}
		replacement.Status = virtv1.VirtualMachineStatus{}
		if err := e.api.Create(context.Background(), replacement); err != nil {
			t.Error(err)
		}
	})
	if err := d.Delete(t.Context(), identity("1")); err != nil {
		t.Fatal(err)
	}
	if found := e.vm(created.ID); found.UID != replacement.UID || !found.DeletionTimestamp.IsZero() {
		t.Errorf("the replacement was touched: %+v", found.ObjectMeta)
	}
}

// eventually waits until something is so.
func (e *env) eventually(what string, done func() bool) {
	e.t.Helper()
	for deadline := time.Now().Add(testenv.WaitTimeout); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			e.t.Fatalf("after %s: waiting for %s; left is %q", testenv.WaitTimeout, what, e.leftovers())
		}
	}
}

// collectGarbage runs Kubernetes' garbage collector until the test ends.
func (e *env) collectGarbage() {
	e.t.Helper()
	assets, err := envtest.Binaries()
	if err != nil {
		e.t.Fatal(err)
	}
	content, err := envtest.Kubeconfig(e.config)
	if err != nil {
		e.t.Fatal(err)
	}
	file := filepath.Join(e.t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		e.t.Fatal(err)
	}
	command := exec.Command(filepath.Join(assets, "kube-controller-manager"), "--kubeconfig="+file, "--leader-elect=false", "--secure-port=0", "--controllers=garbage-collector-controller")
	command.Env, command.SysProcAttr = envtest.Environment(), &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
}
