// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"drover.io/infra-providers/azure/request"
	"drover.io/infra-providers/driver"
	"drover.io/runtime/egress"
	"drover.io/runtime/httplimit"
)

// The keys of a Secret.
const (
	tenantKey       = "tenantID"
	clientKey       = "clientID"
	passwordKey     = "clientSecret"
	subscriptionKey = "subscriptionID"
)

// clouds are the clouds of Microsoft.
var clouds = map[string]cloud.Configuration{
	"":                cloud.AzurePublic,
	"AzurePublic":     cloud.AzurePublic,
	"AzureGovernment": cloud.AzureGovernment,
	"AzureChina":      cloud.AzureChina,
}

// tenantPattern is that of a tenant: its ID, or one of its domains. It becomes a part of a URL.
var tenantPattern = regexp.MustCompile(`^[0-9A-Za-z]([-.0-9A-Za-z]{0,252}[0-9A-Za-z])?$`)

// toPlace returns the subscription and the resource group of an account. The subscription is that of the machine, or else that
// of the source of the credentials.
func toPlace(account driver.Account, secret driver.Credentials) (request.Place, error) {
	subscription, group, _ := strings.Cut(account.Region, "/")
	if subscription == "" && account.SecretName == "" {
		subscription = os.Getenv("AZURE_SUBSCRIPTION_ID")
	}
	if subscription == "" && account.SecretName != "" {
		subscription = strings.TrimSpace(string(secret[subscriptionKey]))
	}
	if subscription == "" {
		return request.Place{}, &driver.UnauthorizedError{Err: errors.New("no subscription is known: set spec.subscriptionID, or subscriptionID in the Secret, or without a Secret AZURE_SUBSCRIPTION_ID of the provider")}
	}
	if !subscriptionPattern.MatchString(subscription) {
		return request.Place{}, &driver.UnauthorizedError{Err: errors.New("the subscription is no ID of 32 hexadecimal digits in five groups")}
	}
	if !groupPattern.MatchString(group) {
		return request.Place{}, &driver.InvalidConfigurationError{Field: "spec.resourceGroup", Err: errors.New("it must be the name of a resource group")}
	}
	return request.Place{Subscription: subscription, ResourceGroup: group}, nil
}

// newClientOptions returns the options of all clients: the cloud, one transport with limits, and no retries.
func newClientOptions(options Options) (*arm.ClientOptions, error) {
	configuration, ok := clouds[options.Cloud]
	if !ok {
		return nil, fmt.Errorf("the cloud %q is not AzurePublic, AzureGovernment or AzureChina", options.Cloud)
	}
	configuration.ActiveDirectoryAuthorityHost = cmp.Or(options.AuthorityHost, configuration.ActiveDirectoryAuthorityHost)
	if options.Endpoint != "" {
		service := configuration.Services[cloud.ResourceManager]
		service.Endpoint = strings.TrimRight(options.Endpoint, "/")
		configuration.Services = map[cloud.ServiceName]cloud.ServiceConfiguration{cloud.ResourceManager: service}
	}
	return &arm.ClientOptions{
		DisableRPRegistration: true,
		ClientOptions: azcore.ClientOptions{
			Cloud:     configuration,
			Retry:     policy.RetryOptions{MaxRetries: -1},
			Telemetry: policy.TelemetryOptions{ApplicationID: "drover"},
			Transport: &http.Client{Timeout: callTimeout, Transport: httplimit.Wrap(driver.NewTransport(callTimeout), maxAnswer), CheckRedirect: egress.NoRedirects},
		},
	}, nil
}

// newCredential returns the source of the tokens of an account: the Secret, or the provider's own identity. It makes no call.
func newCredential(clients azcore.ClientOptions, account driver.Account, secret driver.Credentials) (azcore.TokenCredential, error) {
	if account.SecretName == "" {
		return &ownCredential{clients: clients}, nil
	}
	tenant, client, password := trimmed(secret, tenantKey), trimmed(secret, clientKey), trimmed(secret, passwordKey)
	switch {
	case tenant == "" || client == "" || password == "":
		return nil, &driver.UnauthorizedError{Err: fmt.Errorf("the Secret %q lacks one of the keys %s, %s and %s", account.SecretName, tenantKey, clientKey, passwordKey)}
	case !tenantPattern.MatchString(tenant):
		return nil, &driver.UnauthorizedError{Err: fmt.Errorf("the key %s of the Secret %q is no tenant", tenantKey, account.SecretName)}
	}
	// Without the discovery of instances, the tenant's keys are requested from the authority that the operator has set, and from
	// no other one.
	found, err := azidentity.NewClientSecretCredential(tenant, client, password, &azidentity.ClientSecretCredentialOptions{
		ClientOptions: clients, DisableInstanceDiscovery: true,
	})
	if err != nil {
		return nil, &driver.UnauthorizedError{Err: fmt.Errorf("the Secret %q has no valid credentials", account.SecretName)}
	}
	return stableCredential{found}, nil
}

