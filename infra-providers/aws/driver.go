// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"k8s.io/utils/clock"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/aws/launch"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/createcache"
	"drover.io/runtime/httplimit"
)

// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=awsmachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=awsmachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=awsmachinetemplates,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=awsmachinetemplates/status,verbs=patch

// callTimeout bounds one call of the API. An answer that takes longer counts as lost.
const callTimeout = 30 * time.Second

// maxAnswer is how many bytes one answer may have: many times what a page of 1,000 instances has.
const maxAnswer = 64 << 20

// Options are the settings of the provider.
type Options struct {
	// Endpoint replaces EC2's own, for private clouds. Empty means that of the environment, or else of the region.
	Endpoint string
	// STSEndpoint replaces the endpoint of STS, which identifies the account of the credentials. Empty means Endpoint.
	STSEndpoint string
	// PageSize is the number of instances on a page of a list; zero means EC2's maximum.
	PageSize int32
	// Clock is the real clock if it is nil.
	Clock clock.PassiveClock
}

// Cloud returns the description of EC2. The limits leave capacity for other clients of the account: EC2 permits about
// twice as much.
func Cloud(options Options) driver.Cloud[*infrav1.AWSMachine, InstanceConfig] {
	return driver.Cloud[*infrav1.AWSMachine, InstanceConfig]{
		Name:                "aws",
		NewMachine:          func() *infrav1.AWSMachine { return &infrav1.AWSMachine{} },
		NewMachineList:      func() driver.MachineList { return &infrav1.AWSMachineList{} },
		NewTemplate:         func() driver.Template[*infrav1.AWSMachine] { return &infrav1.AWSMachineTemplate{} },
		Config:              NewInstanceConfig,
		Account:             toAccount,
		NormalizeProviderID: normalizeProviderID,
		Alternatives:        alternatives,
		Offering:            toOffering,
		Limits:              driver.Limits{PerSecond: 10, Burst: 50},
		Connect: func(ctx context.Context, account driver.Account, credentials driver.Credentials) (driver.Driver[InstanceConfig], error) {
			return connect(ctx, options, account, credentials)
		},
	}
}

// Driver implements driver.Driver, driver.AccountIdentifier, driver.CapacityProvider, driver.ImageFinder, driver.Tagger and
// driver.Restarter.
type Driver struct {
	api       api
	sts       *sts.Client
	lookup    *launch.Lookup
	creations *createcache.Cache
	pageSize  *int32
}

// api lists the calls of EC2 in use.
type api interface {
	launch.API
	ec2.DescribeInstancesAPIClient
	ec2.DescribeTagsAPIClient
	CreateTags(context.Context, *ec2.CreateTagsInput, ...func(*ec2.Options)) (*ec2.CreateTagsOutput, error)
	RunInstances(context.Context, *ec2.RunInstancesInput, ...func(*ec2.Options)) (*ec2.RunInstancesOutput, error)
	GetConsoleOutput(context.Context, *ec2.GetConsoleOutputInput, ...func(*ec2.Options)) (*ec2.GetConsoleOutputOutput, error)
	RebootInstances(context.Context, *ec2.RebootInstancesInput, ...func(*ec2.Options)) (*ec2.RebootInstancesOutput, error)
	TerminateInstances(context.Context, *ec2.TerminateInstancesInput, ...func(*ec2.Options)) (*ec2.TerminateInstancesOutput, error)
}

// connect reads settings and makes no call. Each call of the driver is tried once: retries are the same for all clouds
// and happen outside the drivers.
func connect(ctx context.Context, options Options, account driver.Account, secret driver.Credentials) (*Driver, error) {
	loaded, err := loadConfig(ctx, account, secret)
	if err != nil {
		return nil, err
	}
	stsClient := newSTS(&loaded, account.SecretName == "", func(o *sts.Options) {
		o.HTTPClient = bufferedClient{newBoundedResponseClient(o.HTTPClient)}
		if endpoint := cmp.Or(options.STSEndpoint, options.Endpoint); endpoint != "" {
			o.BaseEndpoint = &endpoint
		}
	})
	client := ec2.NewFromConfig(loaded, func(o *ec2.Options) {
		o.HTTPClient = bufferedClient{newBoundedResponseClient(o.HTTPClient)}
		if options.Endpoint != "" {
			o.BaseEndpoint = &options.Endpoint
		}
	})
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	pageSize := options.PageSize
	if pageSize == 0 {
		pageSize = 1000
	}
	return &Driver{api: client, sts: stsClient, lookup: launch.NewLookup(client, options.Clock), creations: createcache.New(options.Clock), pageSize: &pageSize}, nil
}

