// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/httplimit"
	"drover.io/runtime/requesterror"
)

// toError converts the reasons of an API server into kinds of package driver. All others may pass.
func toError(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if limited, ok := errors.AsType[*driver.RateLimitedError](err); ok {
		return limited
	}
	if isUnknownKind(err) {
		return errUnknownKind
	}
	if isTooLong(err) {
		return fmt.Errorf("%w: %s", errTooLong, requesterror.Describe(err))
	}
	stable := fmt.Errorf("the infrastructure cluster: %s", requesterror.Describe(err))
	switch reason(err) {
	case metav1.StatusReasonUnauthorized, metav1.StatusReasonForbidden:
		return &driver.UnauthorizedError{Err: stable}
	default:
		return stable
	}
}

var errUnknownKind = errors.New("the infrastructure cluster does not serve a kind of KubeVirt or CDI: it starts, or these are not installed")

var errLimited = errors.New("the infrastructure cluster limits the requests")

var errTooLong = errors.New("an answer of the infrastructure cluster is too long")

// isTooLong reports whether an answer goes beyond a limit, and was not decoded.
func isTooLong(err error) bool {
	_, bytes := errors.AsType[*httplimit.TooLargeError](err)
	_, elements := errors.AsType[*httplimit.TooManyElementsError](err)
	return bytes || elements || errors.Is(err, errTooManyItems)
}

// reason is that of an answer, also of one from a proxy that is no Status; empty without an answer.
func reason(err error) metav1.StatusReason {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return metav1.StatusReasonConflict // it is Forbidden, and no permission would help
	}
	status, answered := errors.AsType[*apierrors.StatusError](err)
	if !answered {
		return ""
	}
	switch status.Status().Code {
	case http.StatusUnauthorized:
		return metav1.StatusReasonUnauthorized
	case http.StatusForbidden:
		return metav1.StatusReasonForbidden
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
		return metav1.StatusReasonInvalid
	default:
		return status.Status().Reason
	}
}

// toCreateError converts the refusal of a creation. It is Forbidden for lack of a permission, and by an admission plugin: a
// ResourceQuota, or a policy. Only the API server distinguishes these, so it is asked.
func (d *Driver) toCreateError(ctx context.Context, err error, resource string) error {
	switch reason(err) {
	case metav1.StatusReasonInvalid:
		return &driver.InvalidConfigurationError{Field: "spec", Err: refusal(err)}
	case metav1.StatusReasonForbidden:
		if d.mayCreate(ctx, resource) {
			return &driver.QuotaExceededError{Err: refusal(err)}
		}
	}
	return toError(err)
}

func refusal(err error) error {
	return fmt.Errorf("the infrastructure cluster refuses it: %s", requesterror.Describe(err))
}

// mayCreate reports whether the credentials permit to create a resource.
func (d *Driver) mayCreate(ctx context.Context, resource string) bool {
	group := ""
	if resource == "virtualmachines" {
		group = virtv1.GroupVersion.Group
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: d.namespace, Verb: "create", Group: group, Resource: resource},
	}}
	return d.api.Create(ctx, review) == nil && review.Status.Allowed
}

// isNotFound reports whether the API server answered that an object does not exist. While it starts, or without KubeVirt, it
// answers the same about the path of the request, and proxies do.
func isNotFound(err error, resource, name string) bool {
	status, answered := errors.AsType[*apierrors.StatusError](err)
	if !answered || status.Status().Reason != metav1.StatusReasonNotFound {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == resource && details.Name == name && !isUnknownKind(err)
}

// isUnknownKind reports whether the API server does not serve the kind of a request.
func isUnknownKind(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// isGone reports whether a deletion finds that its object does not exist any more, or is another one of the same name.
func isGone(err error) bool {
	return apierrors.IsNotFound(err) && !isUnknownKind(err) || apierrors.IsConflict(err)
}
