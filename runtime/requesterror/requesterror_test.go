// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package requesterror

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drover.io/runtime/httplimit"
)

func TestIsUnanswered(t *testing.T) {
	t.Parallel()
	request := &url.Error{Op: "Patch", URL: "https://a/api/v1/nodes/n", Err: syscall.ECONNREFUSED}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"is a request that nobody took":        {request, true},
		"is also one that was wrapped":         {fmt.Errorf("cordoning Node: %w", request), true},
		"is no answer that says no":            {apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("no")), false},
		"is no answer that says not now":       {apierrors.NewServiceUnavailable("later"), false},
		"is nothing that was never asked":      {errors.New("x"), false},
		"is no request that ended as it ought": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := IsUnanswered(test.err); got != test.want {
				t.Errorf("unanswered is %t, want %t", got, test.want)
			}
		})
	}
}

func TestIsUnavailable(t *testing.T) {
	t.Parallel()
	nodes := schema.GroupResource{Resource: "nodes"}
	request := func(err error) error { return &url.Error{Op: "Get", URL: "https://a/api", Err: err} }
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"a refused connection":           {request(syscall.ECONNREFUSED), true},
		"a connection that was reset":    {fmt.Errorf("reading: %w", syscall.ECONNRESET), true},
		"no answer in time":              {context.DeadlineExceeded, true},
		"a certificate of another CA":    {x509.UnknownAuthorityError{}, true},
		"an API server that is starting": {apierrors.NewServiceUnavailable("later"), true},
		"an API server that is busy":     {apierrors.NewTooManyRequests("later", 1), true},
		"an answer that is too large":    {fmt.Errorf("reading: %w", &httplimit.TooLargeError{}), true},
		"an answer of too many elements": {fmt.Errorf("reading: %w", &httplimit.TooManyElementsError{}), true},
		"an answer that is no JSON":      {fmt.Errorf("reading: %w", &httplimit.ContentTypeError{}), true},
		"a refusal":                      {apierrors.NewForbidden(nodes, "", errors.New("no")), false},
		"an object that does not exist":  {apierrors.NewNotFound(nodes, "n"), false},
		"a conflict":                     {apierrors.NewConflict(nodes, "n", errors.New("old")), false},
		"nothing":                        {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := IsUnavailable(test.err); got != test.want {
				t.Errorf("unavailable is %t, want %t", got, test.want)
			}
		})
	}
}

func TestDescribeTruncatesLongMessages(t *testing.T) {
	t.Parallel()
	got := Describe(errors.New(strings.Repeat("é", MaxMessage)))
	if len(got) > MaxMessage+len("…") || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
		t.Errorf("it has %d bytes and ends with %q", len(got), got[len(got)-4:])
	}
}