func trimmed(secret driver.Credentials, key string) string {
	return strings.TrimSpace(string(secret[key]))
}

// ownCredential is the provider's own identity. It is looked for at the first call and not before.
type ownCredential struct {
	clients azcore.ClientOptions
	mu      sync.Mutex
	found   azcore.TokenCredential
}

// GetToken implements azcore.TokenCredential.
func (o *ownCredential) GetToken(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
	found, err := o.find()
	if err != nil {
		return azcore.AccessToken{}, err
	}
	return stableCredential{found}.GetToken(ctx, options)
}

// find returns the identity of the provider: a workload identity if the process has one, else a principal of the environment, else
// the managed identity of the host. Which one is decided by what is set, and not by what happens to work.
func (o *ownCredential) find() (found azcore.TokenCredential, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.found != nil {
		return o.found, nil
	}
	switch {
	case os.Getenv("AZURE_FEDERATED_TOKEN_FILE") != "":
		found, err = azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{ClientOptions: o.clients, DisableInstanceDiscovery: true})
	case os.Getenv("AZURE_CLIENT_SECRET") != "" || os.Getenv("AZURE_CLIENT_CERTIFICATE_PATH") != "":
		found, err = azidentity.NewEnvironmentCredential(&azidentity.EnvironmentCredentialOptions{ClientOptions: o.clients, DisableInstanceDiscovery: true})
	default:
		options := &azidentity.ManagedIdentityCredentialOptions{ClientOptions: o.clients}
		if client := os.Getenv("AZURE_CLIENT_ID"); client != "" {
			options.ID = azidentity.ClientID(client)
		}
		found, err = azidentity.NewManagedIdentityCredential(options)
	}
	if err != nil {
		return nil, errNoOwnCredentials
	}
	o.found = found
	return found, nil
}

var errNoOwnCredentials = &driver.UnauthorizedError{Err: errors.New(
	"the provider has no credentials of its own: give it a workload identity, AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, or a managed identity")}

// stableCredential gives errors of tokens a kind and a text without times and IDs.
type stableCredential struct{ azcore.TokenCredential }

// GetToken implements azcore.TokenCredential.
func (s stableCredential) GetToken(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
	token, err := s.TokenCredential.GetToken(ctx, options)
	return token, toTokenError(ctx, err)
}

// toTokenError converts an error of the authority.
func toTokenError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	refused, ok := errors.AsType[*azidentity.AuthenticationFailedError](err)
	switch {
	case !ok || refused.RawResponse == nil:
		return errNoToken
	case refused.RawResponse.StatusCode == http.StatusTooManyRequests:
		return &driver.RateLimitedError{RetryAfter: retryAfter(refused.RawResponse.Header), Err: errTokenLimited}
	case refused.RawResponse.StatusCode >= http.StatusInternalServerError:
		return fmt.Errorf("Microsoft Entra answered %d", refused.RawResponse.StatusCode) //nolint:staticcheck // it is a name
	}
	body := struct {
		Error string
		Codes []int `json:"error_codes"`
	}{}
	if content, err := runtime.Payload(refused.RawResponse); err == nil {
		_ = json.Unmarshal(content, &body) // without a code, the status has to do
	}
	text := fmt.Sprintf("Microsoft Entra refuses the credentials: %d %s", refused.RawResponse.StatusCode, body.Error)
	for _, code := range body.Codes {
		text += fmt.Sprintf(" AADSTS%d", code)
	}
	return &driver.UnauthorizedError{Err: errors.New(text)}
}

var (
	errNoToken      = errors.New("no token could be read from Microsoft Entra or the metadata service")
	errTokenLimited = errors.New("Microsoft Entra limits the requests for tokens") //nolint:staticcheck // it is a name
)
