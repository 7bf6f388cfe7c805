// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"drover.io/runtime/egress"
	"drover.io/runtime/httplimit"
	"drover.io/runtime/logtest"
	"drover.io/runtime/requesterror"
)

// serve starts a TLS server and returns it with the configuration of a client that verifies it.
func serve(t *testing.T, handler http.HandlerFunc) (*httptest.Server, *rest.Config) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	return server, &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}}
}

func open(t *testing.T, options Options, config *rest.Config) *Transport {
	t.Helper()
	transport, err := NewDialer(options).Open(config, "team")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.Close)
	return transport
}

// get returns what a GET of a URL is answered with.
func get(t *testing.T, client *http.Client, address string) (string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	return string(content), err
}

func answerJSON(content string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(content))
	}
}

func TestRequestsHaveTheCredentialsAndTheUserAgent(t *testing.T) {
	t.Parallel()
	seen := make(chan http.Header, 1)
	server, config := serve(t, func(w http.ResponseWriter, request *http.Request) {
		seen <- request.Header
		answerJSON("{}")(w, request)
	})
	config.BearerToken = "secret"
	if _, err := get(t, HTTPClient(open(t, Options{UserAgent: "drover-test"}, config), 0), server.URL); err != nil {
		t.Fatal(err)
	}
	header := <-seen
	if header.Get("Authorization") != "Bearer secret" || header.Get("User-Agent") != "drover-test" {
		t.Errorf("the header is %v", header)
	}
}

func TestOpenLeavesTheConfigurationAlone(t *testing.T) {
	t.Parallel()
	_, config := serve(t, answerJSON("{}"))
	config.UserAgent = "theirs"
	transport := open(t, Options{UserAgent: "ours"}, config)
	transport.Config().UserAgent = "changed"
	if config.UserAgent != "theirs" || config.ContentType != "" {
		t.Errorf("the configuration was changed to %q, %q", config.UserAgent, config.ContentType)
	}
	got := transport.Config()
	if got.UserAgent != "ours" || got.ContentType != "application/json" || got.AcceptContentTypes != "application/json" || transport.Host() != config.Host {
		t.Errorf("the clients' configuration has %q, %q, %q, %q", got.UserAgent, got.ContentType, got.AcceptContentTypes, transport.Host())
	}
	if got := open(t, Options{}, config).Config().UserAgent; got != "theirs" {
		t.Errorf("without a user agent of the Dialer it is %q", got)
	}
}

func TestOpenRefusesWhatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]*rest.Config{
		"a CA that is no certificate": {Host: "https://a.example.test", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("x")}},
		"a certificate that is none":  {Host: "https://a.example.test", TLSClientConfig: rest.TLSClientConfig{CertData: []byte("x"), KeyData: []byte("x")}},
		"credentials that contradict": {Host: "https://a.example.test", Username: "u", BearerToken: "t"},
	} {
		if _, err := NewDialer(Options{}).Open(config, "team"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestServerMustHaveACertificateOfTheCA(t *testing.T) {
	t.Parallel()
	server, config := serve(t, answerJSON("{}"))
	config.CAData = nil
	_, err := get(t, HTTPClient(open(t, Options{}, config), 0), server.URL)
	if got := Classify(server.URL, err); got.Kind != Unavailable || !strings.Contains(got.Message, "certificate is not signed") {
		t.Errorf("got %v", err)
	}
}

func TestMetadataServiceIsNotConnectedTo(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"https://169.254.169.254", "https://[fd00:ec2::254]:6443", "https://0.0.0.0:6443"} {
		transport := open(t, Options{}, &rest.Config{Host: host})
		if _, err := get(t, HTTPClient(transport, 0), host); !isForbiddenAddress(err) {
			t.Errorf("%s: got %v", host, err)
		}
	}
}

func TestMetadataServiceIsNotReachedThroughAProxy(t *testing.T) {
	t.Parallel()
	reached := make(chan struct{}, 9)
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached <- struct{}{} }))
	t.Cleanup(proxy.Close)
	at, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	transport := open(t, Options{}, &rest.Config{Host: "https://169.254.169.254", Proxy: http.ProxyURL(at)})
	if _, err := get(t, HTTPClient(transport, 0), "https://169.254.169.254"); !isForbiddenAddress(err) {
		t.Errorf("got %v", err)
	}
	if _, err := get(t, HTTPClient(open(t, Options{}, &rest.Config{Host: "https://192.0.2.1", Proxy: http.ProxyURL(at)}), 0), "https://192.0.2.1"); err == nil {
		t.Error("the proxy that answers nothing is taken for the API server")
	}
	if len(reached) != 1 {
		t.Errorf("the proxy was asked %d times, want once, for the address that is permitted", len(reached))
	}
}

