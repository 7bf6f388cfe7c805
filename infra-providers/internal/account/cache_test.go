// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package account_test

import (
	"context"
	"errors"
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

// env is a Cache over a cloud whose machines name a Secret by their zone.
type env struct {
	*account.Cache[*infrav1.SimMachine, fake.Config]
	cloud     *fake.Cloud
	secrets   secrets
	connected []string
	changed   []string
	now       time.Time
}

// secrets are the Secrets there are: namespace and name to token.
type secrets map[client.ObjectKey]string

func (s secrets) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	token, ok := s[key]
	if !ok {
		return apierrors.NewNotFound(corev1.Resource("secrets"), key.Name)
	}
	secret := object.(*corev1.Secret)
	secret.Data, secret.ResourceVersion = map[string][]byte{"token": []byte(token)}, "version of "+token
	return nil
}

func (s secrets) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("secrets are never listed")
}

func newEnv(interval time.Duration) *env {
	d := &env{cloud: fake.New(fake.Options{}), secrets: secrets{}, now: time.Unix(1_000_000, 0)}
	d.Cache = account.NewCache(driver.Cloud[*infrav1.SimMachine, fake.Config]{
		Name:    "fake",
		Account: func(m *infrav1.SimMachine) driver.Account { return driver.Account{SecretName: m.Spec.Zone} },
		Connect: func(_ context.Context, _ driver.Account, credentials driver.Credentials) (driver.Driver[fake.Config], error) {
			d.connected = append(d.connected, string(credentials["token"]))
			return d.cloud, nil
		},
	}, account.Options{
		Secrets:        d.secrets,
		OwnCredentials: []string{account.EveryNamespace},
		Now:            func() time.Time { return d.now },
		Changed:        func(id driver.Identity) { d.changed = append(d.changed, id.Name) },
		Interval:       interval,
	})
	return d
}

func machine(namespace, secret string) *infrav1.SimMachine {
	return &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: infrav1.SimMachineSpec{Zone: secret}}
}

func (d *env) want(t *testing.T, m *infrav1.SimMachine, connections int) {
	t.Helper()
	if _, err := d.Driver(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if len(d.connected) != connections {
		t.Errorf("connected with %q, want %d connections", d.connected, connections)
	}
}

func TestConnectsOncePerAccount(t *testing.T) {
	t.Parallel()
	d := newEnv(0)
	d.secrets[client.ObjectKey{Namespace: "a", Name: "cloud"}] = "one"
	d.secrets[client.ObjectKey{Namespace: "b", Name: "cloud"}] = "two"
	for range 3 {
		d.want(t, machine("a", "cloud"), 1)
	}
	d.want(t, machine("b", "cloud"), 2) // another namespace, another Secret
	d.want(t, machine("a", ""), 3)      // no Secret: the environment
	d.want(t, machine("b", ""), 3)      // which is the same for everybody
}

func TestRotatedCredentials(t *testing.T) {
	t.Parallel()
	d := newEnv(0)
	key := client.ObjectKey{Namespace: "a", Name: "cloud"}
	d.secrets[key] = "old"
	d.want(t, machine("a", "cloud"), 1)
	d.secrets[key] = "new"
	d.want(t, machine("a", "cloud"), 1) // trusted for a minute
	d.now = d.now.Add(time.Minute)
	d.want(t, machine("a", "cloud"), 2)
	d.now = d.now.Add(time.Minute)
	d.want(t, machine("a", "cloud"), 2) // the same Secret is not a reason to connect again
	d.secrets[key] = "newest"
	d.Refused(t.Context(), machine("a", "cloud"), &driver.UnauthorizedError{Err: errors.New("token refused")})
	d.want(t, machine("a", "cloud"), 3) // at once, when the cloud refused the present ones
}

func TestMissingCredentialsAreUnauthorized(t *testing.T) {
	t.Parallel()
	d := newEnv(0)
	if _, err := d.Driver(t.Context(), machine("a", "nowhere")); !driver.IsUnauthorized(err) {
		t.Errorf("got %v, want an UnauthorizedError", err)
	}
}

// down is an API server that does not answer.
type down struct{ secrets }

func (down) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return apierrors.NewTimeoutError("etcd is slow", 1)
}

func TestTimeoutOfASecretIsTransient(t *testing.T) {
	t.Parallel()
	cache := account.NewCache(driver.Cloud[*infrav1.SimMachine, fake.Config]{
		Account: func(*infrav1.SimMachine) driver.Account { return driver.Account{SecretName: "cloud"} },
	}, account.Options{Secrets: down{}, Now: time.Now})
	if _, err := cache.Driver(t.Context(), machine("a", "")); err == nil || driver.IsUnauthorized(err) {
		t.Errorf("got %v, want an error that may pass", err)
	}
}

func TestAbilitiesCountAsCalls(t *testing.T) {
	t.Parallel()
	cache := account.NewCache(driver.Cloud[*infrav1.SimMachine, fake.Config]{
		Account: func(*infrav1.SimMachine) driver.Account { return driver.Account{} },
		Limits:  driver.Limits{PerSecond: 0.001, Burst: 2},
		Connect: func(context.Context, driver.Account, driver.Credentials) (driver.Driver[fake.Config], error) {
			return fake.New(fake.Options{}), nil
		},
	}, account.Options{OwnCredentials: []string{account.EveryNamespace}, Now: func() time.Time { return time.Unix(1_000_000, 0) }})
	connected, err := cache.Driver(t.Context(), machine("a", ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connected.Capacity(t.Context(), "team-a", fake.Config{InstanceType: "small"}); err != nil {
		t.Error(err)
	}
	if found, err := connected.FindImage(t.Context(), "team-a", fake.Config{}); err != nil || found.ID == "" {
		t.Errorf("got %+v and %v", found, err)
	}
	if _, err := connected.FindImage(t.Context(), "team-a", fake.Config{}); !driver.IsRateLimited(err) {
		t.Errorf("over the limit: got %v, want a RateLimitedError", err)
	}
}

func TestChangeInTheCloudIsReadDirectly(t *testing.T) {
	t.Parallel()
	d := newEnv(time.Minute)
	connected, err := d.Driver(t.Context(), machine("a", ""))
	if err != nil {
		t.Fatal(err)
	}
	id := driver.Identity{UID: "u", Name: "m", Owner: home}
	req := driver.CreateRequest[fake.Config]{Identity: id, Config: fake.Config{InstanceType: "small", Zone: "z"}}
	if _, err := connected.Create(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if _, err := connected.Get(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	d.cloud.Set("u", func(i *driver.Instance) { i.State = driver.Stopped })
	if len(d.changed) != 1 || d.changed[0] != "m" {
		t.Errorf("told about %q, want m", d.changed)
	}
	if got, err := connected.Get(t.Context(), id); err != nil || got.State != driver.Stopped {
		t.Errorf("got %s and %v, want Stopped", got.State, err)
	}
}
