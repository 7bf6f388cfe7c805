// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package account_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
	"drover.io/infra-providers/internal/account"
	"drover.io/infra-providers/internal/panicerror"
	"drover.io/runtime/logtest"
)

// panicking is a driver that panics in every call, as an SDK may at the answer of a server that a tenant runs.
type panicking struct{}

const secretAnswer = "an answer of the server"

func (panicking) Create(context.Context, driver.CreateRequest[fake.Config]) (driver.Instance, error) {
	panic(secretAnswer)
}
func (panicking) Get(context.Context, driver.Identity) (driver.Instance, error)  { panic(secretAnswer) }
func (panicking) Delete(context.Context, driver.Identity) error                  { panic(secretAnswer) }
func (panicking) AccountID(context.Context) (string, error)                      { panic(secretAnswer) }
func (panicking) Tag(context.Context, driver.Identity) error                     { panic(secretAnswer) }
func (panicking) Restart(context.Context, driver.Identity) error                 { panic(secretAnswer) }
func (panicking) Capacity(context.Context, fake.Config) (driver.Capacity, error) { panic(secretAnswer) }
func (panicking) FindImage(context.Context, fake.Config) (driver.Image, error)   { panic(secretAnswer) }
func (panicking) List(context.Context, driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(func(driver.Instance, error) bool) { panic(secretAnswer) }
}
func (panicking) AttachedObjects(context.Context, driver.Owner) iter.Seq2[driver.AttachedObject, error] {
	return func(func(driver.AttachedObject, error) bool) { panic(secretAnswer) }
}

func last[T any](list iter.Seq2[T, error]) (err error) {
	for _, err = range list {
		continue
	}
	return err
}

func TestPanicOfADriverIsAnError(t *testing.T) {
	t.Parallel()
	cache := account.NewCache(cloudOf(func(driver.Account) driver.Driver[fake.Config] { return panicking{} }), account.Options{
		OwnCredentials: []string{account.EveryNamespace}, Now: time.Now, Changed: func(driver.Identity) {}, Interval: time.Hour, Workers: 10,
	})
	cloud, err := cache.Driver(t.Context(), &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "team"}})
	if err != nil {
		t.Fatal(err)
	}
	id := driver.Identity{UID: "u", Name: "m", ProviderID: "p"}
	for name, call := range map[string]func(context.Context) error{
		"create": func(ctx context.Context) error {
			_, err := cloud.Create(ctx, driver.CreateRequest[fake.Config]{Identity: id})
			return err
		},
		"get":    func(ctx context.Context) error { _, err := cloud.Direct.Get(ctx, id); return err },
		"delete": func(ctx context.Context) error { return cloud.Delete(ctx, id) },
		"list":   func(ctx context.Context) error { return last(cloud.Direct.List(ctx, driver.Owner{})) },
		"remains": func(ctx context.Context) error {
			return last(cloud.AttachedObjects.AttachedObjects(ctx, driver.Owner{}))
		},
		"account":  func(ctx context.Context) error { _, err := cloud.ID(ctx); return err },
		"tag":      func(ctx context.Context) error { return cloud.Tag(ctx, id) },
		"restart":  func(ctx context.Context) error { return cloud.Restart(ctx, id) },
		"capacity": func(ctx context.Context) error { _, err := cloud.Capacity(ctx, "team-a", fake.Config{}); return err },
		"image":    func(ctx context.Context) error { _, err := cloud.FindImage(ctx, "team-a", fake.Config{}); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &logtest.Recorder{}
			for range 3 {
				err := call(log.Context(t.Context()))
				if _, ok := errors.AsType[*panicerror.Error](err); !ok {
					t.Errorf("got %v", err)
				}
				if err != nil && strings.Contains(err.Error(), secretAnswer) {
					t.Errorf("the error %q, which ends in a condition, has the value of the panic", err)
				}
			}
			if lines := log.Lines("recovered from a panic"); len(lines) != 1 || !strings.Contains(lines[0], "panics_test.go") {
				t.Errorf("logged %q, want one line with the stack", log.Take())
			}
		})
	}
}

// TestPanicInARefreshIsLogged: lists of an account are read by goroutines of the cache, where a panic would end
// the process.
func TestPanicInARefreshIsLogged(t *testing.T) {
	t.Parallel()
	cache := account.NewCache(cloudOf(func(at driver.Account) driver.Driver[fake.Config] {
		if at.Endpoint == "connect" {
			panic(secretAnswer)
		}
		return panicking{}
	}), account.Options{
		Secrets: secrets{{Namespace: "team", Name: "mine"}: "x"}, Now: time.Now, Changed: func(driver.Identity) {}, Interval: time.Millisecond,
	})
	for server, fails := range map[string]bool{"list": false, "connect": true} {
		_, err := cache.Driver(t.Context(), &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "team"}, Spec: infrav1.SimMachineSpec{InstanceType: "mine", Zone: server}})
		if _, ok := errors.AsType[*panicerror.Error](err); ok != fails {
			t.Errorf("%s: got %v", server, err)
		}
	}
	log := &logtest.Recorder{}
	ctx, cancel := context.WithTimeout(log.Context(t.Context()), time.Minute)
	var refreshed sync.WaitGroup
	refreshed.Go(func() {
		defer cancel()
		err := wait.PollUntilContextCancel(ctx, time.Millisecond, true, func(context.Context) (bool, error) {
			return len(log.Lines("refreshing inventory")) > 1, nil
		})
		if err != nil {
			t.Errorf("logged %q, want that the accounts are refreshed again", log.Take())
		}
	})
	if err := cache.Start(ctx); err != nil {
		t.Error(err)
	}
	refreshed.Wait()
}