func isForbiddenAddress(err error) bool {
	_, forbidden := errors.AsType[*egress.ForbiddenError](err)
	return forbidden
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	reached := make(chan struct{}, 1)
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached <- struct{}{} }))
	t.Cleanup(inside.Close)
	server, config := serve(t, http.RedirectHandler(inside.URL, http.StatusFound).ServeHTTP)
	if _, err := get(t, HTTPClient(open(t, Options{}, config), 0), server.URL); !errors.Is(err, egress.ErrRedirected) {
		t.Errorf("got %v", err)
	}
	if len(reached) > 0 {
		t.Error("a host that the API server named was asked")
	}
}

func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	list := func(elements int) string { return "[" + strings.Repeat("0,", elements-2) + "0]" }
	server, config := serve(t, func(w http.ResponseWriter, request *http.Request) {
		switch request.URL.Path {
		case "/fits":
			answerJSON(list(10))(w, request)
		case "/many":
			answerJSON(list(12))(w, request)
		case "/large":
			answerJSON(`"`+strings.Repeat("x", MaxAnswer))(w, request)
		case "/protobuf":
			w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
			_, _ = w.Write([]byte("k8s\x00"))
		}
	})
	client := HTTPClient(open(t, Options{MaxElements: 10}, config), 0)
	if _, err := get(t, client, server.URL+"/fits"); err != nil {
		t.Error(err)
	}
	_, err := get(t, client, server.URL+"/many")
	if many, is := errors.AsType[*httplimit.TooManyElementsError](err); !is || many.Limit != 10 {
		t.Errorf("too many elements end with %v", err)
	}
	_, err = get(t, client, server.URL+"/large")
	if large, is := errors.AsType[*httplimit.TooLargeError](err); !is || large.Limit != MaxAnswer {
		t.Errorf("too many bytes end with %v", err)
	}
	_, err = get(t, client, server.URL+"/protobuf")
	if _, is := errors.AsType[*httplimit.ContentTypeError](err); !is {
		t.Errorf("protobuf ends with %v", err)
	}
}

// TestLongAnswersShareTheirSeats has one namespace read as many long answers at the same time as it gets seats for.
func TestLongAnswersShareTheirSeats(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	server, config := serve(t, func(w http.ResponseWriter, request *http.Request) {
		answerJSON(`"`+strings.Repeat("x", 2*ShortAnswer))(w, request)
		w.(http.Flusher).Flush()
		select {
		case <-end:
		case <-request.Context().Done():
		}
		_, _ = w.Write([]byte(`"`))
	})
	dialer := NewDialer(Options{})
	ended := make(chan error)
	for range LongAnswers {
		transport, err := dialer.Open(config, "team")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(transport.Close)
		go func() {
			_, err := get(t, HTTPClient(transport.WithSeats(), 0), server.URL)
			ended <- err
		}()
	}
	for range LongAnswers / 2 {
		if err := <-ended; !requesterror.IsUnanswered(err) {
			t.Errorf("without a seat a request ends with %v", err)
		}
	}
	other, err := dialer.Open(config, "another team")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	unbounded := make(chan error)
	for _, roundTripper := range []http.RoundTripper{other.WithSeats(), other} {
		go func() {
			_, err := get(t, HTTPClient(roundTripper, 0), server.URL)
			unbounded <- err
		}()
	}
	close(end)
	for range LongAnswers / 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if err := <-unbounded; err != nil {
			t.Errorf("another namespace, or a request that needs no seat: %v", err)
		}
	}
}

func TestRetryAfterIsHidden(t *testing.T) {
	t.Parallel()
	_, config := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	transport := open(t, Options{}, config)
	response, err := transport.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, config.Host, http.NoBody))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") != "" {
		t.Errorf("the answer is %d with Retry-After %q", response.StatusCode, response.Header.Get("Retry-After"))
	}
}

// TestWarningsAreNotLogged: the API server of a tenant could fill the log with up to 64 KiB for each request.
func TestWarningsAreNotLogged(t *testing.T) {
	t.Parallel()
	_, config := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Warning", `299 - "written by a tenant"`)
		answerJSON(`{"kind":"Node","apiVersion":"v1"}`)(w, r)
	})
	transport := open(t, Options{}, config)
	clients, err := kubernetes.NewForConfigAndClient(transport.Config(), HTTPClient(transport, 0))
	if err != nil {
		t.Fatal(err)
	}
	var log logtest.Recorder
	if _, err := clients.CoreV1().Nodes().Get(log.Context(t.Context()), "a", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	if lines := log.Take(); len(lines) > 0 {
		t.Errorf("logged %q", lines)
	}
}

