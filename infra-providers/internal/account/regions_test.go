// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package account_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
	"drover.io/infra-providers/internal/account"
)

// TestRegionsOfANamespaceAreBounded: each region has a connection, a list a minute and a rate of calls of its own, and the
// author of a spec may write any name.
func TestRegionsOfANamespaceAreBounded(t *testing.T) {
	t.Parallel()
	const most, tried = 64, 500
	for name, secret := range map[string]string{"with the provider's own credentials": "", "with a Secret": "cloud"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Unix(1_000_000, 0)
			cache := account.NewCache(driver.Cloud[*infrav1.SimMachine, fake.Config]{
				Name: "fake",
				Account: func(m *infrav1.SimMachine) driver.Account {
					return driver.Account{SecretName: secret, Region: m.Spec.Zone}
				},
				Connect: func(context.Context, driver.Account, driver.Credentials) (driver.Driver[fake.Config], error) {
					return fake.New(fake.Options{Account: "here"}), nil
				},
			}, account.Options{
				Secrets:        secrets{{Namespace: "evil", Name: "cloud"}: "e", {Namespace: "team", Name: "cloud"}: "t"},
				OwnCredentials: []string{account.EveryNamespace}, Now: func() time.Time { return now }, Changed: func(driver.Identity) {},
			})
			get := func(namespace, region string) error {
				_, err := cache.Driver(t.Context(), &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: infrav1.SimMachineSpec{Zone: region}})
				return err
			}
			refused := 0
			for n := range tried {
				if err := get("evil", fmt.Sprint("region-", n)); driver.IsUnauthorized(err) {
					refused++
				} else if err != nil {
					t.Fatal(err)
				}
			}
			if connected := len(cache.All()); connected > most || refused != tried-most {
				t.Errorf("%d of %d regions are connected and %d refused, want %d connected", connected, tried, refused, most)
			}
			if err := get("evil", "region-0"); err != nil {
				t.Errorf("a region that is connected: got %v", err)
			}
			for _, region := range []string{"home", fmt.Sprint("region-", tried-1)} {
				if err := get("team", region); err != nil {
					t.Errorf("another namespace: got %v", err)
				}
			}
			deleted := metav1.NewTime(now)
			machine := &infrav1.SimMachine{
				ObjectMeta: metav1.ObjectMeta{Namespace: "evil", DeletionTimestamp: &deleted},
				Spec:       infrav1.SimMachineSpec{Zone: "region-of-an-instance", ProviderID: "p"}, Status: infrav1.MachineStatus{Account: "here"},
			}
			if _, err := cache.Driver(t.Context(), machine); err != nil {
				t.Errorf("a machine that has an instance: got %v", err)
			}
			now = now.Add(time.Hour)
			if err := get("evil", "another"); err != nil {
				t.Errorf("once no other region is used: got %v", err)
			}
		})
	}
}

// unidentified is a region that does not answer what its account is.
type unidentified struct{ driver.Driver[fake.Config] }

func (unidentified) AccountID(ctx context.Context) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

// TestRegionsThatDoNotAnswerLeaveWorkersToOthers: before a machine that has an account is served, each region is asked for
// its own.
func TestRegionsThatDoNotAnswerLeaveWorkersToOthers(t *testing.T) {
	t.Parallel()
	const workers = 20
	cache := account.NewCache(driver.Cloud[*infrav1.SimMachine, fake.Config]{
		Name:    "fake",
		Account: func(m *infrav1.SimMachine) driver.Account { return driver.Account{Region: m.Spec.Zone} },
		Connect: func(_ context.Context, at driver.Account, _ driver.Credentials) (driver.Driver[fake.Config], error) {
			cloud := fake.New(fake.Options{Account: "here"})
			if at.Region == "home" {
				return cloud, nil
			}
			return unidentified{cloud}, nil
		},
	}, account.Options{OwnCredentials: []string{account.EveryNamespace}, Now: time.Now, Changed: func(driver.Identity) {}, Workers: workers})
	get := func(ctx context.Context, namespace, region string) error {
		machine := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: infrav1.SimMachineSpec{Zone: region}}
		machine.Status.Account = "here"
		_, err := cache.Driver(ctx, machine)
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	answers := make(chan error, workers)
	for n := range workers {
		callers.Go(func() { answers <- get(ctx, "evil", fmt.Sprint("region-", n)) })
	}
	for range workers / 2 {
		if err := <-answers; !driver.IsBusy(err) {
			t.Errorf("got %v, want a BusyError", err)
		}
	}
	if err := get(ctx, "team", "home"); err != nil {
		t.Errorf("another namespace: got %v", err)
	}
	cancel()
	callers.Wait()
}
