// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestErrorsOfListsAreKeptShort: an API server chooses their length, and they are kept for as long as the connection.
func TestErrorsOfListsAreKeptShort(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	for code, reason := range map[int32]metav1.StatusReason{
		http.StatusUnauthorized: metav1.StatusReasonUnauthorized, http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusGone: metav1.StatusReasonExpired,
		http.StatusInternalServerError: metav1.StatusReason(long),
	} {
		raw := &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: code, Reason: reason, Message: long, Details: &metav1.StatusDetails{Name: long},
		}}
		w := &nodeWatch{refused: make(chan error, 1)}
		w.ended(raw)
		for _, kept := range []error{w.last, <-w.refused} {
			status, is := errors.AsType[*apierrors.StatusError](kept)
			if !is || len(status.ErrStatus.String()) > 4096 || status.ErrStatus.Code != code || len(reason) < 64 && apierrors.ReasonForError(kept) != reason {
				t.Errorf("%d: kept %.200v", code, kept)
			}
		}
	}
	for name, raw := range map[string]error{
		"a kind that no client knows": runtime.NewNotRegisteredErrForKind("workload", schema.GroupVersionKind{Version: "v1", Kind: long}),
		"the token of a page":         &url.Error{Op: "Get", URL: "https://host/api/v1/nodes?continue=" + long, Err: errors.New("EOF")},
	} {
		w := &nodeWatch{refused: make(chan error, 1)}
		w.ended(raw)
		for _, kept := range []error{w.last, <-w.refused} {
			if kept == nil || len(kept.Error()) > 4096 || errors.Is(kept, raw) {
				t.Errorf("%s: kept %.200v", name, kept)
			}
		}
	}
	other := errors.New("dial tcp: connection refused")
	w := &nodeWatch{refused: make(chan error, 1)}
	if w.ended(other); !errors.Is(w.last, other) {
		t.Errorf("got %v", w.last)
	}
}
