// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
	"drover.io/infra-providers/internal/account"
	"drover.io/runtime/logtest"
)

// tenantServer is a server that somebody's Secret names.
type tenantServer struct {
	driver.Driver[fake.Config]
	// list is what it shows.
	list func(context.Context) iter.Seq2[driver.Instance, error]
	// deleted are those whose deletion was requested, which it reports as done.
	mu      sync.Mutex
	deleted []string
}

func (s *tenantServer) List(ctx context.Context, _ driver.Owner) iter.Seq2[driver.Instance, error] {
	return s.list(ctx)
}

func (s *tenantServer) Delete(_ context.Context, id driver.Identity) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deleted = append(s.deleted, id.Name)
	return nil
}

// connectServer makes a Secret of a namespace lead to a server.
func (f *fixture) connectServer(namespace, secret string, server driver.Driver[fake.Config]) {
	f.Helper()
	if f.named == nil {
		f.named = map[string]driver.Driver[fake.Config]{}
	}
	f.named[secret] = server
	f.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secret}})
	machine := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: infrav1.SimMachineSpec{InstanceType: secret}}
	if _, err := f.Accounts.Driver(f.Context(), machine); err != nil {
		f.Fatal(err)
	}
}

// showing returns a list of instances of an owner, with the IDs of what is in the provider's own account first.
func (f *fixture) showing(owner driver.Owner, more int) func(context.Context) iter.Seq2[driver.Instance, error] {
	return func(ctx context.Context) iter.Seq2[driver.Instance, error] {
		return func(yield func(driver.Instance, error) bool) {
			for made, err := range f.cloud.List(ctx, driver.Owner{}) {
				made.Identity = driver.Identity{UID: "u", Name: "theirs", Owner: owner, ProviderID: made.ProviderID}
				if !yield(made, err) {
					return
				}
			}
			for n := range more {
				id := fmt.Sprint("fake-", n)
				if !yield(driver.Instance{ProviderID: id, State: driver.Running, Created: time.Unix(1, 0), Identity: driver.Identity{UID: "u", Name: id, Owner: owner, ProviderID: id}}, nil) {
					return
				}
			}
		}
	}
}

// TestTenantServerProtectsNoOrphan: it lists more and older orphans of the tenant than a sweep deletes, deletes
// none of them, and lists what is in the provider's own account under the same IDs.
func TestTenantServerProtectsNoOrphan(t *testing.T) {
	t.Parallel()
	f, other := newFixture(t, usual), newFixture(t, usual)
	server := &tenantServer{Driver: fake.New(fake.Options{})}
	server.list = f.showing(other.owner(), 2*usual.Cap)
	f.connectServer(other.home.Namespace, secretPrefix+other.home.Namespace, server)
	f.createOrphan("lost")
	f.sweep(3)
	f.wantInCloud(0, 0)
	if len(server.deleted) == 0 {
		t.Error("nothing was asked of the tenant's server, so this proves nothing")
	}
}

// TestTenantServerListsOnlyItsNamespace: it shows a newer instance of another tenant's Cluster, which would stop
// everything in that Cluster from being collected, and an old one, which would be deleted.
func TestTenantServerListsOnlyItsNamespace(t *testing.T) {
	t.Parallel()
	f, other := newFixture(t, usual), newFixture(t, usual)
	f.others["u"] = true
	server := &tenantServer{Driver: fake.New(fake.Options{})}
	server.list = f.showing(f.owner(), 2)
	f.connectServer(other.home.Namespace, secretPrefix+other.home.Namespace, server)
	f.createOrphan("lost")
	f.sweep(3)
	f.wantInCloud(0, 0)
	if len(server.deleted) > 0 {
		t.Errorf("the tenant's server was asked to delete %q", server.deleted)
	}
	for len(f.recorder.Events) > 0 {
		if event := f.nextEvent(); strings.Contains(event, "fake-") || strings.Contains(event, "theirs") {
			t.Errorf("the other tenant was told %q", event)
		}
	}
}

// TestUnknownOwnersAreReported: in a cloud without tags, only the object of a machine says whose an instance is, and it was
// removed.
func TestUnknownOwnersAreReported(t *testing.T) {
	t.Parallel()
	f := newFixture(t, usual)
	server := &tenantServer{Driver: fake.New(fake.Options{})}
	server.list = f.showing(driver.UnknownOwner, 2)
	f.connectServer(f.home.Namespace, secretPrefix+f.home.Namespace, server)
	recorder := &logtest.Recorder{}
	ctx := recorder.Context(t.Context())
	sweep := func() {
		f.now = f.now.Add(21 * time.Minute)
		if err := f.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
	}
	sweep()
	sweep()
	server.list = f.showing(driver.UnknownOwner, 3)
	sweep()
	lines := slices.DeleteFunc(recorder.Lines("found instances of a Cluster"), func(line string) bool { return !strings.Contains(line, f.home.Namespace) })
	if len(lines) != 2 || !strings.Contains(lines[0], "instance/fake-1") || !strings.Contains(lines[1], "instance/fake-2") {
		t.Errorf("logged %q, want a line with the namespace and what was found, and another one once there was more", lines)
	}
	if len(server.deleted) > 0 {
		t.Errorf("%q were deleted", server.deleted)
	}
}

