// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirtfake

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	resetPath = regexp.MustCompile(`^/apis/subresources\.kubevirt\.io/v1/namespaces/([^/]+)/virtualmachineinstances/([^/]+)/reset$`)
	// The Pods of KubeVirt's own controller have a suffix.
	logPath = regexp.MustCompile(`^/api/v1/namespaces/[^/]+/pods/virt-launcher-([^/]+?)(-[a-z0-9]{5})?/log$`)
)

// Subresources answers what an API server forwards, to virt-api or a kubelet: resets and logs. It forwards everything else,
// and takes a step of the player before, if one is due.
type Subresources struct {
	Player *Player
	Next   http.RoundTripper

	mu     sync.Mutex
	resets int
	logs   map[string]string
}

// Resets counts the resets.
func (s *Subresources) Resets() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resets
}

// Write writes to the console of a virtual machine.
func (s *Subresources) Write(name, output string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.logs == nil {
		s.logs = map[string]string{}
	}
	s.logs[name] += output
}

// RoundTrip implements http.RoundTripper.
func (s *Subresources) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := s.Player.stepIfDue(request.Context()); err != nil {
		return nil, err
	}
	if request.Method != http.MethodGet {
		defer s.Player.changes.Add(1)
	}
	if found := resetPath.FindStringSubmatch(request.URL.Path); found != nil && request.Method == http.MethodPut {
		return s.reset(request, client.ObjectKey{Namespace: found[1], Name: found[2]}), nil
	}
	if found := logPath.FindStringSubmatch(request.URL.Path); found != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		lines := strings.SplitAfter(s.logs[found[1]], "\n")
		var tail int
		if _, err := fmt.Sscan(request.URL.Query().Get("tailLines"), &tail); err == nil && len(lines) > tail {
			lines = lines[len(lines)-tail:]
		}
		return Answer(request, http.StatusOK, "text/plain", strings.Join(lines, "")), nil
	}
	return s.Next.RoundTrip(request)
}

// reset resets a virtual machine that runs, as virt-api does.
func (s *Subresources) reset(request *http.Request, key client.ObjectKey) *http.Response {
	running := &virtv1.VirtualMachineInstance{}
	if err := s.Player.Client.Get(request.Context(), key, running); err != nil || running.Status.Phase != virtv1.Running {
		return Status(request, http.StatusConflict, metav1.StatusReasonConflict, "VMI is not running")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resets++
	return Answer(request, http.StatusAccepted, "text/plain", "")
}

// Status is a refusal, as API servers answer.
func Status(request *http.Request, code int, reason metav1.StatusReason, message string) *http.Response {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message, //nolint:gosec // it is a status
	})
	if err != nil {
		panic(err) // a Status can be marshalled
	}
	return Answer(request, code, "application/json", string(body))
}

// Answer is an answer to a request.
func Answer(request *http.Request, code int, kind, body string) *http.Response {
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}
