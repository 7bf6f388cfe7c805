// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package prism_test

import (
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"weak"

	"github.com/nutanix/ntnx-api-golang-clients/vmm-go-client/v4/models/vmm/v4/ahv/config"
	"k8s.io/utils/clock"

	"drover.io/infra-providers/nutanix/prism"
)

// newClient returns a client of a server that answers every request but the negotiation with texts, in order.
func newClient(t *testing.T, answers ...string) *prism.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodOptions {
			_, _ = fmt.Fprint(w, `{"data": "v4.1"}`)
			return
		}
		status, body := http.StatusOK, answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		if _, err := fmt.Sscanf(body, "%d ", &status); err == nil {
			body = body[strings.Index(body, " ")+1:]
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)
	endpoint, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return prism.New(prism.Login{Endpoint: endpoint}, http.DefaultTransport, 2, clock.RealClock{})
}

const vm = `{"$objectType": "vmm.v4.ahv.config.Vm", "name": "worker"}`

// TestCategoryOfOtherLetters is none: it would be another Cluster's.
func TestCategoryOfOtherLetters(t *testing.T) {
	t.Parallel()
	const list = `{"data": [{"$objectType": "prism.v4.config.Category", "key": "drover-cluster", "value": %q, "extId": "x"}], "metadata": {"totalAvailableResults": 1}}`
	for value, want := range map[string]bool{"team.Home": false, "team.home": true} {
		found, err := newClient(t, fmt.Sprintf(list, value)).Category(t.Context(), "drover-cluster", "team.home")
		if err != nil || (found != nil) != want {
			t.Errorf("%s: got %v and %v", value, found, err)
		}
	}
}

// TestListsAreComplete: an answer that lacks something is never taken for an empty list.
func TestListsAreComplete(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answers []string
		want    int
		fails   bool
	}{
		"two pages": {[]string{
			`{"data": [` + vm + `,` + vm + `], "metadata": {"totalAvailableResults": 3}}`, `{"data": [` + vm + `], "metadata": {"totalAvailableResults": 3}}`,
		}, 3, false},
		"nothing":                       {[]string{`{"metadata": {"totalAvailableResults": 0}}`}, 0, false},
		"nothing, written":              {[]string{`{"data": [], "metadata": {"totalAvailableResults": 0}}`}, 0, false},
		"nothing and no number":         {[]string{`{"data": []}`}, 0, true},
		"an empty object":               {[]string{`{}`}, 0, true},
		"fewer than their number":       {[]string{`{"data": [` + vm + `], "metadata": {"totalAvailableResults": 2}}`, `{"metadata": {"totalAvailableResults": 2}}`}, 0, true},
		"more than their number":        {[]string{`{"data": [` + vm + `,` + vm + `], "metadata": {"totalAvailableResults": 1}}`}, 0, true},
		"a page of a proxy":             {[]string{`<html></html>`}, 0, true},
		"no object where one is needed": {[]string{`{"data": [{"disks": [{"backingInfo": [null]}]}], "metadata": {"totalAvailableResults": 1}}`}, 0, true},
		"more than a page":              {[]string{`{"data": [{}, {}, {}], "metadata": {"totalAvailableResults": 3}}`}, 0, true},
		"a list without end":            {[]string{`{"data": [` + vm + `,` + vm + `], "metadata": {"totalAvailableResults": 1000000000}}`}, 0, true},
		"a failure":                     {[]string{`503 {}`}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := 0, error(nil)
			for _, err = range newClient(t, test.answers...).VMsByName(t.Context(), "worker") {
				if err == nil {
					found++
				}
			}
			if !test.fails && found != test.want || (err != nil) != test.fails {
				t.Errorf("got %d and %v", found, err)
			}
		})
	}
}

// TestListsHoldOneEntity at a time: what is decoded may be many times as large as its text.
func TestListsHoldOneEntity(t *testing.T) {
	t.Parallel()
	page := `{"data": [` + vm + `,` + vm + `], "metadata": {"totalAvailableResults": 8}}`
	client := newClient(t, page)
	for name, list := range map[string]iter.Seq2[*config.Vm, error]{"all": client.VMs(t.Context()), "by name": client.VMsByName(t.Context(), "worker")} {
		var all []weak.Pointer[config.Vm]
		for found, err := range list {
			if err != nil {
				t.Fatal(err)
			}
			if all = append(all, weak.Make(found)); len(all) < 8 {
				continue
			}
			runtime.GC()
			if held := slices.DeleteFunc(all[:7], func(p weak.Pointer[config.Vm]) bool { return p.Value() == nil }); len(held) > 0 {
				t.Errorf("%s: %d entities before the last are held", name, len(held))
			}
		}
	}
}

// TestAbsenceIsAnAnswerOfPrismCentral, and not of a proxy in front of it.
func TestAbsenceIsAnAnswerOfPrismCentral(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]bool{
		`404 {"data": {"error": [{"code": "VMM-30100", "errorGroup": "VM_NOT_FOUND", "message": "gone"}]}}`: true,
		`404 <html>no such page</html>`: false, `404 {}`: false, `404 {"data": {"error": []}}`: false,
		`503 {"data": {"error": [{"code": "VMM-30100", "errorGroup": "VM_NOT_FOUND"}]}}`: false,
	} {
		if _, _, err := newClient(t, answer).VM(t.Context(), "x"); prism.IsNotFound(err) != want || err == nil {
			t.Errorf("%s: got %v", answer, err)
		}
	}
}

func TestSchemaErrorsNameTheAttribute(t *testing.T) {
	t.Parallel()
	_, _, err := newClient(t, `400 {"data": {"error": {"validationErrorMessages": [{"message": "too small", "attributePath": "numSockets"}]}}}`).VM(t.Context(), "x")
	refused, ok := errors.AsType[*prism.AnswerError](err)
	if !ok || refused.Attribute != "numSockets" || refused.Message != "too small" {
		t.Errorf("got %#v", err)
	}
}

func TestTasksHaveIDs(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{`{}`, `{"data": {}}`, `{"data": []}`, `{"data": {"extId": ""}}`} {
		if begun, err := newClient(t, answer).DeleteVM(t.Context(), "x", "e", "r"); err == nil {
			t.Errorf("%s: got %+v", answer, begun)
		}
	}
}

func TestEqualQuotes(t *testing.T) {
	t.Parallel()
	if got, want := prism.Equal("name", "it's' or 1 eq 1", "key", "b"), "name eq 'it''s'' or 1 eq 1' and key eq 'b'"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
