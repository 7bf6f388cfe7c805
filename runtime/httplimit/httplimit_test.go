// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"drover.io/runtime/httplimit"
)

func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.ReplaceAll(r.Header.Get("Answer"), "|", "\n"))
	}))
	t.Cleanup(server.Close)
	c := &http.Client{Transport: httplimit.Wrap(http.DefaultTransport, 8)}
	for name, test := range map[string]struct {
		answer, want string
		tooLarge     bool
	}{
		"a short answer is read whole":       {"1234", "1234", false},
		"one of exactly the limit as well":   {"12345678", "12345678", false},
		"a longer one fails after the limit": {"123456789", "12345678", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Answer", strings.ReplaceAll(test.answer, "\n", "|"))
			got, err := read(c, request)
			_, tooLarge := errors.AsType[*httplimit.TooLargeError](err)
			if got != test.want || tooLarge != test.tooLarge || (err != nil) != tooLarge {
				t.Errorf("read %q, error %v", got, err)
			}
		})
	}
}

func read(c *http.Client, request *http.Request) (string, error) {
	response, err := c.Do(request)
	if err != nil {
		return "", err
	}
	got, err := io.ReadAll(response.Body)
	return string(got), errors.Join(err, response.Body.Close())
}

// TestEndlessAnswerIsBounded reads from a server that never stops.
func TestEndlessAnswerIsBounded(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat(" ", 1<<16)); err != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := read(&http.Client{Transport: httplimit.Wrap(http.DefaultTransport, 1<<20)}, request)
	if large, is := errors.AsType[*httplimit.TooLargeError](err); !is || large.Error() != "the server's answer is larger than 1 MiB" || len(got) != 1<<20 {
		t.Errorf("read %d bytes, error %v", len(got), err)
	}
}
