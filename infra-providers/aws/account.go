// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"drover.io/infra-providers/driver"
)

// AccountID implements driver.AccountIdentifier. It is the number of the account with its partition of AWS, or with the
// host of the private cloud that the operator configured.
func (d *Driver) AccountID(ctx context.Context) (string, error) {
	return accountOf(ctx, d.sts)
}

func accountOf(ctx context.Context, client *sts.Client) (string, error) {
	found, err := client.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", fmt.Errorf("getting the caller identity: %w", toError(err))
	}
	parsed, err := arn.Parse(aws.ToString(found.Arn))
	if err != nil || aws.ToString(found.Account) == "" {
		return "", fmt.Errorf("getting the caller identity: the answer has ARN %q and account %q", aws.ToString(found.Arn), aws.ToString(found.Account))
	}
	partition := parsed.Partition
	if host := endpointHost(client.Options().BaseEndpoint); host != "" && !isAWSHost(host) {
		partition = host
	}
	return partition + "/" + aws.ToString(found.Account), nil
}

func endpointHost(endpoint *string) string {
	parsed, err := url.Parse(aws.ToString(endpoint))
	if err != nil {
		return ""
	}
	return strings.ToLower(parsed.Host)
}

// isAWSHost reports whether a host belongs to AWS itself, such as a private endpoint in a VPC. Accounts have the same
// numbers there.
func isAWSHost(host string) bool {
	name, _, _ := strings.Cut(host, ":")
	return strings.HasSuffix(name, ".amazonaws.com") || strings.HasSuffix(name, ".amazonaws.com.cn")
}

// accountCredentials are credentials of the environment, which are refreshed while the process runs. Each new key is used
// only once it was found to be of the same account as the first one: in another account no instance would be found, and
// each would count as missing.
type accountCredentials struct {
	from aws.CredentialsProvider
	// account returns the account of credentials.
	account func(context.Context, aws.Credentials) (string, error)

	mu    sync.Mutex
	known string
	// key and token are those that were verified last.
	key, token string
	// moved is the error of every call after the credentials were found to be of another account.
	moved error
}

// Retrieve implements aws.CredentialsProvider.
func (c *accountCredentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.moved != nil {
		return aws.Credentials{}, c.moved
	}
	found, err := c.from.Retrieve(ctx)
	if err != nil || found.AccessKeyID == c.key && found.SessionToken == c.token {
		return found, err
	}
	account, err := c.account(ctx, found)
	if err != nil {
		return aws.Credentials{}, err
	}
	if c.known != "" && c.known != account {
		c.moved = &driver.AccountMismatchError{Pinned: c.known, Connected: account, Source: "a refresh of the provider's own credentials"}
		return aws.Credentials{}, c.moved
	}
	c.known, c.key, c.token = account, found.AccessKeyID, found.SessionToken
	return found, nil
}

// newSTS returns the client that identifies the account. From then on the provider's own credentials in the
// configuration are verified.
func newSTS(loaded *aws.Config, own bool, settings func(*sts.Options)) *sts.Client {
	if own {
		from := loaded.Credentials
		loaded.Credentials = aws.NewCredentialsCache(&accountCredentials{from: from, account: func(ctx context.Context, found aws.Credentials) (string, error) {
			return accountOf(ctx, sts.NewFromConfig(*loaded, settings, func(o *sts.Options) {
				o.Credentials = credentials.StaticCredentialsProvider{Value: found}
			}))
		}})
	}
	return sts.NewFromConfig(*loaded, settings)
}
