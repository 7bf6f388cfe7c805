// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drover.io/machine-controller/internal/workload/nodecache"
	"drover.io/runtime/kubeconfig"
)

// TestClassify has one error of each kind; package workload of runtime has the tests of the messages.
func TestClassify(t *testing.T) {
	t.Parallel()
	nodes := schema.GroupResource{Resource: "nodes"}
	tests := map[string]struct {
		err  error
		want failure
	}{
		"401":                           {apierrors.NewUnauthorized("x"), failure{reason: ReasonUnauthorized, message: "API server https://a refuses the credentials in the kubeconfig; renew them in the Secret"}},
		"a wrapped 403":                 {fmt.Errorf("listing: %w", apierrors.NewForbidden(nodes, "", errors.New("no"))), failure{reason: ReasonForbidden, message: `API server https://a: nodes is forbidden: no` + grantPermissions}},
		"a deadline":                    {&url.Error{Op: "Get", URL: "https://a/version?timeout=5s", Err: context.DeadlineExceeded}, failure{reason: ReasonUnreachable, message: "API server https://a: no answer in time"}},
		"an answer of no use":           {apierrors.NewConflict(nodes, "n", errors.New("old")), failure{reason: ReasonUnreachable, message: `API server https://a: Operation cannot be fulfilled on nodes "n": old`}},
		"an error without kind":         {errors.New("x"), failure{reason: ReasonUnreachable, message: "API server https://a: x"}},
		"Nodes beyond the memory limit": {fmt.Errorf("listing: %w", nodecache.ErrFull), failure{reason: ReasonNodesTooLarge, full: true, message: "the Nodes of API server https://a and of the other workload clusters of the namespace take more memory than --node-memory-per-namespace allows; remove what makes them so many or so large, or raise the flag"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := classify("https://a", test.err); *got != test.want {
				t.Errorf("got %#v", *got)
			}
		})
	}
}

func TestBadKubeconfig(t *testing.T) {
	t.Parallel()
	for problem, want := range map[kubeconfig.Problem]Reason{
		kubeconfig.Missing:    ReasonKubeconfigMissing,
		kubeconfig.Unreadable: ReasonKubeconfigUnreadable,
		kubeconfig.Invalid:    ReasonKubeconfigInvalid,
	} {
		if got := badKubeconfig(&kubeconfig.Error{Problem: problem, Message: "x"}); *got != (failure{reason: want, message: "x"}) {
			t.Errorf("%s: got %#v", problem, *got)
		}
	}
	if got := badKubeconfig(errors.New("x")); got.reason != ReasonKubeconfigInvalid || !strings.HasSuffix(got.Error(), ": x") {
		t.Errorf("another error: got %v", got)
	}
}
