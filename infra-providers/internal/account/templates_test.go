// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package account_test

import (
	"context"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
	"drover.io/infra-providers/internal/account"
)

// slowImages is a cloud whose look-up of an image takes long, as that of a pattern in a large vCenter.
type slowImages struct {
	*fake.Cloud
	begun chan struct{}
	end   chan struct{}
}

func (s *slowImages) FindImage(context.Context, fake.Config) (driver.Image, error) {
	s.begun <- struct{}{}
	<-s.end
	return driver.Image{}, nil
}

// After a restart, in the account of the provider's own credentials: team-a's templates are looked up; team-b's machine
// is pinned and needs the account's name once.
func TestTemplatesOfOneNamespaceLeaveSeatsToOthers(t *testing.T) {
	t.Parallel()
	slow := &slowImages{Cloud: fake.New(fake.Options{Account: "here"}), begun: make(chan struct{}, 100), end: make(chan struct{})}
	cache := account.NewCache(cloudOf(func(driver.Account) driver.Driver[fake.Config] { return slow }),
		account.Options{OwnCredentials: []string{"team-a", "team-b"}, Now: clock, Workers: 10, Changed: func(driver.Identity) {}})
	a, err := cache.Driver(t.Context(), &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a"}})
	if err != nil || a.FindImage == nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	refused := make(chan error, 10)
	for range 10 {
		running.Go(func() {
			if _, err := a.FindImage(t.Context(), "team-a", fake.Config{}); err != nil {
				refused <- err
			}
		})
	}
	for held := 0; held+len(refused) < 10; {
		select {
		case <-slow.begun:
			held++
		default:
		}
	}
	pin := map[string]string{infrav1.AccountAnnotation: "here"}
	_, err = cache.Driver(t.Context(), &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "team-b", Annotations: pin}})
	close(slow.end)
	running.Wait()
	if driver.IsBusy(err) {
		t.Errorf("team-b's machine: %v, while %d look-ups are team-a's", err, 10-len(refused))
	}
}
