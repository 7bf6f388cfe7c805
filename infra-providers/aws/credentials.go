// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"drover.io/infra-providers/driver"
)

// loadConfig returns the configuration of both clients.
func loadConfig(ctx context.Context, account driver.Account, secret driver.Credentials) (aws.Config, error) {
	if account.SecretName != "" {
		return secretConfig(account, secret)
	}
	loaded, err := config.LoadDefaultConfig(ctx, config.WithRegion(account.Region), config.WithRetryer(noRetries),
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(callTimeout)))
	if err != nil {
		return aws.Config{}, &driver.UnauthorizedError{Err: fmt.Errorf("reading the AWS settings of the environment: %w", err)}
	}
	loaded.Credentials = classifiedCredentials{loaded.Credentials}
	return loaded, nil
}

// secretConfig returns the configuration for credentials from a Secret. It uses nothing of the shared files of the
// provider's host: no profile, role, program, endpoint or certificate authority. The operator's network settings in the
// environment (AWS_ENDPOINT_URL, AWS_CA_BUNDLE, FIPS, dual stack) apply to all accounts.
func secretConfig(account driver.Account, secret driver.Credentials) (aws.Config, error) {
	static, err := secretCredentials(account.SecretName, secret)
	if err != nil {
		return aws.Config{}, err
	}
	environment, err := config.NewEnvConfig()
	if err != nil {
		return aws.Config{}, fmt.Errorf("reading the AWS settings of the environment: %w", err)
	}
	transport := awshttp.NewBuildableClient().WithTimeout(callTimeout)
	if environment.CustomCABundle != "" {
		roots, err := readCABundle(environment.CustomCABundle)
		if err != nil {
			return aws.Config{}, fmt.Errorf("reading AWS_CA_BUNDLE: %w", err)
		}
		transport = transport.WithTransportOptions(func(t *http.Transport) {
			if t.TLSClientConfig == nil {
				t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
			}
			t.TLSClientConfig.RootCAs = roots
		})
	}
	return aws.Config{
		Region:        account.Region,
		Credentials:   aws.NewCredentialsCache(static),
		HTTPClient:    transport,
		Retryer:       noRetries,
		ConfigSources: []any{environment},
	}, nil
}

func noRetries() aws.Retryer { return aws.NopRetryer{} }

func readCABundle(path string) (*x509.CertPool, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("%q has no certificate", path)
	}
	return roots, nil
}

// secretCredentials reads static credentials from a Secret.
func secretCredentials(name string, data driver.Credentials) (aws.CredentialsProvider, error) {
	for _, key := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		if len(data[key]) == 0 {
			return nil, &driver.UnauthorizedError{Err: fmt.Errorf("the Secret %q has no key %q", name, key)}
		}
	}
	return credentials.NewStaticCredentialsProvider(string(data["AWS_ACCESS_KEY_ID"]), string(data["AWS_SECRET_ACCESS_KEY"]), string(data["AWS_SESSION_TOKEN"])), nil
}

// classifiedCredentials returns a failure to get credentials as an UnauthorizedError.
type classifiedCredentials struct{ aws.CredentialsProvider }

func (c classifiedCredentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	credentials, err := c.CredentialsProvider.Retrieve(ctx)
	if err != nil && ctx.Err() == nil {
		err = &driver.UnauthorizedError{Err: fmt.Errorf("getting AWS credentials: %w", stableError(err))}
	}
	return credentials, err
}
