// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vsphere_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

var (
	errLost = errors.New("connection reset by peer")

	method   = regexp.MustCompile(`<(?:\w+:)?Body[^>]*><(?:\w+:)?(\w+)`)
	started  = regexp.MustCompile(`type="Task"[^>]*>([^<]+)<`)
	changing = []string{"CloneVM_Task", "ReconfigVM_Task", "PowerOnVM_Task", "PowerOffVM_Task", "Destroy_Task", "ReconfigureComputeResource_Task", "UpgradeVM_Task"}
)

// wire is the HTTP between the SDK and vcsim. It can lose the answer to a call that took effect, answer in
// vCenter's place, and waits for the end of each task before it forwards the answer, as from a fast vCenter; or, as
// with a slow one, delays clones.
type wire struct {
	model *simulator.Model

	// inject returns the rule of a call that no other rule matches; nil forwards it.
	inject func(method string) *rule

	mu    sync.Mutex
	rules []*rule
	calls map[string]int
	// endless are the calls that a vCenter which never answers would hold up for ever.
	endless []string
}

// rule is what happens to the next call of some methods.
type rule struct {
	// methods are those it is about; empty means any.
	methods []string
	// answer is sent in vCenter's place; nil forwards the call.
	answer *answer
	// before is called before the call is forwarded.
	before func()
	// lost drops the answer after the call took effect.
	lost bool
	// forever keeps the rule.
	forever bool
	// slow returns before the task ended.
	slow bool
}

type answer struct {
	status int
	header http.Header
	body   string
}

// fault is a SOAP fault of a type.
func fault(kind string) *answer {
	const envelope = `<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body><soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring>%[1]s</faultstring><detail><%[1]sFault xmlns="urn:vim25" xsi:type="%[1]s"></%[1]sFault></detail></soapenv:Fault></soapenv:Body></soapenv:Envelope>`
	return &answer{status: http.StatusInternalServerError, body: fmt.Sprintf(envelope, kind)}
}

func (w *wire) add(r *rule) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules = append(w.rules, r)
}

func (w *wire) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules, w.inject = nil, nil
}

// count returns how often a method was called.
func (w *wire) count(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[name]
}

// changes returns how many calls there were that change something.
func (w *wire) changes() (sum int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, n := range w.calls {
		if strings.HasSuffix(name, "_Task") || name == "SetField" || name == "CancelTask" || name == attachTag {
			sum += n
		}
	}
	return sum
}

// reset sets all counts to zero.
func (w *wire) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = nil
}

// total returns how many calls there were.
func (w *wire) total() (sum int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.calls {
		sum += n
	}
	return sum
}

func (w *wire) match(name string) *rule {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls == nil {
		w.calls = map[string]int{}
	}
	w.calls[name]++
	for i, known := range w.rules {
		if len(known.methods) > 0 && !slices.Contains(known.methods, name) {
			continue
		}
		if !known.forever {
			w.rules = slices.Delete(w.rules, i, i+1)
		}
		return known
	}
	if w.inject != nil {
		return w.inject(name)
	}
	return &rule{}
}

func isChange(method string) bool { return slices.Contains(changing, method) }

func (w *wire) wrap(next http.RoundTripper) http.RoundTripper {
	return transport(func(req *http.Request) (*http.Response, error) {
		body := []byte{}
		if req.Body != nil {
			var err error
			if body, err = io.ReadAll(req.Body); err != nil {
				return nil, err
			}
			req.Body = io.NopCloser(bytes.NewReader(body))
		}
		name, _, _ := strings.Cut(req.Method+" "+req.URL.Path, "/id:")
		if found := method.FindSubmatch(body); found != nil {
			name = string(found[1])
		}
		if _, bounded := req.Context().Deadline(); !bounded {
			w.mu.Lock()
			w.endless = append(w.endless, name)
			w.mu.Unlock()
		}
		applied := w.match(name)
		if applied.before != nil {
			applied.before()
		}
		switch {
		case applied.answer != nil && applied.lost:
			return nil, errLost
		case applied.answer != nil:
			return respond(req, applied.answer), nil
		}
		res, err := next.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		if err := w.finish(name, res, applied.slow); err != nil {
			return nil, err
		}
		if applied.lost {
			return nil, errors.Join(errLost, res.Body.Close())
		}
		return res, nil
	})
}

// finish waits for the task that a call started.
func (w *wire) finish(name string, res *http.Response, slow bool) error {
	if slow || !strings.HasSuffix(name, "_Task") {
		return nil
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	if found := started.FindSubmatch(body); found != nil {
		task, ok := w.model.Map().Get(types.ManagedObjectReference{Type: "Task", Value: string(found[1])}).(*simulator.Task)
		if ok {
			task.Wait()
		}
	}
	return nil
}

func respond(req *http.Request, sent *answer) *http.Response {
	header := sent.header
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{
		StatusCode: sent.status, Status: fmt.Sprintf("%d %s", sent.status, http.StatusText(sent.status)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(strings.NewReader(sent.body)), ContentLength: int64(len(sent.body)), Request: req,
	}
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) { return t(req) }
