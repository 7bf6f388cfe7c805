// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package account_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
	"drover.io/infra-providers/internal/account"
)

// restless lists an instance of each of two namespaces, in another state each time, and notifies of both.
type restless struct {
	driver.Driver[fake.Config]
	lists  int
	notify func(driver.Identity)
}

func (r *restless) Notify(changed func(driver.Identity)) { r.notify = changed }

func (r *restless) List(context.Context, driver.Owner) iter.Seq2[driver.Instance, error] {
	r.lists++
	state := []driver.State{driver.Running, driver.Stopped}[r.lists%2]
	return func(yield func(driver.Instance, error) bool) {
		for _, id := range []driver.Identity{identityIn("own"), identityIn("other")} {
			if !yield(driver.Instance{ID: id.Owner.Namespace, ProviderID: id.ProviderID, Identity: id, State: state}, nil) {
				return
			}
		}
	}
}

func identityIn(namespace string) driver.Identity {
	return driver.Identity{UID: "u", Name: "worker", Owner: driver.Owner{UID: "c", Namespace: namespace, Name: "home"}, ProviderID: "fake:///a/" + namespace}
}

// TestTenantServerReportsOnlyItsNamespace: it shows instances with the tags of another namespace.
func TestTenantServerReportsOnlyItsNamespace(t *testing.T) {
	t.Parallel()
	enqueued, now := map[string]int{}, clock()
	server := &restless{Driver: fake.New(fake.Options{})}
	cache := account.NewCache(cloudOf(func(driver.Account) driver.Driver[fake.Config] { return server }), account.Options{
		Secrets: secrets{client.ObjectKey{Namespace: "own", Name: "mine"}: "x"}, Now: func() time.Time { return now }, Interval: time.Minute,
		Changed: func(id driver.Identity) { enqueued[id.Owner.Namespace]++ },
	})
	for range 3 {
		if _, err := cache.Driver(t.Context(), &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "own"}, Spec: infrav1.SimMachineSpec{InstanceType: "mine"}}); err != nil {
			t.Fatal(err)
		}
		cache.Tidy(t.Context())
		now = now.Add(time.Minute)
	}
	for _, namespace := range []string{"own", "other"} {
		server.notify(identityIn(namespace))
	}
	if diff := cmp.Diff(map[string]int{"own": 3}, enqueued); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
}
