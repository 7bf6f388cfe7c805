// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcenter

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"

	"drover.io/infra-providers/internal/panicerror"
)

// TestAnswerOfTheWrongTypeDoesNotEndTheProcess: the call that keeps a session is made in a goroutine of the SDK, where a
// panic would end the provider, and in vCenter's place a server answers that a tenant's Secret names.
func TestAnswerOfTheWrongTypeDoesNotEndTheProcess(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/xml")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body>`+
			`<soapenv:Fault><faultcode>x</faultcode><faultstring>x</faultstring><detail><x xsi:type="LocalizedMethodFault"><fault xsi:type="AboutInfo"/></x></detail></soapenv:Fault></soapenv:Body></soapenv:Envelope>`)
	}))
	t.Cleanup(server.Close)
	at, err := soap.ParseURL(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	transport := soap.NewClient(at, true)
	err = (&Session{used: time.Now()}).touch(&vim25.Client{Client: transport, RoundTripper: transport})
	if _, ok := errors.AsType[*panicerror.Error](err); !ok {
		t.Errorf("got %v, so this proves nothing", err)
	}
}
