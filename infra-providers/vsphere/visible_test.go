// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vsphere_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"drover.io/infra-providers/driver"
)

// envelope is that of an answer.
const envelope = `<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Body>%s</soapenv:Body></soapenv:Envelope>`

// The Secret is rotated to another user of the same vCenter, whose role is not on the folder of the machines: vCenter
// then answers FindAllByUuid with no virtual machine and no fault, because searches return what the user may see.
func TestMachineThatTheUserCannotSeeIsNotMissing(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	d, id := w.connect(), identity("1")
	made, err := d.Create(t.Context(), req(w, id))
	if err != nil {
		t.Fatal(err)
	}
	id.ProviderID = made.ProviderID
	other := w.restart()
	hidden := &rule{methods: []string{"FindAllByUuid"}, forever: true, answer: &answer{status: http.StatusOK, body: fmt.Sprintf(envelope, `<FindAllByUuidResponse xmlns="urn:vim25"></FindAllByUuidResponse>`)}}
	for name, refusal := range map[string]*answer{
		"not granted": {status: http.StatusOK, body: fmt.Sprintf(envelope, `<HasPrivilegeOnEntitiesResponse xmlns="urn:vim25"></HasPrivilegeOnEntitiesResponse>`)},
		"a fault":     fault("NoPermission"),
	} {
		w.wire.clear()
		w.wire.add(hidden)
		w.wire.add(&rule{methods: []string{"HasPrivilegeOnEntities"}, forever: true, answer: refusal})
		if err := other.Delete(t.Context(), id); !driver.IsUnauthorized(err) {
			t.Errorf("%s: deleting: got %v", name, err)
		}
		if _, err := other.Get(t.Context(), id); !driver.IsUnauthorized(err) {
			t.Errorf("%s: reading: got %v, and vCenter has %q", name, err, w.leftovers())
		}
	}
	w.wire.clear()
	if _, err := other.Get(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	datacenter, err := w.finder.DefaultDatacenter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.wire.add(hidden)
	w.wire.add(&rule{methods: []string{"HasPrivilegeOnEntities"}, forever: true, answer: &answer{status: http.StatusOK, body: fmt.Sprintf(envelope, `<HasPrivilegeOnEntitiesResponse xmlns="urn:vim25"><returnval><entity type="Datacenter">`+
		datacenter.Reference().Value+`</entity><privAvailability><privId>System.Read</privId><isGranted>true</isGranted></privAvailability></returnval></HasPrivilegeOnEntitiesResponse>`)}})
	if _, err := other.Get(t.Context(), id); !driver.IsUnauthorized(err) {
		t.Errorf("without the privilege on the folder: got %v", err)
	}
	w.wire.clear()
	w.wire.add(hidden)
	calls := w.wire.count("HasPrivilegeOnEntities")
	for range 3 {
		if _, err := other.Get(t.Context(), id); !driver.IsNotFound(err) {
			t.Errorf("with the privilege: got %v", err)
		}
	}
	if got := w.wire.count("HasPrivilegeOnEntities") - calls; got > 2 {
		t.Errorf("the privilege was read %d times within a minute", got)
	}
}

// TestLongReferencesOfTasksAreNotKept: the server of a Secret chooses them, and all of them are asked about together.
func TestLongReferencesOfTasksAreNotKept(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.wire.add(&rule{methods: []string{"CloneVM_Task"}, forever: true, answer: &answer{status: http.StatusOK, body: fmt.Sprintf(envelope,
		`<CloneVM_TaskResponse xmlns="urn:vim25"><returnval type="Task">`+strings.Repeat("x", 1<<20)+`</returnval></CloneVM_TaskResponse>`)}})
	if _, err := w.connect().Create(t.Context(), req(w, identity("1"))); err == nil || !strings.Contains(err.Error(), "a reference that is longer") {
		t.Errorf("got %.200v", err)
	}
}
