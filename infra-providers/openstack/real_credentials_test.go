// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	sdk "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"drover.io/infra-providers/driver"
)

// applicationCredential creates one of the user of the credentials.
func (p project) applicationCredential(name string) *applicationcredentials.ApplicationCredential {
	p.t.Helper()
	identity := must[*gophercloud.ServiceClient](p.t)(sdk.NewIdentityV3(p.Compute.ProviderClient, gophercloud.EndpointOpts{}))
	user := must[*tokens.User](p.t)(tokens.Get(p.t.Context(), identity, p.Compute.Token()).ExtractUser())
	created := must[*applicationcredentials.ApplicationCredential](p.t)(applicationcredentials.Create(p.t.Context(), identity, user.ID, applicationcredentials.CreateOpts{Name: name}).Extract())
	p.offset(name, func(ctx context.Context) error {
		return applicationcredentials.Delete(ctx, identity, user.ID, created.ID).ExtractErr()
	})
	return created
}

// TestRealApplicationCredentials logs in with one in both forms that a Secret may have, and takes a machine
// through its life under it.
func TestRealApplicationCredentials(t *testing.T) {
	real(t)
	if os.Getenv("OS_AUTH_URL") == "" {
		t.Skip("OS_AUTH_URL is not set")
	}
	p := inProject(t)
	created := p.applicationCredential("drover-e2e-" + string(unique())[:8])
	clouds := fmt.Sprintf("clouds:\n  home:\n    auth_type: v3applicationcredential\n    region_name: %q\n    auth:\n      auth_url: %q\n      application_credential_id: %q\n      application_credential_secret: %q\n",
		p.Region, os.Getenv("OS_AUTH_URL"), created.ID, created.Secret)
	variables := driver.Credentials{
		"OS_AUTH_URL": []byte(os.Getenv("OS_AUTH_URL")), "OS_REGION_NAME": []byte(p.Region),
		"OS_APPLICATION_CREDENTIAL_ID": []byte(created.ID), "OS_APPLICATION_CREDENTIAL_SECRET": []byte(created.Secret),
	}
	account := driver.Account{SecretName: "cloud"}
	d := connect(t, nil, account, driver.Credentials{"clouds.yaml": []byte(clouds)})
	if created := mustReachState(t, d, newRealRequest(t, d, realSpec())); created.State != driver.Running {
		t.Errorf("got %+v", created)
	}
	call := func(account driver.Account, secret driver.Credentials) error {
		for _, err := range connect(t, nil, account, secret).List(t.Context(), driver.Owner{}) {
			return err
		}
		return nil
	}
	if err := call(account, variables); err != nil {
		t.Errorf("by variables: %v", err)
	}
	variables["OS_APPLICATION_CREDENTIAL_SECRET"] = []byte("wrong")
	if err := call(account, variables); !driver.IsUnauthorized(err) {
		t.Errorf("a wrong secret: got %v, want an UnauthorizedError", err)
	}
	if err := call(driver.Account{SecretName: "cloud", Region: "nowhere"}, driver.Credentials{"clouds.yaml": []byte(clouds)}); !driver.IsInvalidConfiguration(err) {
		t.Errorf("an unknown region: got %v, want an InvalidConfigurationError", err)
	}
}
