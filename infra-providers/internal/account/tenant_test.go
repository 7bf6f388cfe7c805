// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package account_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
	"drover.io/infra-providers/internal/account"
)

// labels are the Namespaces there are, and the value of the label that allows the provider's own credentials.
type labels struct {
	values map[string]string
	err    error
	reads  int
}

func (l *labels) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	l.reads++
	value, ok := l.values[key.Name]
	if !ok && l.err == nil {
		return apierrors.NewNotFound(corev1.Resource("namespaces"), key.Name)
	}
	object.SetLabels(map[string]string{infrav1.OwnCredentialsLabel: value})
	return l.err
}

func (l *labels) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("namespaces are never listed")
}

// cloudOf describes a cloud whose machines name a server by their zone and a Secret by their instance type.
func cloudOf(connect func(driver.Account) driver.Driver[fake.Config]) driver.Cloud[*infrav1.SimMachine, fake.Config] {
	return driver.Cloud[*infrav1.SimMachine, fake.Config]{
		Name: "fake",
		Account: func(m *infrav1.SimMachine) driver.Account {
			return driver.Account{SecretName: m.Spec.InstanceType, Endpoint: m.Spec.Zone}
		},
		Connect: func(_ context.Context, at driver.Account, _ driver.Credentials) (driver.Driver[fake.Config], error) {
			return connect(at), nil
		},
	}
}

func clock() time.Time { return time.Unix(1_000_000, 0) }

func TestPermissionForOwnCredentials(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(corev1.Resource("namespaces"), "team", errors.New("not permitted"))
	for name, test := range map[string]struct {
		named    []string
		labels   *labels
		without  bool
		ok       bool
		passing  bool
		mentions string
	}{
		"nobody, where nobody is named":                {nil, &labels{values: map[string]string{"team": ""}}, false, false, false, "--own-credentials-namespaces"},
		"not a namespace that another value labels":    {nil, &labels{values: map[string]string{"team": "true"}}, false, false, false, infrav1.OwnCredentialsLabel},
		"a namespace that is labelled":                 {nil, &labels{values: map[string]string{"team": infrav1.OwnCredentialsAllowed}}, false, true, false, ""},
		"a namespace that the flag names":              {[]string{"other", "team"}, &labels{}, false, true, false, ""},
		"every namespace":                              {[]string{"*"}, &labels{}, false, true, false, ""},
		"not a namespace of another name":              {[]string{"team-b", "tea", ""}, &labels{}, false, false, false, "spec.credentialsSecretName"},
		"any, of a cloud without credentials":          {nil, &labels{}, true, true, false, ""},
		"the flag's only, where labels cannot be read": {nil, &labels{err: forbidden}, false, false, false, "may not get namespaces"},
		"an error while the API server fails":          {nil, &labels{err: errors.New("etcd is slow")}, false, false, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := cloudOf(func(driver.Account) driver.Driver[fake.Config] { return fake.New(fake.Options{}) })
			cloud.NoCredentials = test.without
			cache := account.NewCache(cloud, account.Options{OwnCredentials: test.named, Namespaces: test.labels, Now: clock})
			for range 3 {
				_, err := cache.Driver(t.Context(), &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "team"}})
				if (err == nil) != test.ok || err != nil && driver.IsUnauthorized(err) == test.passing {
					t.Fatalf("got %v, want ok %t", err, test.ok)
				}
				if err != nil && !strings.Contains(err.Error(), test.mentions) {
					t.Errorf("got %v, want a word on %q", err, test.mentions)
				}
			}
			if test.labels.reads > 1 && !test.passing {
				t.Errorf("the Namespace was read %d times, want once", test.labels.reads)
			}
		})
	}
}