// boundedResponseClient bounds what one answer may have.
type boundedResponseClient struct{ limited http.RoundTripper }

func newBoundedResponseClient(next aws.HTTPClient) boundedResponseClient {
	return boundedResponseClient{httplimit.Wrap(roundTripper{next}, maxAnswer)}
}

func (c boundedResponseClient) Do(request *http.Request) (*http.Response, error) {
	return c.limited.RoundTrip(request)
}

// roundTripper makes a client of the SDK usable as a transport.
type roundTripper struct{ aws.HTTPClient }

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r.Do(request) }

// bufferedClient hands the transport a copy of each request's body. The SDK closes the body as soon as an answer
// begins, and a transport that has not read all of it by then closes the connection before the answer is complete.
type bufferedClient struct{ aws.HTTPClient }

func (c bufferedClient) Do(request *http.Request) (*http.Response, error) {
	if request.Body == nil {
		return c.HTTPClient.Do(request)
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	sent := request.Clone(request.Context())
	sent.Body, sent.GetBody = io.NopCloser(bytes.NewReader(body)), nil
	return c.HTTPClient.Do(sent)
}

// Create implements driver.Driver.
func (d *Driver) Create(ctx context.Context, req driver.CreateRequest[InstanceConfig]) (driver.Instance, error) {
	found, err := d.findListed(ctx, req.Identity)
	if err != nil {
		return driver.Instance{}, err
	}
	if len(found) > 0 {
		own, err := req.Identity.Checked(found[0])
		if err == nil {
			d.creations.AddListed(own)
		}
		return own, err
	}
	if created, ok := d.creations.Instance(req.Identity); ok {
		return req.Identity.Checked(created)
	}
	request, err := d.lookup.Request(ctx, launchInput(req))
	if err != nil {
		return driver.Instance{}, toCreateError(err, req.Config)
	}
	if err := d.checkEarlierCreation(req, request); err != nil {
		return driver.Instance{}, err
	}
	out, err := d.api.RunInstances(ctx, request)
	if code := errorCode(err); code == codeTokenTerminated || code == codeTokenMismatch && d.creations.AddMismatch(req.Identity) {
		// The instance of that token was terminated, or never existed: EC2 also binds a token to the parameters of a
		// request that it refused. The next token derives from the parameters, so it matches them.
		request.ClientToken = aws.String(createcache.ClientToken(*request))
		out, err = d.api.RunInstances(ctx, request)
	}
	return d.createdInstance(out, err, req, launch.Place(request))
}

// checkEarlierCreation fails while an earlier call may have created an instance that EC2 does not list yet and that the
// request would duplicate: a client token is valid in one zone, and a filter or a launch template may now select
// another one.
func (d *Driver) checkEarlierCreation(req driver.CreateRequest[InstanceConfig], request *ec2.RunInstancesInput) error {
	if d.creations.UnansweredElsewhere(req.Identity, launch.Place(request)) {
		return errNotListedYet
	}
	fixed := req.Config.Zone != "" || req.Config.Spec.Subnet.ID != ""
	if !fixed && d.creations.InStartupWindow() && !req.Since.After(d.creations.Started()) {
		return errCreationUnknown
	}
	return nil
}

// createdInstance returns the instance in the answer of RunInstances, or the kind of its error.
func (d *Driver) createdInstance(out *ec2.RunInstancesOutput, err error, req driver.CreateRequest[InstanceConfig], place string) (driver.Instance, error) {
	if errorCode(err) == codeTokenMismatch {
		return driver.Instance{}, errNotListedYet
	}
	if err != nil {
		err = toCreateError(err, req.Config)
		switch {
		case isUnanswered(err):
			d.creations.AddUnanswered(req.Identity, place)
		case driver.IsInsufficientCapacity(err), driver.IsQuotaExceeded(err):
			d.creations.DeleteUnanswered(req.Identity)
		}
		return driver.Instance{}, err
	}
	if len(out.Instances) == 0 {
		d.creations.AddUnanswered(req.Identity, place)
		return driver.Instance{}, errNotListedYet
	}
	instance := toInstance(out.Instances[0])
	d.creations.AddCreated(instance)
	return req.Identity.Checked(instance)
}

// isUnanswered reports whether a request that failed may have been carried out.
func isUnanswered(err error) bool {
	return !driver.IsInvalidConfiguration(err) && !driver.IsUnauthorized(err) && !driver.IsRateLimited(err) &&
		!driver.IsInsufficientCapacity(err) && !driver.IsQuotaExceeded(err)
}

// Get implements driver.Driver.
func (d *Driver) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	found, err := d.find(ctx, id)
	if err != nil {
		return driver.Instance{}, err
	}
	if len(found) == 0 {
		return driver.Instance{}, &driver.NotFoundError{What: fmt.Sprintf("EC2 instance of %q", id.Name)}
	}
	return id.Checked(found[0])
}

