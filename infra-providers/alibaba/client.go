// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package alibaba

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"

	openapi "github.com/alibabacloud-go/darabonba-openapi/v2/client"
	openapiutil "github.com/alibabacloud-go/darabonba-openapi/v2/utils"
	ecs "github.com/alibabacloud-go/ecs-20140526/v7/client"
	"github.com/alibabacloud-go/tea/dara"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/httplimit"
)

// maxAnswer is how many bytes one answer may have: many times what a page of 100 instances has.
const maxAnswer = 64 << 20

// domain is that of the services of Alibaba Cloud.
const domain = "aliyuncs.com"

// regionPattern is what the name of a region may be, so that it cannot name a host.
var regionPattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// client calls the APIs of one account in one region. Each call is made once.
type client struct {
	options Options
	region  string
	keys    keySource
	// http is what the SDK calls the services with.
	http dara.HttpClient

	mu sync.Mutex
	// sdk is the client of the SDK for the access key used.
	sdk  *ecs.Client
	used accessKey
}

// newClient makes no call.
func newClient(options Options, account driver.Account, secret driver.Credentials) (*client, error) {
	if !regionPattern.MatchString(account.Region) {
		return nil, &driver.InvalidConfigurationError{Field: "spec.regionID", Err: fmt.Errorf("%q is no region", account.Region)}
	}
	c := &client{options: options, region: account.Region, http: caller{httplimit.Wrap(driver.NewTransport(callTimeout), maxAnswer)}}
	keys, err := newKeys(c, account, secret)
	c.keys = keys
	return c, err
}

// caller sends the requests of the SDK, in place of the SDK's own client: that follows redirects, has no limits, and fails with
// errors that have the whole request in them.
type caller struct{ http.RoundTripper }

