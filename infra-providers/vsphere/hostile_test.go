// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vsphere_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/internal/account"
	"drover.io/infra-providers/internal/panicerror"
	"drover.io/infra-providers/vsphere"
	"drover.io/infra-providers/vsphere/vcenter"
	"drover.io/runtime/httplimit"
)

// accounts is the provider's account cache, whose Secrets all lead to this vCenter.
func (w *env) accounts() *account.Cache[*infrav1.VSphereMachine, vsphere.InstanceConfig] {
	return accountsAt(w.pool, w.account())
}

func accountsAt(pool *vcenter.Pool, at vcenter.Account) *account.Cache[*infrav1.VSphereMachine, vsphere.InstanceConfig] {
	return account.NewCache(vsphere.Cloud(pool), account.Options{
		Secrets: drivertest.Secrets{Data: map[string][]byte{
			"server": []byte(at.Server), "username": []byte(at.Username), "password": []byte(at.Password), "thumbprint": []byte(at.Thumbprint),
		}},
		Now: time.Now, Changed: func(driver.Identity) {}, Interval: 50 * time.Millisecond, Workers: 10,
	})
}

// machineOf is a machine whose Secret is in a namespace.
func machineOf(namespace string) *infrav1.VSphereMachine {
	return &infrav1.VSphereMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x"},
		Spec:       infrav1.VSphereMachineSpec{CredentialsSecretName: "s", Template: template},
	}
}

// result is the answer to a call that returns one value.
func result(method, inner string) *answer {
	const before = `<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body>`
	return &answer{status: http.StatusOK, header: http.Header{"Content-Type": {"text/xml"}}, body: before +
		`<` + method + `Response xmlns="urn:vim25"><returnval>` + inner + `</returnval></` + method + `Response></soapenv:Body></soapenv:Envelope>`}
}

// TestAnswerOfTheWrongTypeIsAnError: the SDK panics at a property whose value has another type than it has in vCenter,
// and in vCenter's place a server answers that a tenant's Secret names.
func TestAnswerOfTheWrongTypeIsAnError(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.wire.add(&rule{methods: []string{"RetrievePropertiesEx"}, forever: true, answer: result("RetrievePropertiesEx",
		`<objects><obj type="VirtualMachine">vm-1</obj><propSet><name>name</name><val xsi:type="ArrayOfString"><string>x</string></val></propSet></objects>`)})
	cache := w.accounts()
	cloud, err := cache.Driver(t.Context(), machineOf("attacker"))
	if err != nil {
		t.Fatal(err)
	}
	err = nil
	for _, err = range cloud.Direct.List(t.Context(), driver.Owner{}) {
		continue
	}
	if _, ok := errors.AsType[*panicerror.Error](err); !ok {
		t.Errorf("the list ended with %v, so this proves nothing", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := cache.Start(ctx); err != nil {
		t.Error(err)
	}
}

// TestAnswersOfEmptyElementsAreNotDecoded: an empty element of eleven bytes becomes about a KiB.
func TestAnswersOfEmptyElementsAreNotDecoded(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.wire.add(&rule{methods: []string{"RetrievePropertiesEx"}, forever: true, answer: result("RetrievePropertiesEx",
		`<objects><obj type="VirtualMachine">vm-1</obj><propSet><name>unknown</name><val xsi:type="ArrayOfTaskInfo">`+
			strings.Repeat("<TaskInfo/>", 200_000)+`</val></propSet></objects>`)})
	var last error
	for _, last = range w.connect().List(t.Context(), driver.Owner{}) {
		continue
	}
	if _, ok := errors.AsType[*httplimit.TooManyElementsError](last); !ok {
		t.Errorf("the list ended with %v", last)
	}
}
