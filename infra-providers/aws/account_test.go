// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/aws/awsfake"
	"drover.io/infra-providers/driver"
)

// The provider's own credentials come from a container endpoint (EKS Pod Identity) or a program; they are refreshed while
// the process runs, and now are a role of another account. What is in the first account is not found in the second.
func TestRefreshedCredentialsOfAnotherAccount(t *testing.T) {
	var moved atomic.Bool
	home, err := awsfake.New(awsfake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	away, err := awsfake.New(awsfake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/credentials":
			token := "home"
			if moved.Load() {
				token = "away"
			}
			fmt.Fprintf(w, `{"AccessKeyId":%q,"SecretAccessKey":"secret","Token":%q,"Expiration":%q}`,
				awsfake.AccessKey, token, time.Now().Add(-time.Minute).UTC().Format(time.RFC3339))
		case r.Header.Get("X-Amz-Security-Token") == "home":
			home.ServeHTTP(w, r)
		default:
			body, _ := io.ReadAll(r.Body)
			if strings.Contains(string(body), "GetCallerIdentity") {
				fmt.Fprint(w, `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult><Arn>arn:aws:sts::999999999999:assumed-role/drover/x</Arn><UserId>x</UserId><Account>999999999999</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`)
				return
			}
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			away.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", server.URL+"/credentials")
	clock := clocktesting.NewFakePassiveClock(time.Now())
	d, err := connect(t.Context(), Options{Endpoint: server.URL, Clock: clock}, driver.Account{Region: awsfake.Region}, nil)
	if err != nil {
		t.Fatal(err)
	}
	clock.SetTime(clock.Now().Add(time.Hour))
	before, err := d.AccountID(t.Context()) // what the machine is pinned to; package account reads it once per process
	if err != nil {
		t.Fatal(err)
	}
	id := driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home"}}
	machine := &infrav1.AWSMachine{Spec: infrav1.AWSMachineSpec{Region: awsfake.Region, InstanceType: "m7i.large", Image: infrav1.AWSImage{ID: awsfake.Image}, Subnet: infrav1.AWSSelector{ID: awsfake.SubnetA}}}
	config, err := NewInstanceConfig(machine, "")
	if err != nil {
		t.Fatal(err)
	}
	created, err := d.Create(t.Context(), driver.CreateRequest[InstanceConfig]{Identity: id, Config: config})
	if err != nil {
		t.Fatal(err)
	}
	id.ProviderID = created.ProviderID
	clock.SetTime(clock.Now().Add(time.Hour))
	moved.Store(true)
	for range 2 {
		if err := d.Delete(t.Context(), id); !driver.IsAccountMismatch(err) {
			t.Errorf("deleting: got %v", err)
		}
		if _, err := d.Get(t.Context(), id); !driver.IsAccountMismatch(err) {
			t.Errorf("reading: got %v, pinned to %q, left in the first account: %q", err, before, home.Leftovers())
		}
	}
	again, err := connect(t.Context(), Options{Endpoint: server.URL, Clock: clock}, driver.Account{Region: awsfake.Region}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if after, err := again.AccountID(t.Context()); err != nil || after == before {
		t.Errorf("a new connection is in %q: %v", after, err)
	}
}
