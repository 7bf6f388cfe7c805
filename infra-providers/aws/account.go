// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"drover.io/infra-providers/driver"
)

// settings are what both clients are made from.
func settings(ctx context.Context, account driver.Account, secret driver.Credentials) (aws.Config, error) {
	if account.SecretName != "" {
		return apart(account, secret)
	}
	loaded, err := config.LoadDefaultConfig(ctx, config.WithRegion(account.Region), config.WithRetryer(once),
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(patience)))
	if err != nil {
		return aws.Config{}, &driver.UnauthorizedError{Err: fmt.Errorf("reading the AWS settings of the environment: %w", err)}
	}
	loaded.Credentials = aws.NewCredentialsCache(own{loaded.Credentials})
	return loaded, nil
}

// apart are the settings for credentials from a Secret. Nothing of the shared files of the provider's host goes with
// them: no profile, role, program, endpoint or authority. What the operator sets in the environment about the network
// (AWS_ENDPOINT_URL, AWS_CA_BUNDLE, FIPS, dual stack) holds for all accounts alike.
func apart(account driver.Account, secret driver.Credentials) (aws.Config, error) {
	static, err := fromSecret(account.SecretName, secret)
	if err != nil {
		return aws.Config{}, err
	}
	environment, err := config.NewEnvConfig()
	if err != nil {
		return aws.Config{}, fmt.Errorf("reading the AWS settings of the environment: %w", err)
	}
	transport := awshttp.NewBuildableClient().WithTimeout(patience)
	if environment.CustomCABundle != "" {
		roots, err := authorities(environment.CustomCABundle)
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
		Retryer:       once,
		ConfigSources: []any{environment},
	}, nil
}

func once() aws.Retryer { return aws.NopRetryer{} }

func authorities(path string) (*x509.CertPool, error) {
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

// fromSecret reads static credentials from a Secret.
func fromSecret(name string, data driver.Credentials) (aws.CredentialsProvider, error) {
	for _, key := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		if len(data[key]) == 0 {
			return nil, &driver.UnauthorizedError{Err: fmt.Errorf("the Secret %q has no key %q", name, key)}
		}
	}
	return credentials.NewStaticCredentialsProvider(string(data["AWS_ACCESS_KEY_ID"]), string(data["AWS_SECRET_ACCESS_KEY"]), string(data["AWS_SESSION_TOKEN"])), nil
}

// own makes a failure to get credentials the kind of error that it is.
type own struct{ aws.CredentialsProvider }

func (o own) Retrieve(ctx context.Context) (aws.Credentials, error) {
	credentials, err := o.CredentialsProvider.Retrieve(ctx)
	if err != nil && ctx.Err() == nil {
		err = &driver.UnauthorizedError{Err: fmt.Errorf("getting AWS credentials: %w", plain(err))}
	}
	return credentials, err
}

// AccountID implements driver.AccountIdentifier: the number of the account in its partition of AWS, or in the private
// cloud whose host the operator named.
func (d *Driver) AccountID(ctx context.Context) (string, error) {
	found, err := d.identities.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", fmt.Errorf("asking for the account: %w", toError(err))
	}
	name, err := arn.Parse(aws.ToString(found.Arn))
	if err != nil || aws.ToString(found.Account) == "" {
		return "", fmt.Errorf("asking for the account: the answer names %q of account %q", aws.ToString(found.Arn), aws.ToString(found.Account))
	}
	where := name.Partition
	if host := hostOf(d.identities.Options().BaseEndpoint); host != "" && !amazon(host) {
		where = host
	}
	return where + "/" + aws.ToString(found.Account), nil
}

func hostOf(endpoint *string) string {
	parsed, err := url.Parse(aws.ToString(endpoint))
	if err != nil {
		return ""
	}
	return strings.ToLower(parsed.Host)
}

// amazon reports whether a host is one of AWS itself, such as a private endpoint in a VPC, so that accounts have the
// same numbers there.
func amazon(host string) bool {
	name, _, _ := strings.Cut(host, ":")
	return strings.HasSuffix(name, ".amazonaws.com") || strings.HasSuffix(name, ".amazonaws.com.cn")
}
