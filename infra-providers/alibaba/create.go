// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package alibaba

import (
	"context"
	"fmt"
	"time"

	ecs "github.com/alibabacloud-go/ecs-20140526/v7/client"

	"drover.io/infra-providers/alibaba/request"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/createcache"
)

// refusalPause is how long after a refusal the same instance is requested again at the earliest. The caller pauses for a minute
// and longer.
const refusalPause = 30 * time.Second

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
	input, err := toInput(req)
	if err != nil {
		return driver.Instance{}, err
	}
	image, err := d.lookup.Image(ctx, req.Config.Spec)
	if err != nil {
		return driver.Instance{}, err
	}
	message, err := request.Instance(input, image)
	if err != nil {
		return driver.Instance{}, err
	}
	if err := d.checkEarlierCreation(req); err != nil {
		return driver.Instance{}, err
	}
	id, err := d.run(ctx, req, message)
	if err != nil {
		return driver.Instance{}, d.failed(err, req)
	}
	return d.created(ctx, req, id)
}

// checkEarlierCreation fails while an earlier call may have created an instance that ECS does not list yet and that the request
// would duplicate, because it would have another client token. A process that has just started does not know how many requests
// of an earlier one were refused; for a machine that is hardly older than itself there was one at most.
func (d *Driver) checkEarlierCreation(req driver.CreateRequest[InstanceConfig]) error {
	if d.creations.UnansweredElsewhere(req.Identity, placeOf(req.Config)) {
		return errNotListedYet
	}
	if d.creations.InStartupWindow() && req.Since.Before(d.creations.Started().Add(-refusalPause)) {
		return errCreationUnknown
	}
	return nil
}

// run requests the instance and returns its ID. Errors are those of the client.
//
// ECS binds a token to the parameters of the request that had it first. When the bootstrap data or the newest image has changed
// since, either there is an instance, which will be listed, or that request was refused. Then another token is used, which
// derives from the parameters and so matches them.
func (d *Driver) run(ctx context.Context, req driver.CreateRequest[InstanceConfig], message *ecs.RunInstancesRequest) (string, error) {
	place := placeOf(req.Config)
	message.SetClientToken(clientToken(req.Identity, place, d.creations.Refusals(req.Identity, place)))
	id, err := d.client.runInstances(ctx, message)
	if errorCode(err) == codeTokenMismatch && d.creations.AddMismatch(req.Identity) {
		message.SetClientToken(createcache.ClientToken(*message))
		return d.client.runInstances(ctx, message)
	}
	return id, err
}

// failed returns the kind of the error of a creation, and records what it says about the instance. A refusal counts only when no
// earlier request of the machine may still arrive. Each that counts is followed by another client token, because ECS may have stored the
// refusal with the one before.
func (d *Driver) failed(err error, req driver.CreateRequest[InstanceConfig]) error {
	place := placeOf(req.Config)
	code := errorCode(err)
	err = toCreateError(err, req.Config)
	switch {
	case code == codeTokenMismatch:
		return errNotListedYet
	case code == codeTokenInUse:
		d.creations.AddUnanswered(req.Identity, place)
		return errNotListedYet
	case code == codeTokenFailed, driver.IsInsufficientCapacity(err), driver.IsQuotaExceeded(err), driver.IsInvalidConfiguration(err):
		if d.creations.Unanswered(req.Identity) || code == codeTokenFailed && d.creations.InStartupWindow() {
			return fmt.Errorf("%w: %s", errNotListedYet, err.Error())
		}
		d.addRefusal(err, req.Identity, place)
		return err
	case driver.IsUnauthorized(err):
		if !d.creations.Unanswered(req.Identity) {
			d.addRefusal(err, req.Identity, place)
		}
	case isUnanswered(err):
		d.creations.AddUnanswered(req.Identity, place)
	}
	return err
}

// addRefusal records that a request was refused. ECS may check permissions and parameters before the token, so such a refusal does
// not prove that an earlier process created no instance with the token.
func (d *Driver) addRefusal(err error, id driver.Identity, place string) {
	invalid := driver.IsInvalidConfiguration(err) || driver.IsUnauthorized(err)
	switch {
	case invalid && d.creations.InStartupWindow():
	case invalid:
		d.creations.AddInvalid(id, place)
	default:
		d.creations.AddRefusal(id, place)
	}
}

// isUnanswered reports whether a request that failed without a refusal may have been carried out.
func isUnanswered(err error) bool {
	return !driver.IsRateLimited(err) && !driver.IsAccountMismatch(err)
}

// created returns the instance that ECS has accepted. The answer has only its ID, so it is read; until ECS lists it, it is what
// was requested.
func (d *Driver) created(ctx context.Context, req driver.CreateRequest[InstanceConfig], id string) (driver.Instance, error) {
	identity := req.Identity
	identity.ProviderID = d.providerID(id)
	instance := driver.Instance{
		ID: id, ProviderID: identity.ProviderID, Identity: identity, State: driver.Pending, FailureDomain: req.Config.ZoneID,
		Created: d.clock.Now().UTC().Truncate(time.Second), PollAfter: pollInterval,
	}
	d.creations.AddCreated(instance)
	byID := driver.Identity{UID: req.Identity.UID, Name: req.Identity.Name, Owner: req.Identity.Owner, ProviderID: identity.ProviderID}
	listed, err := d.findListed(ctx, byID)
	if err != nil || len(listed) == 0 {
		return instance, nil //nolint:nilerr // the instance exists, and is read again
	}
	return byID.Checked(listed[0])
}