// TestRevokedPermission prevents creations, and no deletion of an instance in that account.
func TestRevokedPermission(t *testing.T) {
	t.Parallel()
	pin := map[string]string{infrav1.AccountAnnotation: "here"}
	leaving, here := metav1.Now(), infrav1.MachineStatus{Account: "here"}
	for name, test := range map[string]struct {
		machine infrav1.SimMachine
		want    func(error) bool
	}{
		"a machine that is new":                        {infrav1.SimMachine{}, driver.IsUnauthorized},
		"a machine that is only pinned":                {infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Annotations: pin}}, driver.IsUnauthorized},
		"a machine that was not pinned":                {infrav1.SimMachine{Spec: infrav1.SimMachineSpec{ProviderID: "p"}}, driver.IsUnauthorized},
		"a machine whose pin its owner wrote":          {infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Annotations: pin}, Spec: infrav1.SimMachineSpec{ProviderID: "p"}}, driver.IsUnauthorized},
		"a deleted one whose pin its owner wrote":      {infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Annotations: pin, DeletionTimestamp: &leaving}}, driver.IsUnauthorized},
		"a machine whose pin its owner changed":        {infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Annotations: pin}, Spec: infrav1.SimMachineSpec{ProviderID: "p"}, Status: infrav1.MachineStatus{Account: "there"}}, driver.IsUnauthorized},
		"a machine with an instance":                   {infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Annotations: pin}, Spec: infrav1.SimMachineSpec{ProviderID: "p"}, Status: here}, func(err error) bool { return err == nil }},
		"a machine that is deleted":                    {infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Annotations: pin, DeletionTimestamp: &leaving}, Status: here}, func(err error) bool { return err == nil }},
		"a machine that is deleted in another account": {infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &leaving}, Status: infrav1.MachineStatus{Account: "there"}}, driver.IsAccountMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cache := account.NewCache(cloudOf(func(driver.Account) driver.Driver[fake.Config] { return fake.New(fake.Options{Account: "here"}) }),
				account.Options{Namespaces: &labels{values: map[string]string{"team": ""}}, Now: clock})
			test.machine.Namespace = "team"
			if _, err := cache.Driver(t.Context(), &test.machine); !test.want(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestEndpointNeedsASecret: the provider's own credentials are never sent there, so nothing is connected.
func TestEndpointNeedsASecret(t *testing.T) {
	t.Parallel()
	var connected []driver.Account
	cache := account.NewCache(cloudOf(func(at driver.Account) driver.Driver[fake.Config] {
		connected = append(connected, at)
		return fake.New(fake.Options{})
	}), account.Options{Secrets: secrets{{Namespace: "team", Name: "cloud"}: "token"}, OwnCredentials: []string{account.EveryNamespace}, Now: clock})
	named := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "team"}, Spec: infrav1.SimMachineSpec{Zone: "evil.example"}}
	if _, err := cache.Driver(t.Context(), named); !driver.IsInvalidConfiguration(err) || !strings.Contains(err.Error(), "spec.credentialsSecretName") {
		t.Errorf("got %v, want an InvalidConfigurationError", err)
	}
	if len(connected) > 0 {
		t.Errorf("connected to %+v", connected)
	}
	named.Spec.InstanceType = "cloud"
	if _, err := cache.Driver(t.Context(), named); err != nil || len(connected) != 1 {
		t.Errorf("with a Secret: got %v and %d connections", err, len(connected))
	}
}

// deaf is a cloud that never answers.
type deaf struct {
	driver.Driver[fake.Config]
	entered chan struct{}
}

func (d *deaf) Get(ctx context.Context, _ driver.Identity) (driver.Instance, error) {
	d.entered <- struct{}{}
	<-ctx.Done()
	return driver.Instance{}, ctx.Err()
}

func (d *deaf) List(ctx context.Context, _ driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		d.entered <- struct{}{}
		<-ctx.Done()
		yield(driver.Instance{}, ctx.Err())
	}
}

