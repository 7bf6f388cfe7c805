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
)

// verdict is the answer to one eviction or deletion. The zero verdict means that the Pod is on its way out.
type verdict struct {
	// cause for which the Pod is still awaited.
	cause Cause
	// gone: there is no such Pod any more.
	gone bool
	// tooMany: the answer was 429, without a PodDisruptionBudget.
	tooMany bool
	// retryAfter: no further requests are wanted until then.
	retryAfter time.Duration
	// err ends the pass.
	err error
}

// evict asks for this very Pod: a StatefulSet may have made one of the same name on another Node meanwhile.
func evict(ctx context.Context, c client.Client, d Decision) error {
	return c.SubResource("eviction").Create(ctx, d.Pod, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Pod.Namespace, Name: d.Pod.Name},
		DeleteOptions: &metav1.DeleteOptions{
			GracePeriodSeconds: d.GraceSeconds,
			Preconditions:      &metav1.Preconditions{UID: &d.Pod.UID},
		},
	})
}

func remove(ctx context.Context, c client.Client, d Decision) error {
	return c.Delete(ctx, d.Pod, client.GracePeriodSeconds(*d.GraceSeconds), client.Preconditions{UID: &d.Pod.UID})
}

// read turns an answer into a verdict. Errors that are no answer of the API server end the pass.
func read(err error, matching []*budget) verdict {
	if err == nil {
		return verdict{cause: Cause{Kind: Terminating}}
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return verdict{err: err}
	}
	switch {
	case apierrors.IsNotFound(err):
		return verdict{gone: true}
	case apierrors.IsConflict(err):
		return verdict{cause: Cause{Kind: NextPass}} // replaced or changed since it was listed
	case apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return verdict{cause: Cause{Kind: NamespaceTerminating}}
	case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		return verdict{cause: exhaust(matching)}
	case apierrors.IsTooManyRequests(err):
		return tooMany(status.Status())
	}
	return verdict{cause: Cause{Kind: Refused, Detail: detail(status.Status())}}
}

// tooMany is the verdict for an answer 429 without a PodDisruptionBudget: of an API server that is overloaded, which says
// when to come back, or of an admission webhook, which refuses this one Pod.
func tooMany(s metav1.Status) verdict {
	if s.Details != nil && s.Details.RetryAfterSeconds > 0 {
		return verdict{cause: Cause{Kind: NextPass}, tooMany: true, retryAfter: time.Duration(s.Details.RetryAfterSeconds) * time.Second}
	}
	return verdict{cause: Cause{Kind: Refused, Detail: detail(s)}, tooMany: true}
}

// detail quotes what somebody wrote for humans, and only names what differs with every attempt.
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
