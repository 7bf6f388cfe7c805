// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"drover.io/runtime/drainplan"
)

func TestOutcomeOf(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	caused := func(err *apierrors.StatusError, cause metav1.CauseType) error {
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: cause})
		return err
	}
	lost := errors.New("connection reset")
	tests := map[string]struct {
		err  error
		want outcome
	}{
		"takes no error for a Pod on its way out": {want: outcome{cause: Cause{Kind: Terminating}}},
		"accepts a Pod that is gone":              {err: apierrors.NewNotFound(pods, "p"), want: outcome{gone: true}},
		"looks again at a Pod that was replaced": {
			err: apierrors.NewConflict(pods, "p", errors.New("UID")), want: outcome{cause: Cause{Kind: NextPass}},
		},
		"waits for the owner of a terminating Namespace": {
			err:  caused(apierrors.NewForbidden(pods, "p", nil), corev1.NamespaceTerminatingCause),
			want: outcome{cause: Cause{Kind: NamespaceTerminating}},
		},
		"names the budget that ran out meanwhile": {
			err:  caused(apierrors.NewTooManyRequests("no", 0), policyv1.DisruptionBudgetCause),
			want: outcome{cause: Cause{Kind: BudgetExhausted, Budgets: []types.NamespacedName{key("web")}}},
		},
		"pauses when the API server is overloaded": {
			err:  apierrors.NewTooManyRequests("slow down", 7),
			want: outcome{cause: Cause{Kind: NextPass}, tooMany: true, retryAfter: 7 * time.Second},
		},
		"quotes an admission webhook that refuses with 429": {
			err:  apierrors.NewTooManyRequests("being migrated", 0),
			want: outcome{cause: Cause{Kind: Refused, Detail: "being migrated"}, tooMany: true},
		},
		"quotes a refusal": {
			err:  apierrors.NewForbidden(pods, "p", errors.New("guarded by its operator")),
			want: outcome{cause: Cause{Kind: Refused, Detail: `pods "p" is forbidden: guarded by its operator`}},
		},
		"does not quote what differs with every attempt": {
			err:  apierrors.NewInternalError(errors.New("dial tcp 10.0.0.1:4711: refused")),
			want: outcome{cause: Cause{Kind: Refused, Detail: "the API server answered 500 InternalError"}},
		},
		"quotes not too much": {
			err:  apierrors.NewBadRequest(strings.Repeat("x", 5000)),
			want: outcome{cause: Cause{Kind: Refused, Detail: strings.Repeat("x", 300) + "…"}},
		},
		"ends the pass when there is no answer": {err: lost, want: outcome{err: lost}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := outcomeOf(test.err, []*budget{aBudget("web", nil)})
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(outcome{}), cmpopts.EquateErrors()); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOutcomesInMetrics(t *testing.T) {
	t.Parallel()
	for want, test := range map[string]struct {
		outcome outcome
		action  drainplan.Action
	}{
		evicted:             {outcome{cause: Cause{Kind: Terminating}}, drainplan.Evict},
		deleted:             {outcome{cause: Cause{Kind: Terminating}}, drainplan.Delete},
		gone:                {outcome{gone: true}, drainplan.Evict},
		awaitsBudget:        {outcome{cause: Cause{Kind: BudgetExhausted}}, drainplan.Evict},
		tooManyRequests:     {outcome{cause: Cause{Kind: Refused}, tooMany: true}, drainplan.Evict},
		refusedByServer:     {outcome{cause: Cause{Kind: Refused}}, drainplan.Evict},
		changed:             {outcome{cause: Cause{Kind: NextPass}}, drainplan.Evict},
		namespaceTerminates: {outcome{cause: Cause{Kind: NamespaceTerminating}}, drainplan.Evict},
		failed:              {outcome{err: errors.New("x")}, drainplan.Evict},
	} {
		if got := test.outcome.label(test.action); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
