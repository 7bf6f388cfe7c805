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

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/aws/createcache"
	"drover.io/infra-providers/aws/launch"
	"drover.io/infra-providers/driver"
)

// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=awsmachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=awsmachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=awsmachinetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=awsmachinetemplates/status,verbs=patch

// patience bounds one call of the API; an answer that takes longer counts as lost.
const patience = 30 * time.Second

// Options are what a provider is started with.
type Options struct {
	// Endpoint replaces EC2's own, for private clouds. Empty leaves it to the environment and the region.
	Endpoint string
	// STSEndpoint replaces the one that tells to which account credentials belong. Empty is Endpoint.
	STSEndpoint string
	// PageSize is how many instances a page of a list has; zero is EC2's most.
	PageSize int32
	// Now is the clock; nil is the real one.
	Now func() time.Time
}

// Cloud describes EC2. The limits leave room for others in the account: EC2 allows about twice as much.
func Cloud(options Options) driver.Cloud[*infrav1.AWSMachine, Config] {
	return driver.Cloud[*infrav1.AWSMachine, Config]{
		Name:           "aws",
		NewMachine:     func() *infrav1.AWSMachine { return &infrav1.AWSMachine{} },
		NewMachineList: func() driver.MachineList { return &infrav1.AWSMachineList{} },
		NewTemplate:    func() driver.Template[*infrav1.AWSMachine] { return &infrav1.AWSMachineTemplate{} },
		Config:         NewConfig,
		Account:        account,
		Alternatives:   alternatives,
		Place:          place,
		Limits:         driver.Limits{PerSecond: 10, Burst: 50},
		Connect: func(ctx context.Context, account driver.Account, credentials driver.Credentials) (driver.Driver[Config], error) {
			return connect(ctx, options, account, credentials)
		},
	}
}

// Driver implements driver.Driver, driver.AccountIdentifier, driver.Sizer, driver.ImageFinder, driver.Tagger and
// driver.Restarter.
type Driver struct {
	api        api
	identities *sts.Client
	lookup     *launch.Lookup
	recent     *createcache.Cache
	pageSize   *int32
}

// api is what is used of EC2.
type api interface {
	launch.API
	ec2.DescribeInstancesAPIClient
	ec2.DescribeTagsAPIClient
	CreateTags(context.Context, *ec2.CreateTagsInput, ...func(*ec2.Options)) (*ec2.CreateTagsOutput, error)
	RunInstances(context.Context, *ec2.RunInstancesInput, ...func(*ec2.Options)) (*ec2.RunInstancesOutput, error)
	RebootInstances(context.Context, *ec2.RebootInstancesInput, ...func(*ec2.Options)) (*ec2.RebootInstancesOutput, error)
	TerminateInstances(context.Context, *ec2.TerminateInstancesInput, ...func(*ec2.Options)) (*ec2.TerminateInstancesOutput, error)
}

// connect reads settings and calls nobody. Each call is tried once: when and whether to try again is decided
// for all clouds alike, outside the drivers.
func connect(ctx context.Context, options Options, account driver.Account, secret driver.Credentials) (*Driver, error) {
	loaded, err := settings(ctx, account, secret)
	if err != nil {
		return nil, err
	}
	client := ec2.NewFromConfig(loaded, func(o *ec2.Options) {
		o.HTTPClient = whole{o.HTTPClient}
		if options.Endpoint != "" {
			o.BaseEndpoint = &options.Endpoint
		}
	})
	identities := sts.NewFromConfig(loaded, func(o *sts.Options) {
		o.HTTPClient = whole{o.HTTPClient}
		if own := cmp.Or(options.STSEndpoint, options.Endpoint); own != "" {
			o.BaseEndpoint = &own
		}
	})
	now := options.Now
	if now == nil {
		now = time.Now
	}
	pageSize := options.PageSize
	if pageSize == 0 {
		pageSize = 1000
	}
	return &Driver{api: client, identities: identities, lookup: launch.NewLookup(client, now), recent: createcache.New(now), pageSize: &pageSize}, nil
}

// whole gives the transport a body of its own. The SDK closes the body as soon as an answer begins, and a
// transport that had not seen its end by then would cut the connection off from under the answer.
type whole struct{ aws.HTTPClient }

