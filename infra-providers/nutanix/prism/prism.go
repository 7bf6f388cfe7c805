// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package prism calls version 4 of the API of Nutanix Prism Central. Requests and answers are the types that Nutanix generates;
// the calls are this package's own, because the generated clients have transports of their own: without a CA bundle, with
// retries, cookies and log files, and with calls that no context ends.
//
// It owns HTTP, the negotiation of versions, entity tags, pages and the form of errors. What an error means is for the caller,
// the nutanix driver.
package prism

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"drover.io/runtime/egress"
	"drover.io/runtime/expiring"
)

// The namespaces of the API in use.
const (
	vmm         = "vmm"
	prism       = "prism"
	clustermgmt = "clustermgmt"
	networking  = "networking"
	volumes     = "volumes"
)

// maxMinor is the minor version of version 4 whose types this package has.
const maxMinor = 2

// versionLifetime is how long a negotiated version is used before it is read again, and unnamedLifetime how long the oldest is
// used where none is named: that may be the answer of a proxy.
const (
	versionLifetime = time.Hour
	unnamedLifetime = time.Minute
)

// callTimeout bounds one call. An answer that takes longer counts as lost.
const callTimeout = 30 * time.Second

// Login is how to reach a Prism Central and who calls it: a user with a password, or an API key.
type Login struct {
	// Endpoint is the URL of Prism Central, https and without a path.
	Endpoint *url.URL
	User     string
	Password string
	APIKey   string
}

// Client calls one Prism Central. Each call is made once. It is safe for concurrent use.
type Client struct {
	login    Login
	http     http.Client
	pageSize int
	// versions are the negotiated ones, by namespace, and unnamed the namespaces whose version was not named a moment ago.
	versions expiring.Map[string, int]
	unnamed  expiring.Map[string, struct{}]
}

// New returns a client that sends its requests with a transport, and makes no call.
func New(login Login, transport http.RoundTripper, pageSize int, clock clock.PassiveClock) *Client {
	c := &Client{login: login, http: http.Client{Transport: transport, Timeout: callTimeout, CheckRedirect: egress.NoRedirects}, pageSize: pageSize}
	c.versions.Clock, c.versions.TTL = clock, versionLifetime
	c.unnamed.Clock, c.unnamed.TTL = clock, unnamedLifetime
	return c
}

// call is one request.
type call struct {
	method    string
	namespace string
	path      string
	query     url.Values
	// body is nil, or what is sent as JSON.
	body any
	// requestID is the idempotency token, a UUID; empty for a request that changes nothing.
	requestID string
	// etag is the entity tag that what is changed must have.
	etag string
}

// Answer is what the API answers with.
type Answer struct {
	Data     json.RawMessage `json:"data"`
	Metadata struct {
		TotalAvailableResults *int `json:"totalAvailableResults"`
	} `json:"metadata"`
	etag string
	// at is the time of the answer by the clock of Prism Central; zero where it does not name it.
	at time.Time
}

// Begun is a task that a request has begun, or had begun when it was sent before.
type Begun struct {
	TaskID string
	// At is the time of the answer by the clock of Prism Central; zero where that does not name it.
	At time.Time
}

// send makes a call at the version of its namespace.
func (c *Client) send(ctx context.Context, of call) (Answer, error) {
	minor, err := c.minor(ctx, of.namespace)
	if err != nil {
		return Answer{}, err
	}
	return c.do(ctx, of, fmt.Sprintf("/api/%s/v4.%d/%s", of.namespace, minor, of.path))
}

// do makes a call. What is no success fails with an AnswerError.
func (c *Client) do(ctx context.Context, of call, path string) (Answer, error) {
	var body io.Reader
	if of.body != nil {
		content, err := json.Marshal(of.body)
		if err != nil {
			return Answer{}, fmt.Errorf("writing the request: %w", err)
		}
		body = bytes.NewReader(content)
	}
	target := c.login.Endpoint.String() + path
	if len(of.query) > 0 {
		target += "?" + of.query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, of.method, target, body)
	if err != nil {
		return Answer{}, err
	}
	c.setHeader(request, of)
	response, err := c.http.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close() //nolint:errcheck // it is read to its end
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return Answer{}, err
	}
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
		return Answer{}, newAnswerError(response, content)
	}
	answer := Answer{etag: response.Header.Get("ETag")}
	answer.at, _ = http.ParseTime(response.Header.Get("Date"))
	if err := json.Unmarshal(content, &answer); err != nil {
		return Answer{}, errNoAnswer
	}
	return answer, nil
}