// TestHangingAccountHoldsAShareOfTheWorkers has all workers call a cloud that never answers, and
// others call one that does.
func TestHangingAccountHoldsAShareOfTheWorkers(t *testing.T) {
	t.Parallel()
	const workers = 10
	for name, interval := range map[string]time.Duration{"with an inventory": time.Minute, "without": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hangs := &deaf{Driver: fake.New(fake.Options{}), entered: make(chan struct{}, workers)}
			well := fake.New(fake.Options{})
			cache := account.NewCache(cloudOf(func(at driver.Account) driver.Driver[fake.Config] {
				if at.SecretName == "deaf" {
					return hangs
				}
				return well
			}), account.Options{
				Secrets: secrets{{Namespace: "a", Name: "deaf"}: "d", {Namespace: "b", Name: "well"}: "w"}, Now: clock,
				Changed: func(driver.Identity) {}, Interval: interval, Workers: workers,
			})
			get := func(ctx context.Context, namespace, secret string) error {
				connected, err := cache.Driver(ctx, &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: infrav1.SimMachineSpec{InstanceType: secret}})
				if err == nil {
					_, err = connected.Get(ctx, driver.Identity{UID: "u", Name: "m", Owner: home})
				}
				return err
			}
			ctx, cancel := context.WithCancel(t.Context())
			var callers sync.WaitGroup
			answers := make(chan error, workers)
			for range workers {
				callers.Go(func() { answers <- get(ctx, "a", "deaf") })
			}
			for range workers / 2 {
				if err := <-answers; !driver.IsBusy(err) {
					t.Errorf("got %v, want a BusyError", err)
				}
			}
			for range 20 {
				if err := get(ctx, "b", "well"); !driver.IsNotFound(err) {
					t.Errorf("another account: got %v, want a NotFoundError", err)
				}
			}
			cancel()
			callers.Wait()
			if err := get(t.Context(), "b", "well"); !driver.IsNotFound(err) {
				t.Errorf("afterwards: got %v, want a NotFoundError", err)
			}
		})
	}
}

// TestHangingAccountsOfANamespaceHoldAShareOfTheWorkers has all Secrets of one namespace lead to a cloud that never answers, and
// then those of as many namespaces as there are workers.
func TestHangingAccountsOfANamespaceHoldAShareOfTheWorkers(t *testing.T) {
	t.Parallel()
	const workers = 12
	for name, test := range map[string]struct {
		namespace func(n int) string
		// before is how many hold a worker while none is known to be slow, more how many get one beside those, and
		// after how many of those that call next once these have ended.
		before, more, after int
	}{
		"of one namespace":   {func(int) string { return "evil" }, workers / 2, 0, workers / 2},
		"of many namespaces": {func(n int) string { return fmt.Sprint("evil-", n) }, workers - 2, 1, workers / 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now, all := time.Unix(1_000_000, 0), secrets{{Namespace: "b", Name: "well"}: "w"}
			for n := range 2 * workers {
				all[client.ObjectKey{Namespace: test.namespace(n), Name: fmt.Sprint("deaf-", n)}] = "d"
			}
			hangs, well := &deaf{Driver: fake.New(fake.Options{}), entered: make(chan struct{}, 3*workers)}, fake.New(fake.Options{})
			var clock sync.Mutex
			cache := account.NewCache(cloudOf(func(at driver.Account) driver.Driver[fake.Config] {
				if at.SecretName == "well" {
					return well
				}
				return hangs
			}), account.Options{Secrets: all, Now: func() time.Time {
				clock.Lock()
				defer clock.Unlock()
				return now
			}, Changed: func(driver.Identity) {}, Workers: workers})
			get := func(ctx context.Context, namespace, secret string) error {
				connected, err := cache.Driver(ctx, &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: infrav1.SimMachineSpec{InstanceType: secret}})
				if err == nil {
					_, err = connected.Get(ctx, driver.Identity{UID: "u", Name: "m", Owner: home})
				}
				return err
			}
			// held calls under each of so many Secrets, and returns how many calls got a worker.
			var callers sync.WaitGroup
			held := func(ctx context.Context, from, to int) (got int) {
				answers := make(chan error, to-from)
				for n := from; n < to; n++ {
					callers.Go(func() { answers <- get(ctx, test.namespace(n), fmt.Sprint("deaf-", n)) })
				}
				for range to - from {
					select {
					case <-hangs.entered:
						got++
					case err := <-answers:
						if !driver.IsBusy(err) {
							t.Errorf("got %v, want a BusyError", err)
						}
					}
				}
				return got
			}
			ctx, cancel := context.WithCancel(t.Context())
			if got := held(ctx, 0, workers-2); got != test.before {
				t.Errorf("%d hold a worker, want %d", got, test.before)
			}
			if err := get(ctx, "b", "well"); !driver.IsNotFound(err) {
				t.Errorf("another account: got %v, want a NotFoundError", err)
			}
			clock.Lock()
			now = now.Add(10 * time.Second)
			clock.Unlock()
			if got := held(ctx, 0, workers-2); got != test.more {
				t.Errorf("%d slow ones hold another worker, want %d", got, test.more)
			}
			cancel()
			callers.Wait()
			ctx, cancel = context.WithCancel(t.Context())
			if got := held(ctx, 0, workers-2); got != test.after {
				t.Errorf("%d hold a worker afterwards, want %d", got, test.after)
			}
			cancel()
			callers.Wait()
			if err := get(t.Context(), "b", "well"); !driver.IsNotFound(err) {
				t.Errorf("afterwards: got %v, want a NotFoundError", err)
			}
		})
	}
}