func (w whole) Do(request *http.Request) (*http.Response, error) {
	if request.Body == nil {
		return w.HTTPClient.Do(request)
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	sent := request.Clone(request.Context())
	sent.Body, sent.GetBody = io.NopCloser(bytes.NewReader(body)), nil
	return w.HTTPClient.Do(sent)
}

// Create implements driver.Driver.
func (d *Driver) Create(ctx context.Context, req driver.Request[Config]) (driver.Instance, error) {
	found, err := d.seek(ctx, req.Identity)
	if err != nil {
		return driver.Instance{}, err
	}
	if len(found) > 0 {
		d.recent.Forget(req.Identity.UID)
		return owned(found[0], req.Identity)
	}
	if made, ok := d.recent.Instance(req.Identity); ok {
		return owned(made, req.Identity)
	}
	request, err := d.lookup.Request(ctx, order(req))
	if err != nil {
		return driver.Instance{}, refused(err, req.Config)
	}
	if err := d.doubt(req, request); err != nil {
		return driver.Instance{}, err
	}
	out, err := d.api.RunInstances(ctx, request)
	if code := codeOf(err); code == codeTokenTerminated || code == codeTokenMismatch && d.recent.Refused(req.Identity.UID) >= createcache.Window {
		// The instance of that token is gone, or there was never one: EC2 also holds a token to the
		// parameters of a request that it refused. They are part of the next token, so that it fits.
		request.ClientToken = aws.String(digest(*request))
		out, err = d.api.RunInstances(ctx, request)
	}
	return d.made(out, err, req, launch.Place(request))
}

// doubt fails while an earlier call may have made an instance that EC2 does not show yet and that a request would not
// find: a token is good for one zone, and a filter or a launch template may lead to another one than it did then.
func (d *Driver) doubt(req driver.Request[Config], request *ec2.RunInstancesInput) error {
	if d.recent.Elsewhere(req.Identity.UID, launch.Place(request)) {
		return errUnlisted
	}
	fixed := req.Config.Zone != "" || req.Config.Spec.Subnet.ID != ""
	if !fixed && d.recent.IsYoung() && !req.Since.After(d.recent.Since()) {
		return errYoung
	}
	return nil
}

// made judges the answer of RunInstances.
func (d *Driver) made(out *ec2.RunInstancesOutput, err error, req driver.Request[Config], place string) (driver.Instance, error) {
	if codeOf(err) == codeTokenMismatch {
		return driver.Instance{}, errUnlisted
	}
	if err != nil {
		err = refused(err, req.Config)
		switch {
		case unclear(err):
			d.recent.Unclear(req.Identity.UID, place)
		case driver.IsInsufficientCapacity(err), driver.IsQuotaExceeded(err):
			d.recent.Resolve(req.Identity.UID)
		}
		return driver.Instance{}, err
	}
	if len(out.Instances) == 0 {
		d.recent.Unclear(req.Identity.UID, place)
		return driver.Instance{}, errUnlisted
	}
	instance := toInstance(out.Instances[0])
	d.recent.Created(instance)
	return owned(instance, req.Identity)
}

// unclear reports whether a request that failed may have been carried out.
func unclear(err error) bool {
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
	return owned(found[0], id)
}

// Delete implements driver.Driver.
func (d *Driver) Delete(ctx context.Context, id driver.Identity) error {
	found, err := d.find(ctx, id)
	if err != nil {
		return err
	}
	var living []string
	for _, instance := range found {
		if err := id.Check(instance.Identity); err != nil {
			return err
		}
		if instance.State != driver.Terminated {
			living = append(living, instance.ID)
		}
	}
	if len(living) == 0 {
		return nil
	}
	if _, err := d.api.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: living}); err != nil {
		if err = toError(err); driver.IsNotFound(err) {
			return errUnlisted
		}
		return err
	}
	d.recent.Forget(found[0].Identity.UID)
	return nil
}

// List implements driver.Driver.
func (d *Driver) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	query := &ec2.DescribeInstancesInput{MaxResults: d.pageSize, Filters: []types.Filter{
		{Name: aws.String("tag-key"), Values: []string{driver.TagMachineUID}},
		{Name: aws.String("instance-state-name"), Values: []string{"pending", "running", "shutting-down", "stopping", "stopped"}},
	}}
	if owner != (driver.Owner{}) {
		query.Filters = append(query.Filters, tag(driver.TagClusterNamespace, owner.Namespace), tag(driver.TagCluster, owner.Name), tag(driver.TagClusterUID, string(owner.UID)))
	}
	return d.describe(ctx, query)
}

// find returns the instances of an identity as seek does, and those that EC2 made a moment ago and does not
// show yet. It fails while that is unclear.
func (d *Driver) find(ctx context.Context, id driver.Identity) ([]driver.Instance, error) {
	found, err := d.seek(ctx, id)
	if err != nil || len(found) > 0 {
		return found, err
	}
	if made, ok := d.recent.Instance(id); ok {
		return []driver.Instance{made}, nil
	}
	if id.ProviderID == "" && d.recent.IsUnclear(id.UID) {
		return nil, errUnlisted
	}
	if d.recent.IsYoung() {
		return nil, errYoung
	}
	return nil, nil
}

// seek returns the instances that EC2 shows for an identity, the one that counts first. There is more than
// one only after a token outlived EC2's memory of it.
func (d *Driver) seek(ctx context.Context, id driver.Identity) (found []driver.Instance, err error) {
	if id.ProviderID == "" && id.UID == "" {
		return nil, nil
	}
	query := &ec2.DescribeInstancesInput{Filters: []types.Filter{tag(driver.TagMachineUID, string(id.UID))}}
	if id.ProviderID != "" {
		name, ok := instanceID(id.ProviderID)
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
		found = append(found, instance)
	}
	slices.SortFunc(found, byAge)
	return id.Own(found), nil
}

// describe yields what matches a query, page by page, and a failure last.
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

// tag is a filter for what has a tag. A value is taken as it is: EC2 would match wildcards in it.
func tag(key, value string) types.Filter {
	return types.Filter{Name: aws.String("tag:" + key), Values: []string{literal.Replace(value)}}
}

var literal = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`)

// owned returns an instance that must belong to an identity.
func owned(found driver.Instance, id driver.Identity) (driver.Instance, error) {
	if err := id.Check(found.Identity); err != nil {
		return driver.Instance{}, err
	}
	return found, nil
}