// TestUnansweredWatchIsNoTimeout: client-go repeats a watch that ends with a timeout, and never lists again.
func TestUnansweredWatchIsNoTimeout(t *testing.T) {
	t.Parallel()
	server, config := serve(t, func(_ http.ResponseWriter, request *http.Request) { <-request.Context().Done() })
	client := HTTPClient(open(t, Options{AnswerTimeout: 50 * time.Millisecond}, config), 0)
	for path, want := range map[string]bool{"/api/v1/nodes": true, "/api/v1/nodes?watch=true": false} {
		_, err := get(t, client, server.URL+path)
		timeout, is := errors.AsType[net.Error](err)
		if got := is && timeout.Timeout(); err == nil || got != want {
			t.Errorf("%s ends with %v, which is a timeout: %t, want %t", path, err, got, want)
		}
	}
}

func TestRequestEndsWithTheTimeoutOfItsClient(t *testing.T) {
	t.Parallel()
	server, config := serve(t, func(_ http.ResponseWriter, request *http.Request) { <-request.Context().Done() })
	_, err := get(t, HTTPClient(open(t, Options{}, config), 50*time.Millisecond), server.URL)
	if got := Classify("a", err); got != (Failure{Unavailable, "API server a: no answer in time"}) {
		t.Errorf("got %v", got)
	}
}

func TestConnectingEndsWithTheDialTimeout(t *testing.T) {
	t.Parallel()
	unreachable, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unreachable.Close() })
	host := "https://" + unreachable.Addr().String() // it accepts, and never begins TLS
	_, err = get(t, HTTPClient(open(t, Options{DialTimeout: 50 * time.Millisecond}, &rest.Config{Host: host}), 0), host)
	if got := Classify("a", err); got != (Failure{Unavailable, "API server a: no answer in time"}) {
		t.Errorf("got %v", got)
	}
}

func TestCloseEndsAllRequests(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 1)
	server, config := serve(t, func(_ http.ResponseWriter, request *http.Request) {
		begun <- struct{}{}
		<-request.Context().Done()
	})
	transport := open(t, Options{}, config)
	ended := make(chan error)
	go func() {
		_, err := get(t, HTTPClient(transport, 0), server.URL)
		ended <- err
	}()
	<-begun
	transport.Close()
	if err := <-ended; err == nil {
		t.Error("a request that was under way succeeded")
	}
	if _, err := get(t, HTTPClient(transport, 0), server.URL); !errors.Is(err, ErrClosed) {
		t.Errorf("a new request ends with %v", err)
	}
}

func TestCloseIdleKeepsTheTransportUsable(t *testing.T) {
	t.Parallel()
	states := make(chan http.ConnState, 100)
	begun, end := make(chan struct{}, 9), make(chan struct{}, 9)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		begun <- struct{}{}
		<-end
		answerJSON("{}")(w, request)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) { states <- state }
	server.StartTLS()
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}}
	transport := open(t, Options{}, config)
	ended := make(chan error)
	get := func() {
		_, err := get(t, HTTPClient(transport, 0), server.URL)
		ended <- err
	}
	go get()
	<-begun
	transport.CloseIdle()
	end <- struct{}{}
	if err := <-ended; err != nil {
		t.Errorf("a request that was under way ends with %v", err)
	}
	transport.CloseIdle()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for closed := false; !closed; {
		select {
		case state := <-states:
			closed = state == http.StateClosed
		case <-ctx.Done():
			t.Fatal("the idle connection stays open")
		}
	}
	go get()
	<-begun
	end <- struct{}{}
	if err := <-ended; err != nil {
		t.Errorf("a new request ends with %v", err)
	}
}

func TestDialerHasDefaults(t *testing.T) {
	t.Parallel()
	want := Options{DialTimeout: 5 * time.Second, AnswerTimeout: time.Minute, MaxElements: 100_000}
	if got := NewDialer(Options{}).options; got != want {
		t.Errorf("got %+v", got)
	}
	set := Options{UserAgent: "a", DialTimeout: 1, AnswerTimeout: 2, MaxElements: 3}
	if got := NewDialer(set).options; got != set {
		t.Errorf("what is set becomes %+v", got)
	}
}
