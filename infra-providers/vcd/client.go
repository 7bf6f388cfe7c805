// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/vmware/go-vcloud-director/v3/types/v56"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/egress"
	"drover.io/runtime/httplimit"
)

const (
	// callTimeout bounds one request. An answer that takes longer counts as lost.
	callTimeout = 30 * time.Second
	// maxNamedAnswer and maxNamedElements bound an answer of a server that a Secret names: a vApp with 100 virtual machines has
	// some MiB.
	maxNamedAnswer   = 16 << 20
	maxNamedElements = 400_000
)

// client sends requests to one organization. The methods of the SDK have no context, retry and wait for tasks, so only its types
// are used. Each request is made once; a session that has ended, or whose version of the API has, is replaced, and then the
// request is repeated, because Director has not carried it out. Addresses in answers are never followed: paths are made of the IDs in them.
type client struct {
	login   login
	http    *http.Client
	session session
}

// newClient makes no request. Long answers of servers that Secrets name take seats.
func newClient(login login, long *httplimit.Seats, now func() time.Time) *client {
	server := driver.Server{OfTenant: login.ofSecret, TLS: login.tls, Timeout: callTimeout, LongAnswers: long, Limit: limitFormats}
	c := &client{login: login, http: &http.Client{Transport: server.Transport(), Timeout: callTimeout, CheckRedirect: egress.NoRedirects}}
	c.session = session{client: c, now: now, loggingIn: make(chan struct{}, 1)}
	return c
}

// limitFormats bounds the answers of both APIs.
func limitFormats(next http.RoundTripper) http.RoundTripper {
	return formats{
		xml:  httplimit.WrapDocuments(next, httplimit.XML, maxNamedAnswer, maxNamedElements),
		json: httplimit.WrapDocuments(next, httplimit.JSON, maxNamedAnswer, maxNamedElements),
	}
}

// formats counts the elements of an answer in the format of its API.
type formats struct{ xml, json http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (f formats) RoundTrip(request *http.Request) (*http.Response, error) {
	if strings.HasPrefix(request.URL.Path, "/api/") {
		return f.xml.RoundTrip(request)
	}
	return f.json.RoundTrip(request)
}

// get reads an object of the XML API.
func (c *client) get(ctx context.Context, path string, query url.Values, into any) error {
	return c.call(ctx, request{method: http.MethodGet, path: "/api" + path, query: query}, into)
}

// start requests a change of the XML API, and returns the task that carries it out. A nil body is none.
func (c *client) start(ctx context.Context, method, path, contentType string, body any) (task types.Task, err error) {
	r := request{method: method, path: "/api" + path, contentType: contentType}
	if body != nil {
		text, err := xml.Marshal(body)
		if err != nil {
			return task, fmt.Errorf("writing the request: %w", err)
		}
		r.body = append([]byte(xml.Header), text...)
	}
	if err := c.call(ctx, r, &task); err != nil {
		return task, err
	}
	if idOf(task.HREF) == "" {
		return task, errIncomplete
	}
	return task, nil
}

// getJSON reads an object of the JSON API.
func (c *client) getJSON(ctx context.Context, path string, query url.Values, into any) error {
	return c.call(ctx, request{method: http.MethodGet, path: "/cloudapi/" + path, query: query, json: true}, into)
}

// request is one request.
type request struct {
	method, path, contentType string
	query                     url.Values
	body                      []byte
	// json is true for what is answered in JSON.
	json bool
	// version is the version of the API, and authorize adds the credentials; nil without any.
	version   string
	authorize func(http.Header)
}

// call sends a request in a session and reads the answer.
func (c *client) call(ctx context.Context, r request, into any) error {
	for repeated := false; ; repeated = true {
		token, err := c.session.token(ctx)
		if err != nil {
			return err
		}
		r.version = token.version
		r.authorize = func(header http.Header) { header.Set("Authorization", "Bearer "+token.text) }
		_, err = c.send(ctx, r, into)
		// The session has ended, or the server was upgraded and does not have the version of the API any more that was found with it.
		// A proxy may refuse the same request with 406 each time, so a session that has begun a moment ago is kept then.
		status, again := statusOf(err), !token.fresh && !repeated
		if status == http.StatusUnauthorized || status == http.StatusNotAcceptable && again && c.session.now().Sub(token.begun) > versionTime {
			c.session.forget(token)
			if again {
				continue
			}
		}
		return toError(err)
	}
}

// send sends a request and reads the answer into a value, which is XML unless the request is for JSON. It returns the headers.
func (c *client) send(ctx context.Context, r request, into any) (http.Header, error) {
	at := *c.login.server
	at.Path, at.RawQuery = r.path, r.query.Encode()
	sent, err := http.NewRequestWithContext(ctx, r.method, at.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, fmt.Errorf("writing the request: %w", err)
	}
	accepted, decode := "application/*+xml", xml.Unmarshal
	if r.json {
		accepted, decode = "application/json", json.Unmarshal
	}
	if r.version != "" {
		accepted += ";version=" + r.version
	}
	sent.Header.Set("Accept", accepted)
	if r.contentType != "" {
		sent.Header.Set("Content-Type", r.contentType)
	}
	if r.authorize != nil {
		r.authorize(sent.Header)
	}
	answer, err := c.http.Do(sent)
	if err != nil {
		return nil, driver.TransportError(err, "calling Cloud Director")
	}
	defer answer.Body.Close() //nolint:errcheck // it is read to its end
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, driver.TransportError(err, "reading the answer of Cloud Director")
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		return nil, readError(answer, body)
	}
	if into == nil {
		return answer.Header, nil
	}
	if err := decode(body, into); err != nil {
		return nil, errIncomplete
	}
	return answer.Header, nil
}

// apiError is an answer that reports a failure, or the failure of a task.
type apiError struct {
	// status is zero for a task.
	status int
	// code is the minor error code; empty for an answer that is not one of Cloud Director, such as that of a proxy.
	code, message string
	retryAfter    time.Duration
}

func (e *apiError) Error() string {
	if e.code == "" {
		return fmt.Sprintf("the answer has the status %d and is not one of Cloud Director", e.status)
	}
	return fmt.Sprintf("%s: %s", e.code, cmp.Or(stable(e.message), "Cloud Director gave no reason"))
}

// readError reads an answer that reports a failure: of the XML API, of the JSON API or of its tokens.
func readError(answer *http.Response, body []byte) error {
	failed := &apiError{status: answer.StatusCode}
	failed.retryAfter, _ = driver.ParseRetryAfter(answer.Header, time.Now())
	var ofXML types.Error
	var ofJSON struct {
		types.OpenApiError
		Error            string `json:"error"`
		ErrorDescription string `json:"error_description"`
	}
	switch {
	case strings.Contains(answer.Header.Get("Content-Type"), "xml") && xml.Unmarshal(body, &ofXML) == nil:
		failed.code, failed.message = ofXML.MinorErrorCode, ofXML.Message
	case json.Unmarshal(body, &ofJSON) == nil:
		failed.code, failed.message = cmp.Or(ofJSON.MinorErrorCode, ofJSON.Error), cmp.Or(ofJSON.Message, ofJSON.ErrorDescription)
	}
	return failed
}