// Delete implements driver.Driver.
func (d *Driver) Delete(ctx context.Context, id driver.Identity) error {
	found, err := d.find(ctx, id)
	if err != nil {
		return err
	}
	var running []string
	for _, instance := range found {
		if err := id.Check(instance.Identity); err != nil {
			return err
		}
		if instance.State != driver.Terminated {
			running = append(running, instance.ID)
		}
	}
	if len(running) == 0 {
		return nil
	}
	if _, err := d.api.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: running}); err != nil {
		if err = toError(err); driver.IsNotFound(err) {
			return errNotListedYet
		}
		return err
	}
	d.creations.Delete(found[0].Identity)
	return nil
}

// List implements driver.Driver.
func (d *Driver) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	query := &ec2.DescribeInstancesInput{MaxResults: d.pageSize, Filters: []types.Filter{
		{Name: aws.String("tag-key"), Values: []string{driver.TagMachineUID}},
		{Name: aws.String("instance-state-name"), Values: []string{"pending", "running", "shutting-down", "stopping", "stopped"}},
	}}
	if owner != (driver.Owner{}) {
		query.Filters = append(query.Filters, tagFilter(driver.TagClusterNamespace, owner.Namespace), tagFilter(driver.TagCluster, owner.Name), tagFilter(driver.TagClusterUID, string(owner.UID)))
	}
	return d.describe(ctx, query)
}

// find returns what findListed does, and an instance that was created a moment ago and that EC2 does not list yet. It
// fails while it is unknown whether there is one.
func (d *Driver) find(ctx context.Context, id driver.Identity) ([]driver.Instance, error) {
	found, err := d.findListed(ctx, id)
	if err != nil || len(found) > 0 {
		return found, err
	}
	if created, ok := d.creations.Instance(id); ok {
		return []driver.Instance{created}, nil
	}
	if id.ProviderID == "" && d.creations.Unanswered(id) {
		return nil, errNotListedYet
	}
	if d.creations.InStartupWindow() {
		return nil, errCreationUnknown
	}
	return nil, nil
}

// findListed returns the instances that EC2 lists for an identity, the one that counts first. There are several only
// after EC2 has expired a client token.
func (d *Driver) findListed(ctx context.Context, id driver.Identity) (found []driver.Instance, err error) {
	if id.ProviderID == "" && id.UID == "" {
		return nil, nil
	}
	query := &ec2.DescribeInstancesInput{Filters: []types.Filter{tagFilter(driver.TagMachineUID, string(id.UID))}}
	if id.ProviderID != "" {
		name, ok := parseProviderID(id.ProviderID)
		if !ok {
			return nil, nil
		}
		query = &ec2.DescribeInstancesInput{InstanceIds: []string{name}}
	}
	for instance, err := range d.describe(ctx, query) {
		if driver.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if instance.State == driver.Terminated && !instance.Identity.Tagged() {
			continue // EC2 removes the tags of a terminated instance some time before it lists it no longer
		}
		found = append(found, instance)
	}
	slices.SortFunc(found, byCreation)
	return id.Own(found), nil
}

// describe yields the instances that match a query, page by page, and a failure last.
func (d *Driver) describe(ctx context.Context, query *ec2.DescribeInstancesInput) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		pages := ec2.NewDescribeInstancesPaginator(d.api, query)
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(driver.Instance{}, toError(err))
				return
			}
			for _, reservation := range page.Reservations {
				for _, found := range reservation.Instances {
					if !yield(toInstance(found), nil) {
						return
					}
				}
			}
		}
	}
}

// tagFilter selects what has a tag with exactly a value. EC2 would otherwise match wildcards in the value.
func tagFilter(key, value string) types.Filter {
	return types.Filter{Name: aws.String("tag:" + key), Values: []string{filterEscaper.Replace(value)}}
}

var filterEscaper = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`)