// endless is a cloud whose list has no end.
type endless struct{ driver.Driver[fake.Config] }

func (endless) List(context.Context, driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		for n := 0; yield(driver.Instance{ProviderID: fmt.Sprint(n), State: driver.Running}, nil); n++ {
		}
	}
}

// TestListsWithoutEndAreAborted, however many Secrets of a namespace lead to such clouds.
func TestListsWithoutEndAreAborted(t *testing.T) {
	t.Parallel()
	all := secrets{}
	cache := account.NewCache(cloudOf(func(driver.Account) driver.Driver[fake.Config] {
		return endless{fake.New(fake.Options{})}
	}), account.Options{Secrets: all, Now: clock, Changed: func(driver.Identity) {}, Interval: time.Minute})
	for n := range 3 {
		name := fmt.Sprint("endless-", n)
		all[client.ObjectKey{Namespace: "evil", Name: name}] = "x"
		connected, err := cache.Driver(t.Context(), &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "evil"}, Spec: infrav1.SimMachineSpec{InstanceType: name}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := connected.Get(t.Context(), driver.Identity{UID: "u", Name: "m", Owner: home}); !driver.IsNotFound(err) {
			t.Errorf("by itself: got %v, want a NotFoundError", err)
		}
	}
}

// TestUnusedAccountsAreRemoved, and so are those whose Secret does not exist any more.
func TestUnusedAccountsAreRemoved(t *testing.T) {
	t.Parallel()
	d := newEnv(time.Minute)
	for n := range 10_000 {
		key := client.ObjectKey{Namespace: fmt.Sprint("team-", n), Name: "cloud"}
		d.secrets[key] = "token"
		if _, err := d.Driver(t.Context(), machine(key.Namespace, key.Name)); err != nil {
			t.Fatal(err)
		}
		if n%500 == 0 {
			d.now = d.now.Add(5 * time.Minute)
			d.Tidy(t.Context())
		}
		if n%2 == 0 {
			delete(d.secrets, key)
		}
	}
	if kept := len(d.All()); kept > 6_100 {
		t.Errorf("%d accounts are kept, want those of the last hour", kept)
	}
	d.now = d.now.Add(2 * time.Minute)
	d.Tidy(t.Context())
	if kept := len(d.All()); kept > 3_100 || kept < 2_000 {
		t.Errorf("%d accounts are kept, want those of the last hour that have a Secret", kept)
	}
	d.now = d.now.Add(time.Hour)
	d.Tidy(t.Context())
	if kept := len(d.All()); kept != 0 {
		t.Errorf("%d accounts are kept that nobody asked for in an hour", kept)
	}
}

// TestAccountWithoutItsSecretIsRemoved as soon as the Secret was found missing.
func TestAccountWithoutItsSecretIsRemoved(t *testing.T) {
	t.Parallel()
	d := newEnv(time.Minute)
	key := client.ObjectKey{Namespace: "a", Name: "cloud"}
	d.secrets[key] = "token"
	d.want(t, machine("a", "cloud"), 1)
	delete(d.secrets, key)
	d.now = d.now.Add(time.Minute)
	if _, err := d.Driver(t.Context(), machine("a", "cloud")); !driver.IsUnauthorized(err) || len(d.All()) > 0 {
		t.Errorf("got %v and %d accounts, want an UnauthorizedError and none", err, len(d.All()))
	}
	d.secrets[key] = "token"
	d.want(t, machine("a", "cloud"), 2)
}