func (c *Client) setHeader(request *http.Request, of call) {
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "drover-infra-nutanix")
	if of.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	for name, value := range map[string]string{"If-Match": of.etag, "NTNX-Request-Id": of.requestID, "X-ntnx-api-key": c.login.APIKey} {
		if value != "" {
			request.Header.Set(name, value)
		}
	}
	if c.login.APIKey == "" {
		request.SetBasicAuth(c.login.User, c.login.Password)
	}
}

// errNoAnswer means that something else than Prism Central answered, or that an answer is incomplete. It is never taken for an
// empty list.
var errNoAnswer = errors.New("the answer is not one of Prism Central")

var versionPattern = regexp.MustCompile(`^v4\.(\d{1,3})$`)

// minor returns the minor version of version 4 that is called: the newest that both sides have. A Prism Central that does not
// name its version is called with the oldest.
func (c *Client) minor(ctx context.Context, namespace string) (int, error) {
	if known, ok := c.versions.Get(namespace); ok {
		return known, nil
	}
	if c.unnamed.Has(namespace) {
		return 0, nil
	}
	answer, err := c.do(ctx, call{method: http.MethodOptions, namespace: namespace}, "/api/"+namespace+"/unversioned/info")
	if refused := (*AnswerError)(nil); errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		c.unnamed.Set(namespace, struct{}{})
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var version string
	if err := json.Unmarshal(answer.Data, &version); err != nil {
		return 0, errNoAnswer
	}
	parts := versionPattern.FindStringSubmatch(version)
	if parts == nil {
		return 0, fmt.Errorf("Prism Central has version %.20q of the API %s, and version 4 is needed", version, namespace) //nolint:staticcheck // it is a name
	}
	found, err := strconv.Atoi(parts[1])
	if err != nil {
		return 0, errNoAnswer
	}
	found = min(found, maxMinor)
	c.versions.Set(namespace, found)
	return found, nil
}

// decode reads data into a type that Nutanix generates. Their decoders dereference what an answer may lack.
func decode(data json.RawMessage, into any) (err error) {
	defer func() {
		if recover() != nil {
			err = errNoAnswer
		}
	}()
	if json.Unmarshal(data, into) != nil {
		return errNoAnswer
	}
	return nil
}

// get reads one entity and its entity tag.
func get[T any](ctx context.Context, c *Client, namespace, path string) (*T, string, error) {
	answer, err := c.send(ctx, call{method: http.MethodGet, namespace: namespace, path: path})
	if err != nil {
		return nil, "", err
	}
	if len(answer.Data) == 0 {
		return nil, "", errNoAnswer
	}
	found := new(T)
	return found, answer.etag, decode(answer.Data, found)
}

// maxEntities and maxList are how many entities and bytes a list has at most, unless it is unbounded: tenants name the servers.
const maxEntities, maxList = 20_000, 32 << 20

var errTooMany = fmt.Errorf("the list has more than %d entities, or more than %d MiB", maxEntities, maxList>>20)

// errChanged means that entities were created or deleted between two pages.
var errChanged = errors.New("the list changed while it was read")

// listing is a list that is read.
type listing struct {
	namespace, path, filter string
	// unbounded is true for one that may have any length.
	unbounded bool
}

// list yields the entities of a list, page by page, and a failure last. A list that changed while it was read, so that it may
// lack an entity, fails. Each entity is decoded when it is yielded, because a few bytes may become a KiB: who keeps them has to
// bound what is kept.
func list[T any](ctx context.Context, c *Client, of listing) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for text, err := range c.texts(ctx, of) {
			entity := new(T)
			if err == nil {
				err = decode(text, entity)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(entity, nil) {
				return
			}
		}
	}
}

