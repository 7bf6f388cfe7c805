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
)

func TestReadTurnsAnswersIntoVerdicts(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	caused := func(err *apierrors.StatusError, cause metav1.CauseType) error {
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: cause})
		return err
	}
	lost := errors.New("connection reset")
	tests := map[string]struct {
		err  error
		want verdict
	}{
		"takes no error for a Pod on its way out": {want: verdict{cause: Cause{Kind: Terminating}}},
		"knows a Pod that is gone":                {err: apierrors.NewNotFound(pods, "p"), want: verdict{gone: true}},
		"looks again at a Pod that was replaced": {
			err: apierrors.NewConflict(pods, "p", errors.New("UID")), want: verdict{cause: Cause{Kind: NextPass}},
		},
		"waits for the owner of a terminating Namespace": {
			err:  caused(apierrors.NewForbidden(pods, "p", nil), corev1.NamespaceTerminatingCause),
			want: verdict{cause: Cause{Kind: NamespaceTerminating}},
		},
		"names the budget that ran out meanwhile": {
			err:  caused(apierrors.NewTooManyRequests("no", 0), policyv1.DisruptionBudgetCause),
			want: verdict{cause: Cause{Kind: BudgetExhausted, Budgets: []types.NamespacedName{key("web")}}},
		},
		"pauses when the API server is overloaded": {
			err:  apierrors.NewTooManyRequests("slow down", 7),
			want: verdict{cause: Cause{Kind: NextPass}, tooMany: true, retryAfter: 7 * time.Second},
		},
		"quotes an admission webhook that refuses with 429": {
			err:  apierrors.NewTooManyRequests("being migrated", 0),
			want: verdict{cause: Cause{Kind: Refused, Detail: "being migrated"}, tooMany: true},
		},
		"quotes a refusal": {
			err:  apierrors.NewForbidden(pods, "p", errors.New("guarded by its operator")),
			want: verdict{cause: Cause{Kind: Refused, Detail: `pods "p" is forbidden: guarded by its operator`}},
		},
		"does not quote what differs with every attempt": {
			err:  apierrors.NewInternalError(errors.New("dial tcp 10.0.0.1:4711: refused")),
			want: verdict{cause: Cause{Kind: Refused, Detail: "the API server answered 500 InternalError"}},
		},
		"quotes not too much": {
			err:  apierrors.NewBadRequest(strings.Repeat("x", 5000)),
			want: verdict{cause: Cause{Kind: Refused, Detail: strings.Repeat("x", 300) + "…"}},
		},
		"ends the pass when there is no answer": {err: lost, want: verdict{err: lost}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := read(test.err, []*budget{aBudget("web", nil)})
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(verdict{}), cmpopts.EquateErrors()); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}
