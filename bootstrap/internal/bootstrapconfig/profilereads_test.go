// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/profile"
)

// TestFailedReadsTakeLittleMemory: each version of a Machine is an attempt of its own, with addresses of many kilobytes. The
// test is not parallel because it counts what the process has in memory.
func TestFailedReadsTakeLittleMemory(t *testing.T) {
	const attempts, most = 500, 8 << 20
	p := &bootstrapv1.NodeProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "fleet", UID: "u", Generation: 1}}
	r := &Reconciler{
		Clock: clock.RealClock{},
		Live:  profileReader(p),
		ReadChecksum: func(context.Context, string, string, string) (string, error) {
			return "", errors.New("connection refused")
		},
	}
	r.failedReads.TTL = failedReadMemory
	inUse := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := inUse()
	for i := range attempts {
		address := fmt.Sprintf("https://a.example.test/%d/%s", i, strings.Repeat("x", 50_000))
		binaries := []profile.Binary{{Component: "kubelet", Version: fmt.Sprintf("1.36.%d", i), Architecture: "amd64", URL: address, ChecksumURL: address}}
		if _, err := r.checksums(t.Context(), p, binaries); err == nil {
			t.Fatal("there is a checksum")
		}
	}
	if after := inUse(); after > before+most {
		t.Errorf("%d failed reads are remembered in %d KiB", attempts, (after-before)>>10)
	}
	runtime.KeepAlive(r)
}

// TestChecksumsOfAProfileThatHasChangedAreNotStored: those of the servers that it named before are not of the present ones.
func TestChecksumsOfAProfileThatHasChangedAreNotStored(t *testing.T) {
	t.Parallel()
	cached := &bootstrapv1.NodeProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "fleet", UID: "u", Generation: 1, ResourceVersion: "1"}}
	for name, change := range map[string]func(*bootstrapv1.NodeProfile){
		"with another spec": func(p *bootstrapv1.NodeProfile) { p.Generation = 2 },
		"of the same name":  func(p *bootstrapv1.NodeProfile) { p.UID = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			present := cached.DeepCopy()
			present.ResourceVersion = "2"
			change(present)
			r := &Reconciler{
				Clock: clock.RealClock{},
				Live:  profileReader(present),
				Client: interceptor.NewClient(nil, interceptor.Funcs{
					SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
						t.Error("a checksum was stored")
						return nil
					},
				}),
				ReadChecksum: func(context.Context, string, string, string) (string, error) {
					return strings.Repeat("ab", 32), nil
				},
			}
			r.failedReads.TTL = failedReadMemory
			old := []profile.Binary{{Component: "kubelet", Version: "1.36.3", Architecture: "amd64", URL: "https://old.example.test/kubelet", ChecksumURL: "https://old.example.test/kubelet.sha256"}}
			if got, err := r.checksums(t.Context(), cached, old); !apierrors.IsConflict(err) {
				t.Errorf("got %v, %v, want a conflict", got, err)
			}
		})
	}
}

// profileReader reads one NodeProfile, whatever it is called.
func profileReader(p *bootstrapv1.NodeProfile) client.Reader {
	return interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
			p.DeepCopyInto(into.(*bootstrapv1.NodeProfile))
			return nil
		},
	})
}

// TestVersionsOfVendorsHaveReleases: a Machine may have such a version, so that a profile has to store its checksums.
func TestVersionsOfVendorsHaveReleases(t *testing.T) {
	f, m := newFixture(t), newMirror(t)
	f.profile(m, nil)
	f.eventuallyReady(f.config(f.machineOfVersion("m1", "v1.36.3-rc.1+vendor.2"), ofProfile))
}

// TestALongVersionIsReported, since no profile can store a checksum of it.
func TestALongVersionIsReported(t *testing.T) {
	f, m := newFixture(t), newMirror(t)
	f.profile(m, nil)
	config := f.config(f.machineOfVersion("m1", "v1.36.3-"+strings.Repeat("x", 80)), ofProfile)
	message := f.eventually(config, "Ready", metav1.ConditionFalse, bootstrapv1.ReleaseUnavailableReason)
	if !strings.Contains(message, "Machine.spec.version") {
		t.Errorf("message: %s", message)
	}
}

// TestAnotherVersionOfAMachineIsNoticed: the version was wrong, and nothing else changes.
func TestAnotherVersionOfAMachineIsNoticed(t *testing.T) {
	f, m := newFixture(t), newMirror(t)
	f.profile(m, nil)
	machine := f.machineOfVersion("m1", "v1.99.0")
	config := f.config(machine, ofProfile)
	f.eventually(config, "Ready", metav1.ConditionFalse, bootstrapv1.ReleaseUnavailableReason)
	machine.Spec.Version = "v1.36.3"
	if err := management.Client.Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	f.eventuallyReady(config)
}

// TestAConfigWithoutAProfileReportsNone, also if it had one before its data was published.
func TestAConfigWithoutAProfileReportsNone(t *testing.T) {
	t.Parallel()
	config := &bootstrapv1.BootstrapConfig{}
	config.Status.Profile = bootstrapv1.BootstrapConfigProfile{Name: "fleet", Generation: 1}
	if err := (&Reconciler{}).applyProfile(t.Context(), &state{config: config}); err != nil {
		t.Fatal(err)
	}
	if got := config.Status.Profile; got.Name != "" {
		t.Errorf("status.profile = %+v", got)
	}
}