// TestAccountsAreListedConcurrently: the list of each namespace goes on when that of the other has begun.
func TestAccountsAreListedConcurrently(t *testing.T) {
	t.Parallel()
	f, other := newFixture(t, usual), newFixture(t, usual)
	began := map[string]chan struct{}{"one": make(chan struct{}), "two": make(chan struct{})}
	for name, next := range map[string]string{"one": "two", "two": "one"} {
		once := sync.OnceFunc(func() { close(began[name]) })
		server := &tenantServer{Driver: fake.New(fake.Options{})}
		server.list = func(ctx context.Context) iter.Seq2[driver.Instance, error] {
			return func(yield func(driver.Instance, error) bool) {
				once()
				select {
				case <-began[next]:
				case <-ctx.Done():
					yield(driver.Instance{}, ctx.Err())
				}
			}
		}
		f.connectServer(map[string]*fixture{"one": f, "two": other}[name].home.Namespace, secretPrefix+name+"-"+f.home.Namespace, server)
	}
	if err := f.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestListWithoutEndIsAborted has a server that shows instances for ever.
func TestListWithoutEndIsAborted(t *testing.T) {
	t.Parallel()
	f, other := newFixture(t, usual), newFixture(t, usual)
	server := &tenantServer{Driver: fake.New(fake.Options{})}
	server.list = func(context.Context) iter.Seq2[driver.Instance, error] {
		return func(yield func(driver.Instance, error) bool) {
			for yield(driver.Instance{ProviderID: "stops", State: driver.Stopping}, nil) {
			}
		}
	}
	f.connectServer(other.home.Namespace, secretPrefix+other.home.Namespace, server)
	f.createOrphan("lost")
	for range 2 {
		f.now = f.now.Add(21 * time.Minute)
		if err := f.Sweep(t.Context()); !errors.Is(err, errTooMany) {
			t.Errorf("got %v", err)
		}
	}
	f.wantInCloud(0, 0)
}

// TestListOfLongTextsIsAborted has a server that shows instances for ever whose names have a MiB each.
func TestListOfLongTextsIsAborted(t *testing.T) {
	t.Parallel()
	f, other := newFixture(t, usual), newFixture(t, usual)
	server, shown := &tenantServer{Driver: fake.New(fake.Options{})}, 0
	name := strings.Repeat("x", 1<<20) // all have the same memory, which is not so for the names of a server
	server.list = func(context.Context) iter.Seq2[driver.Instance, error] {
		return func(yield func(driver.Instance, error) bool) {
			for made := (driver.Instance{State: driver.Running, Identity: driver.Identity{UID: "u", Name: name, Owner: other.owner()}}); yield(made, nil); {
				shown++
			}
		}
	}
	f.connectServer(other.home.Namespace, secretPrefix+other.home.Namespace, server)
	if err := f.Sweep(t.Context()); !errors.Is(err, errTooMany) {
		t.Errorf("got %v", err)
	}
	if shown > 200 {
		t.Errorf("%d MiB were read", shown)
	}
}

// TestWhatIsBesideInstances: an object is beside the instances that have its UID, and the one that its own tags name.
func TestWhatIsBesideInstances(t *testing.T) {
	t.Parallel()
	f := newFixture(t, usual)
	uid := f.createOrphan("lost")
	first := f.cloud.Snapshot().Instances[uid].ProviderID
	want := []string{"normal:" + first, "normal:" + f.cloud.Copy(first), "normal:named"}
	port := driver.AttachedObject{Kind: "port", ID: "p", Identity: driver.Identity{UID: uid, Name: "lost", ProviderID: otherForm + "named", Owner: f.owner()}}
	found, _, err := f.everything(t.Context(), account.Account[fake.Config]{Direct: f.cloud, AttachedObjects: attachedObjects{port}}, 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 3 || !slices.Equal(sorted(found[0]), want[:2]) || !slices.Equal(sorted(found[1]), want[:2]) || !slices.Equal(sorted(found[2]), want) {
		t.Errorf("got %+v, want two instances and a port beside %q", found, want)
	}
}

// sorted are the instances of a resource.
func sorted(of Resource) []string { return slices.Sorted(slices.Values(of.Instances)) }

// attachedObjects lists itself.
type attachedObjects []driver.AttachedObject

func (a attachedObjects) AttachedObjects(context.Context, driver.Owner) iter.Seq2[driver.AttachedObject, error] {
	return func(yield func(driver.AttachedObject, error) bool) {
		for _, object := range a {
			if !yield(object, nil) {
				return
			}
		}
	}
}

// TestInstancesOfOneUID: a tenant's server may not list more with one UID than are compared with each other. The operator's may, and
// what has no UID lacks tags.
func TestInstancesOfOneUID(t *testing.T) {
	t.Parallel()
	f := newFixture(t, usual)
	for name, test := range map[string]struct {
		namespace string
		uid       types.UID
		instances int
		want      string
	}{
		"as many as are possible":            {f.home.Namespace, "one", maxPerUID, ""},
		"one more":                           {f.home.Namespace, "one", maxPerUID + 1, `the UID of machine "worker"`},
		"one more, without a UID":            {f.home.Namespace, "", maxPerUID + 1, ""},
		"one more of the operator's account": {"", "one", maxPerUID + 1, ""},
	} {
		server := &tenantServer{list: func(context.Context) iter.Seq2[driver.Instance, error] {
			return func(yield func(driver.Instance, error) bool) {
				for n := range test.instances {
					id := driver.Identity{UID: test.uid, Name: "worker", Owner: f.owner(), ProviderID: fmt.Sprintf("fake:///%d", n)}
					if !yield(driver.Instance{ProviderID: id.ProviderID, Identity: id}, nil) {
						return
					}
				}
			}
		}}
		all, _, err := f.everything(t.Context(), account.Account[fake.Config]{Direct: server, Namespace: test.namespace}, maxPerHolder)
		if test.want == "" && (err != nil || len(all) != test.instances) || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %d instances and %v, want %q", name, len(all), err, test.want)
		}
	}
}