// Call implements dara.HttpClient. It fails for what is no answer of Alibaba Cloud, so that only its own answers count.
func (c caller) Call(request *http.Request, _ *http.Transport) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(request.Context(), callTimeout)
	defer cancel()
	response, err := c.RoundTrip(request.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // it is read to its end
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	answer := struct{ RequestID *string }{}
	success := response.StatusCode == http.StatusOK
	if failed := response.StatusCode >= http.StatusBadRequest; !success && !failed || json.Unmarshal(body, &answer) != nil || answer.RequestID == nil {
		return nil, &statusError{response.StatusCode, response.Header}
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	response.Header.Set("Content-Type", "application/json")
	return response, nil
}

// statusError is an answer that is not one of Alibaba Cloud, such as that of a proxy.
type statusError struct {
	status int
	header http.Header
}

func (e *statusError) Error() string {
	return fmt.Sprintf("the answer has the status %d and is not one of Alibaba Cloud", e.status)
}

// configure returns the settings of the SDK for a service.
func (c *client) configure(service, endpoint string, key accessKey) (*openapiutil.Config, error) {
	config := &openapiutil.Config{RegionId: &c.region, HttpClient: c.http, Protocol: dara.String("https")}
	if key.id != "" {
		config.AccessKeyId, config.AccessKeySecret = &key.id, &key.secret
	}
	if key.token != "" {
		config.SecurityToken = &key.token
	}
	if endpoint == "" && service != ecsService { // the SDK has the endpoints of ECS
		config.Endpoint = dara.String(service + "." + c.region + "." + domain)
	}
	if endpoint == "" {
		return config, nil
	}
	parsed, err := url.Parse(endpoint)
	if err != nil {
		return nil, fmt.Errorf("reading the endpoint of %s: %w", service, err)
	}
	config.Protocol, config.Endpoint = &parsed.Scheme, &parsed.Host
	return config, nil
}

// The services in use.
const (
	ecsService = "ecs"
	stsService = "sts"
)

// The versions of their APIs.
const (
	ecsVersion = "2014-05-26"
	stsVersion = "2015-04-01"
)

// rpc describes a call whose parameters are in its body.
func rpc(action, version, authentication string) *openapiutil.Params {
	return &openapiutil.Params{
		Action: &action, Version: &version, Protocol: dara.String("HTTPS"), Pathname: dara.String("/"), Method: dara.String("POST"),
		AuthType: &authentication, Style: dara.String("RPC"), ReqBodyType: dara.String("formData"), BodyType: dara.String("json"),
	}
}

// connection returns the client of the SDK for the access key that is valid now.
func (c *client) connection(ctx context.Context) (*ecs.Client, accessKey, error) {
	key, err := c.keys.key(ctx)
	if err != nil {
		return nil, accessKey{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sdk != nil && c.used == key {
		return c.sdk, key, nil
	}
	config, err := c.configure(ecsService, c.options.Endpoint, key)
	if err != nil {
		return nil, accessKey{}, err
	}
	sdk, err := ecs.NewClient(config)
	if err != nil {
		return nil, accessKey{}, fmt.Errorf("configuring the client of ECS: %w", err)
	}
	sdk.Client.DisableSDKError = dara.Bool(true) // its errors have lost their types
	c.sdk, c.used = sdk, key
	return sdk, key, nil
}

// noOptions are those of a call: the settings are the client's.
func noOptions() *dara.RuntimeOptions { return &dara.RuntimeOptions{} }

// call makes a call of ECS. The error is that of the API, or of package driver. A key that the API does not accept any more is
// replaced for the next call.
func call[A any](ctx context.Context, c *client, do func(*ecs.Client) (A, error)) (answer A, err error) {
	sdk, key, err := c.connection(ctx)
	if err != nil {
		return answer, err
	}
	answer, err = do(sdk)
	if err == nil {
		return answer, nil
	}
	if ctx.Err() != nil { // the SDK writes a text instead
		return answer, driver.StableNetworkError(ctx.Err(), "calling ECS")
	}
	if driver.IsUnauthorized(toError(err)) {
		c.keys.refused(key)
	}
	return answer, err
}

// errIncomplete means that an answer lacks what each has. It is never taken for an empty list.
var errIncomplete = errors.New("the answer of ECS is incomplete")

// runInstances requests an instance. Its parameters are in the body: the SDK has them in the URL, which cannot be as long as user
// data may be.
func (c *client) runInstances(ctx context.Context, message *ecs.RunInstancesRequest) (string, error) {
	answer, err := call(ctx, c, func(sdk *ecs.Client) (*ecs.RunInstancesResponse, error) {
		request := &openapiutil.OpenApiRequest{Body: openapiutil.Query(message)}
		found, err := sdk.CallApiWithCtx(ctx, rpc("RunInstances", ecsVersion, "AK"), request, noOptions())
		if err != nil {
			return nil, err
		}
		answer := &ecs.RunInstancesResponse{}
		return answer, dara.Convert(found, answer)
	})
	if err != nil {
		return "", err
	}
	if answer.Body == nil || answer.Body.InstanceIdSets == nil || len(answer.Body.InstanceIdSets.InstanceIdSet) != 1 {
		return "", errIncomplete
	}
	id := dara.StringValue(answer.Body.InstanceIdSets.InstanceIdSet[0])
	if !instanceIDPattern.MatchString(id) {
		return "", errIncomplete
	}
	return id, nil
}

func (c *client) describeInstances(ctx context.Context, query *ecs.DescribeInstancesRequest) (*ecs.DescribeInstancesResponseBody, error) {
	answer, err := call(ctx, c, func(sdk *ecs.Client) (*ecs.DescribeInstancesResponse, error) {
		return sdk.DescribeInstancesWithContext(ctx, query, noOptions())
	})
	if err != nil {
		return nil, toError(err)
	}
	if answer.Body == nil || answer.Body.Instances == nil {
		return nil, errIncomplete
	}
	return answer.Body, nil
}

// checkDescribeInstances fails where the credentials may not list instances: an empty list proves nothing then.
func (c *client) checkDescribeInstances(ctx context.Context) error {
	query := (&ecs.DescribeInstancesRequest{}).SetRegionId(c.region).SetDryRun(true)
	_, err := call(ctx, c, func(sdk *ecs.Client) (*ecs.DescribeInstancesResponse, error) {
		return sdk.DescribeInstancesWithContext(ctx, query, noOptions())
	})
	return toDryRunError(err)
}

// checkDescribeDisks fails where the credentials may not list the disks of an instance.
func (c *client) checkDescribeDisks(ctx context.Context, instance string) error {
	query := (&ecs.DescribeDisksRequest{}).SetRegionId(c.region).SetInstanceId(instance).SetDryRun(true)
	_, err := call(ctx, c, func(sdk *ecs.Client) (*ecs.DescribeDisksResponse, error) {
		return sdk.DescribeDisksWithContext(ctx, query, noOptions())
	})
	return toDryRunError(err)
}

func (c *client) describeDisks(ctx context.Context, query *ecs.DescribeDisksRequest) (*ecs.DescribeDisksResponseBody, error) {
	answer, err := call(ctx, c, func(sdk *ecs.Client) (*ecs.DescribeDisksResponse, error) {
		return sdk.DescribeDisksWithContext(ctx, query, noOptions())
	})
	if err != nil {
		return nil, toError(err)
	}
	if answer.Body == nil || answer.Body.Disks == nil {
		return nil, errIncomplete
	}
	return answer.Body, nil
}

// DescribeImages implements request.API.
func (c *client) DescribeImages(ctx context.Context, query *ecs.DescribeImagesRequest) (*ecs.DescribeImagesResponseBody, error) {
	answer, err := call(ctx, c, func(sdk *ecs.Client) (*ecs.DescribeImagesResponse, error) {
		return sdk.DescribeImagesWithContext(ctx, query, noOptions())
	})
	if err != nil {
		return nil, toLookupError(err)
	}
	if answer.Body == nil || answer.Body.Images == nil {
		return nil, errIncomplete
	}
	return answer.Body, nil
}

// DescribeInstanceTypes implements request.API.
func (c *client) DescribeInstanceTypes(ctx context.Context, query *ecs.DescribeInstanceTypesRequest) (*ecs.DescribeInstanceTypesResponseBody, error) {
	answer, err := call(ctx, c, func(sdk *ecs.Client) (*ecs.DescribeInstanceTypesResponse, error) {
		return sdk.DescribeInstanceTypesWithContext(ctx, query, noOptions())
	})
	if err != nil {
		return nil, toLookupError(err)
	}
	if answer.Body == nil || answer.Body.InstanceTypes == nil {
		return nil, errIncomplete
	}
	return answer.Body, nil
}

func (c *client) deleteInstance(ctx context.Context, message *ecs.DeleteInstanceRequest) error {
	_, err := call(ctx, c, func(sdk *ecs.Client) (*ecs.DeleteInstanceResponse, error) {
		return sdk.DeleteInstanceWithContext(ctx, message, noOptions())
	})
	return err
}

func (c *client) modifyDisk(ctx context.Context, message *ecs.ModifyDiskAttributeRequest) error {
	_, err := call(ctx, c, func(sdk *ecs.Client) (*ecs.ModifyDiskAttributeResponse, error) {
		return sdk.ModifyDiskAttributeWithContext(ctx, message, noOptions())
	})
	return err
}

func (c *client) tagResources(ctx context.Context, message *ecs.TagResourcesRequest) error {
	_, err := call(ctx, c, func(sdk *ecs.Client) (*ecs.TagResourcesResponse, error) {
		return sdk.TagResourcesWithContext(ctx, message, noOptions())
	})
	return err
}

func (c *client) rebootInstance(ctx context.Context, message *ecs.RebootInstanceRequest) error {
	_, err := call(ctx, c, func(sdk *ecs.Client) (*ecs.RebootInstanceResponse, error) {
		return sdk.RebootInstanceWithContext(ctx, message, noOptions())
	})
	return err
}

func (c *client) consoleOutput(ctx context.Context, query *ecs.GetInstanceConsoleOutputRequest) (*ecs.GetInstanceConsoleOutputResponseBody, error) {
	answer, err := call(ctx, c, func(sdk *ecs.Client) (*ecs.GetInstanceConsoleOutputResponse, error) {
		return sdk.GetInstanceConsoleOutputWithContext(ctx, query, noOptions())
	})
	if err != nil {
		return nil, err
	}
	if answer.Body == nil {
		return nil, errIncomplete
	}
	return answer.Body, nil
}

// accountID reads the account of the access key that is valid now.
func (c *client) accountID(ctx context.Context) (string, error) {
	key, err := c.keys.key(ctx)
	if err != nil {
		return "", err
	}
	account, err := c.accountOf(ctx, key)
	if driver.IsUnauthorized(err) {
		c.keys.refused(key)
	}
	return account, err
}

// accountOf reads the account of an access key.
func (c *client) accountOf(ctx context.Context, key accessKey) (string, error) {
	answer := struct{ AccountID, ARN string }{}
	if err := c.callSTS(ctx, key, "GetCallerIdentity", nil, &answer); err != nil {
		return "", fmt.Errorf("getting the caller identity: %w", err)
	}
	if answer.AccountID == "" || !strings.HasPrefix(answer.ARN, "acs:ram:") {
		return "", errors.New("getting the caller identity: the answer has no account")
	}
	return cmp.Or(privateHost(c.stsEndpoint()), domain) + "/" + answer.AccountID, nil
}

// stsEndpoint returns where the Security Token Service is; empty for that of the region.
func (c *client) stsEndpoint() string { return cmp.Or(c.options.STSEndpoint, c.options.Endpoint) }

// privateHost returns the host of an endpoint that does not belong to Alibaba Cloud itself, as that of a VPC does; accounts have
// the same numbers there.
func privateHost(endpoint string) string {
	parsed, err := url.Parse(endpoint)
	if err != nil || parsed.Hostname() == domain || strings.HasSuffix(parsed.Hostname(), "."+domain) {
		return ""
	}
	return strings.ToLower(parsed.Host)
}

// callSTS makes a call of the Security Token Service; without an access key it is anonymous.
func (c *client) callSTS(ctx context.Context, key accessKey, action string, parameters map[string]string, into any) error {
	config, err := c.configure(stsService, c.stsEndpoint(), key)
	if err != nil {
		return err
	}
	sdk, err := openapi.NewClient(config)
	if err != nil {
		return fmt.Errorf("configuring the client of the Security Token Service: %w", err)
	}
	sdk.DisableSDKError = dara.Bool(true)
	authentication := "AK"
	if key.id == "" {
		authentication = "Anonymous"
	}
	request := &openapiutil.OpenApiRequest{Body: map[string]any{}}
	for name, value := range parameters {
		request.Body.(map[string]any)[name] = value
	}
	answer, err := sdk.CallApiWithCtx(ctx, rpc(action, stsVersion, authentication), request, noOptions())
	if ctx.Err() != nil {
		return driver.StableNetworkError(ctx.Err(), "calling the Security Token Service")
	}
	if err != nil {
		return toError(err)
	}
	body, err := json.Marshal(answer["body"])
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}
