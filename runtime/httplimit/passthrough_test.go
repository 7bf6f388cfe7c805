// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"drover.io/runtime/httplimit"
)

// scripted answers each request with what it has.
type scripted struct {
	response *http.Response
	err      error
}

func (s *scripted) RoundTrip(*http.Request) (*http.Response, error) { return s.response, s.err }

// wrappers are the three RoundTrippers around another one.
func wrappers(next http.RoundTripper) map[string]http.RoundTripper {
	return map[string]http.RoundTripper{
		"bytes": httplimit.Wrap(next, 8), "JSON": httplimit.WrapJSON(next, 8, 8), "seats": httplimit.NewSeats(1, 1).Wrap(next, "a"),
	}
}

func roundTrip(t *testing.T, through http.RoundTripper) (*http.Response, error) {
	t.Helper()
	return through.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://a/api", http.NoBody))
}

func TestErrorsOfTheTransportBelowAreReturned(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, through := range wrappers(&scripted{err: boom}) {
		if response, err := roundTrip(t, through); !errors.Is(err, boom) {
			_ = response.Body.Close()
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestSwitchedProtocolsAreNotLimited: what follows is a stream of its own, such as that of exec.
func TestSwitchedProtocolsAreNotLimited(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 64)
	for _, name := range []string{"bytes", "JSON", "seats"} {
		response := &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: io.NopCloser(strings.NewReader(long))}
		got, err := roundTrip(t, wrappers(&scripted{response: response})[name])
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(got.Body)
		if err != nil || string(content) != long {
			t.Errorf("%s: read %q, %v", name, content, err)
		}
		_ = got.Body.Close()
	}
}

func TestClientGoFindsTheTransportBelow(t *testing.T) {
	t.Parallel()
	below := &scripted{}
	for name, through := range wrappers(below) {
		wrapper, is := through.(utilnet.RoundTripperWrapper)
		if !is || wrapper.WrappedRoundTripper() != http.RoundTripper(below) {
			t.Errorf("%s hides the transport", name)
		}
	}
}

func TestMessagesOfErrors(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"the server's answer is larger than 64 KiB":             &httplimit.TooLargeError{Limit: 64 << 10},
		"the server's answer is larger than 1023 KiB":           &httplimit.TooLargeError{Limit: 1<<20 - 1},
		"the server's answer is larger than 1 MiB":              &httplimit.TooLargeError{Limit: 1 << 20},
		"the server's answer has more than 7 elements":          &httplimit.TooManyElementsError{Limit: 7},
		`the server answered with "text/x" instead of JSON`:     &httplimit.ContentTypeError{ContentType: "text/x"},
		"too many long answers are being read at the same time": &httplimit.BusyError{},
	} {
		if err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
	}
}

// closing counts how often an answer is closed.
type closing struct {
	io.Reader
	closed int
}

func (c *closing) Close() error {
	c.closed++
	return nil
}

func TestRefusedAnswerIsClosed(t *testing.T) {
	t.Parallel()
	body := &closing{Reader: strings.NewReader("k8s")}
	response := &http.Response{StatusCode: http.StatusOK, Body: body, Header: http.Header{"Content-Type": {"application/vnd.kubernetes.protobuf"}}}
	if got, err := roundTrip(t, httplimit.WrapJSON(&scripted{response: response}, 8, 8)); err == nil {
		_ = got.Body.Close()
		t.Error("the answer is not refused")
	}
	if body.closed != 1 {
		t.Errorf("it is closed %d times", body.closed)
	}
}

// TestAnswerOfTheShortLengthNeedsNoPlace, whatever the sizes in which it is read.
func TestAnswerOfTheShortLengthNeedsNoPlace(t *testing.T) {
	t.Parallel()
	for size := range 8 {
		content := strings.Repeat("x", 6)
		response := &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(content))}
		seats := httplimit.NewSeats(1, 6)
		taken, err := roundTrip(t, seats.Wrap(&scripted{response: &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("1234567"))}}, "b"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, taken.Body); err != nil {
			t.Fatal(err)
		}
		got, err := roundTrip(t, seats.Wrap(&scripted{response: response}, "a"))
		if err != nil {
			t.Fatal(err)
		}
		var read bytes.Buffer
		if _, err := io.CopyBuffer(struct{ io.Writer }{&read}, struct{ io.Reader }{got.Body}, make([]byte, size+1)); err != nil || read.String() != content {
			t.Errorf("in pieces of %d: read %q, %v", size+1, &read, err)
		}
		if n, err := got.Body.Read(nil); n != 0 || err != nil {
			t.Errorf("an empty read returns %d, %v", n, err)
		}
		_, _ = got.Body.Close(), taken.Body.Close()
	}
}

// TestAnswerThatEndsAtItsLimitIsWhole, also where its end is only seen by another read.
func TestAnswerThatEndsAtItsLimitIsWhole(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, test := range map[string]struct {
		body io.Reader
		want error
	}{
		"it ends":                 {strings.NewReader("12345678"), nil},
		"it ends with its data":   {iotest.DataErrReader(strings.NewReader("12345678")), nil},
		"it breaks":               {io.MultiReader(strings.NewReader("12345678"), iotest.ErrReader(boom)), boom},
		"it goes on for one byte": {strings.NewReader("123456789"), &httplimit.TooLargeError{Limit: 8}},
	} {
		got, err := roundTrip(t, httplimit.Wrap(&scripted{response: &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(test.body)}}, 8))
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(got.Body)
		_ = got.Body.Close()
		large, isLarge := errors.AsType[*httplimit.TooLargeError](err)
		if string(content) != "12345678" || !isLarge && !errors.Is(err, test.want) || isLarge && *large != (httplimit.TooLargeError{Limit: 8}) || isLarge != (name == "it goes on for one byte") {
			t.Errorf("%s: read %q, %v", name, content, err)
		}
	}
}

func TestAnswersWithoutABodyAreReturned(t *testing.T) {
	t.Parallel()
	for name, through := range wrappers(&scripted{response: &http.Response{StatusCode: http.StatusOK}}) {
		response, err := roundTrip(t, through)
		if err != nil || response.Body != nil {
			t.Errorf("%s: got %v", name, err)
		}
		if response.Body != nil {
			_ = response.Body.Close()
		}
	}
}

// TestEveryErrorAnswerIsShort: the limit of errors begins with the first status that is one.
func TestEveryErrorAnswerIsShort(t *testing.T) {
	t.Parallel()
	const longest = 64 << 10
	for status, bounded := range map[int]bool{http.StatusOK: false, 399: false, http.StatusBadRequest: true, http.StatusForbidden: true, http.StatusBadGateway: true} {
		body := io.NopCloser(strings.NewReader(`"` + strings.Repeat("x", longest)))
		got, err := roundTrip(t, httplimit.WrapJSON(&scripted{response: &http.Response{StatusCode: status, Body: body, Header: http.Header{}}}, 1<<20, 8))
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, got.Body)
		_ = got.Body.Close()
		if _, large := errors.AsType[*httplimit.TooLargeError](err); large != bounded {
			t.Errorf("status %d: got %v, want bounded %t", status, err, bounded)
		}
	}
}