// texts yields the entities of a list as they were sent, and a failure last.
func (c *Client) texts(ctx context.Context, of listing) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		for read, size, page := 0, 0, 0; ; page++ {
			found, total, err := c.page(ctx, of, page)
			read += len(found)
			for _, text := range found {
				size += len(text)
			}
			if err == nil {
				err = of.check(total, size)
			}
			for n := 0; err == nil && n < len(found); n++ {
				if !yield(found[n], nil) {
					return
				}
			}
			switch {
			case err != nil:
				yield(nil, err)
				return
			case read == total:
				return
			case read > total || len(found) == 0:
				yield(nil, errChanged)
				return
			}
		}
	}
}

// check fails for a list that is too long.
func (l listing) check(total, size int) error {
	if !l.unbounded && (total > maxEntities || size > maxList) {
		return errTooMany
	}
	return nil
}

// page reads a page: the text of each entity, and how many entities the list has. An answer without entities has no data.
func (c *Client) page(ctx context.Context, of listing, number int) (found []json.RawMessage, total int, err error) {
	query := url.Values{"$page": {strconv.Itoa(number)}, "$limit": {strconv.Itoa(c.pageSize)}}
	if of.filter != "" {
		query.Set("$filter", of.filter)
	}
	answer, err := c.send(ctx, call{method: http.MethodGet, namespace: of.namespace, path: of.path, query: query})
	if err != nil {
		return nil, 0, err
	}
	available := answer.Metadata.TotalAvailableResults
	if available == nil || *available < 0 {
		return nil, 0, errNoAnswer
	}
	if len(answer.Data) > 0 && json.Unmarshal(answer.Data, &found) != nil || len(found) > c.pageSize {
		return nil, 0, errNoAnswer
	}
	return found, *available, nil
}

// Equal returns the filter of lists for the equality of a property, and of further pairs of a property and a value.
func Equal(property, value string, more ...string) string {
	filter := fmt.Sprintf("%s eq '%s'", property, strings.ReplaceAll(value, "'", "''"))
	if len(more) > 1 {
		return filter + " and " + Equal(more[0], more[1], more[2:]...)
	}
	return filter
}

// AnswerError is an answer that refuses a request.
type AnswerError struct {
	Status int
	// Code and Group identify the error, as VMM-30100 and VM_NOT_FOUND; empty where the answer is not one of Prism Central.
	Code  string
	Group string
	// Attribute is the path of an attribute of the request that is not valid.
	Attribute string
	Message   string
	Header    http.Header
}

func (e *AnswerError) Error() string {
	return fmt.Sprintf("%s: %s", cmp.Or(e.Code, e.Group, fmt.Sprintf("status %d", e.Status)), cmp.Or(e.Message, "Prism Central gave no reason"))
}

// refusal is the part of an answer that refuses a request: an error response, whose list has one message usually, or the errors
// of the schema.
type refusal struct {
	Data struct {
		Error json.RawMessage `json:"error"`
	} `json:"data"`
}

type message struct {
	Code    string `json:"code"`
	Group   string `json:"errorGroup"`
	Message string `json:"message"`
}

type schemaError struct {
	Messages []struct {
		Message       string `json:"message"`
		AttributePath string `json:"attributePath"`
	} `json:"validationErrorMessages"`
}

func newAnswerError(response *http.Response, content []byte) *AnswerError {
	failed := &AnswerError{Status: response.StatusCode, Header: response.Header}
	var (
		answer   refusal
		messages []message
		schema   schemaError
	)
	if json.Unmarshal(content, &answer) != nil {
		return failed
	}
	if json.Unmarshal(answer.Data.Error, &messages) == nil && len(messages) > 0 {
		failed.Code, failed.Group, failed.Message = messages[0].Code, messages[0].Group, messages[0].Message
	} else if json.Unmarshal(answer.Data.Error, &schema) == nil && len(schema.Messages) > 0 {
		failed.Attribute, failed.Message = schema.Messages[0].AttributePath, schema.Messages[0].Message
	}
	return failed
}

// IsNotFound reports whether Prism Central answered that what was named does not exist. What a proxy answers is not that.
func IsNotFound(err error) bool {
	answer, ok := errors.AsType[*AnswerError](err)
	return ok && answer.Status == http.StatusNotFound && (answer.Code != "" || answer.Group != "")
}
