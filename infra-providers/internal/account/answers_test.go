// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package account_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
	"drover.io/infra-providers/internal/account"
	"drover.io/runtime/httplimit"
	"drover.io/runtime/logtest"
)

// reader is a driver that reads a long answer of a server, and leaves it open.
type reader struct {
	driver.Driver[fake.Config]
	server    string
	transport http.RoundTripper
	opened    *[]io.Closer
}

func (r reader) Get(ctx context.Context, _ driver.Identity) (driver.Instance, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.server, nil)
	if err != nil {
		return driver.Instance{}, err
	}
	response, err := r.transport.RoundTrip(request)
	if err != nil {
		return driver.Instance{}, err
	}
	*r.opened = append(*r.opened, response.Body)
	_, err = io.ReadAll(response.Body)
	return driver.Instance{}, err
}

// TestLargeResponseLimitIsPerNamespace: a namespace may have any number of Secrets, and each of them names servers.
func TestLargeResponseLimitIsPerNamespace(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 100)) }))
	t.Cleanup(server.Close)
	var opened []io.Closer
	t.Cleanup(func() {
		for _, body := range opened {
			_ = body.Close()
		}
	})
	shared := httplimit.NewSeats(4, 10).WrapShared(http.DefaultTransport)
	cache := account.NewCache(cloudOf(func(driver.Account) driver.Driver[fake.Config] {
		return reader{server: server.URL, transport: shared, opened: &opened}
	}), account.Options{
		Secrets: secrets{{Namespace: "a", Name: "1"}: "x", {Namespace: "a", Name: "2"}: "x", {Namespace: "b", Name: "1"}: "x"}, Now: time.Now, Changed: func(driver.Identity) {},
	})
	for _, test := range []struct {
		namespace, secret string
		busy              bool
	}{{"a", "1", false}, {"a", "2", false}, {"a", "1", true}, {"a", "2", true}, {"b", "1", false}} {
		cloud, err := cache.Driver(t.Context(), &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: test.namespace}, Spec: infrav1.SimMachineSpec{InstanceType: test.secret}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // an answer waits until then
		t.Cleanup(cancel)
		_, err = cloud.Direct.Get(ctx, driver.Identity{UID: "u"})
		if _, busy := errors.AsType[*httplimit.BusyError](err); busy != test.busy {
			t.Errorf("Secret %q of %q: got %v", test.secret, test.namespace, err)
		}
	}
}

// refusing is a driver whose server refuses with a long text.
type refusing struct {
	driver.Driver[fake.Config]
	err error
}

func (r refusing) Get(context.Context, driver.Identity) (driver.Instance, error) {
	return driver.Instance{}, r.err
}

func (r refusing) List(context.Context, driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) { yield(driver.Instance{}, r.err) }
}

// TestLongErrorsAreShortened: errors are logged and kept, and a server that a Secret names chooses their texts.
func TestLongErrorsAreShortened(t *testing.T) {
	t.Parallel()
	long := errors.New(strings.Repeat("x", 1<<20))
	cache := account.NewCache(cloudOf(func(driver.Account) driver.Driver[fake.Config] {
		return refusing{err: &driver.UnauthorizedError{Err: long}}
	}), account.Options{
		Secrets: secrets{{Namespace: "a", Name: "1"}: "x"}, Now: time.Now, Changed: func(driver.Identity) {}, Interval: time.Minute,
	})
	cloud, err := cache.Driver(t.Context(), &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}, Spec: infrav1.SimMachineSpec{InstanceType: "1"}})
	if err != nil {
		t.Fatal(err)
	}
	_, direct := cloud.Direct.Get(t.Context(), driver.Identity{UID: "u"})
	_, listed := cloud.Get(t.Context(), driver.Identity{UID: "u"})
	for name, err := range map[string]error{"a read": direct, "a list": listed} {
		if !driver.IsUnauthorized(err) || errors.Is(err, long) || len(err.Error()) > 8<<10 {
			t.Errorf("%s: got a %T of %d bytes", name, err, len(err.Error()))
		}
	}
}

// TestLongErrorsOfCredentialsAreShortened: whoever may create Secrets chooses what an error about one quotes, and it is logged
// with each refresh of the account.
func TestLongErrorsOfCredentialsAreShortened(t *testing.T) {
	t.Parallel()
	cloud := cloudOf(nil)
	cloud.Connect = func(_ context.Context, _ driver.Account, credentials driver.Credentials) (driver.Driver[fake.Config], error) {
		return nil, &driver.UnauthorizedError{Err: fmt.Errorf("there is no cloud %q", credentials["token"])}
	}
	cache := account.NewCache(cloud, account.Options{
		Secrets: secrets{{Namespace: "a", Name: "1"}: strings.Repeat("x", 1<<20)}, Now: time.Now, Changed: func(driver.Identity) {}, Interval: time.Millisecond,
	})
	_, err := cache.Driver(t.Context(), &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}, Spec: infrav1.SimMachineSpec{InstanceType: "1"}})
	if !driver.IsUnauthorized(err) || len(err.Error()) > 8<<10 {
		t.Errorf("got a %T of %d bytes", err, len(err.Error()))
	}
	log := &logtest.Recorder{}
	ctx, cancel := context.WithTimeout(log.Context(t.Context()), time.Minute)
	ended := make(chan error)
	go func() { ended <- cache.Start(ctx) }()
	for len(log.Lines("refreshing inventory")) == 0 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	lines := log.Lines("refreshing inventory")
	if len(lines) == 0 || len(lines[0]) > 8<<10 {
		t.Errorf("logged %d lines with %d bytes", len(lines), len(strings.Join(lines, "")))
	}
}
