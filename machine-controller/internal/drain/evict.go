// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/drainplan"
)

// outcome is the result of one eviction or deletion. The zero outcome means that the Pod is terminating.
type outcome struct {
	// cause for which the Pod is still awaited.
	cause Cause
	// gone means that the Pod does not exist any more.
	gone bool
	// tooMany means that the answer was 429, without a PodDisruptionBudget.
	tooMany bool
	// retryAfter is for how long the API server refuses further requests.
	retryAfter time.Duration
	// err ends the pass.
	err error
}

// evict has a precondition on the UID: a StatefulSet may have created a Pod of the same name on another Node.
func evict(ctx context.Context, c client.Client, d drainplan.Decision) error {
	return c.SubResource("eviction").Create(ctx, d.Pod, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Pod.Namespace, Name: d.Pod.Name},
		DeleteOptions: &metav1.DeleteOptions{
			GracePeriodSeconds: d.GraceSeconds,
			Preconditions:      &metav1.Preconditions{UID: &d.Pod.UID},
		},
	})
}

func remove(ctx context.Context, c client.Client, d drainplan.Decision) error {
	return c.Delete(ctx, d.Pod, client.GracePeriodSeconds(*d.GraceSeconds), client.Preconditions{UID: &d.Pod.UID})
}

// outcomeOf converts the error of a request. Errors that are no answer of the API server end the pass.
func outcomeOf(err error, matching []*budget) outcome {
	if err == nil {
		return outcome{cause: Cause{Kind: Terminating}}
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return outcome{err: err}
	}
	switch {
	case apierrors.IsNotFound(err):
		return outcome{gone: true}
	case apierrors.IsConflict(err):
		return outcome{cause: Cause{Kind: NextPass}} // replaced or changed since it was listed
	case apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return outcome{cause: Cause{Kind: NamespaceTerminating}}
	case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		return outcome{cause: markExhausted(matching)}
	case apierrors.IsTooManyRequests(err):
		return tooMany(status.Status())
	}
	return outcome{cause: Cause{Kind: Refused, Detail: detail(status.Status())}}
}

// tooMany is the outcome for an answer 429 without a PodDisruptionBudget: of an API server that is overloaded, with
// when to come back, or of an admission webhook, which refuses this one Pod.
func tooMany(s metav1.Status) outcome {
	if s.Details != nil && s.Details.RetryAfterSeconds > 0 {
		return outcome{cause: Cause{Kind: NextPass}, tooMany: true, retryAfter: time.Duration(s.Details.RetryAfterSeconds) * time.Second}
	}
	return outcome{cause: Cause{Kind: Refused, Detail: detail(s)}, tooMany: true}
}

// detail is the message of an admission webhook or API server, without what differs with every attempt.
func detail(s metav1.Status) string {
	switch s.Reason {
	case metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout, metav1.StatusReasonInternalError,
		metav1.StatusReasonServiceUnavailable:
		return fmt.Sprintf("the API server answered %d %s", s.Code, s.Reason)
	}
	const limit = 300
	message := []rune(s.Message)
	if len(message) > limit {
		message = append(message[:limit], '…')
	}
	if len(message) == 0 {
		return fmt.Sprintf("the API server answered %d %s", s.Code, http.StatusText(int(s.Code)))
	}
	return string(message)
}
