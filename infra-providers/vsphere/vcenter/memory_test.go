// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcenter

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// heap is how many bytes are in use.
func heap() int64 {
	var now runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools hold is freed by the second one
	runtime.ReadMemStats(&now)
	return int64(now.HeapAlloc)
}

const (
	before = `<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body>`
	after  = `</soapenv:Body></soapenv:Envelope>`
)

// hostile is a server that somebody's Secret names. Its answer to each call has a cookie of its own.
func hostile(t *testing.T, about string) Account {
	t.Helper()
	number := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call, _ := io.ReadAll(r.Body)
		number++
		w.Header().Add("Set-Cookie", fmt.Sprintf("c%d=%s; Path=/never", number, strings.Repeat("x", 32<<10)))
		w.Header().Set("Content-Type", "text/xml")
		answer := `<LoginResponse xmlns="urn:vim25"><returnval><key>k</key></returnval></LoginResponse>`
		switch {
		case strings.Contains(string(call), "RetrieveServiceContent"):
			answer = `<RetrieveServiceContentResponse xmlns="urn:vim25"><returnval><propertyCollector type="PropertyCollector">p</propertyCollector>` +
				`<sessionManager type="SessionManager">s</sessionManager><about>` + about + `</about></returnval></RetrieveServiceContentResponse>`
		case strings.Contains(string(call), "CurrentTime"):
			answer = `<CurrentTimeResponse xmlns="urn:vim25"><returnval>2026-01-01T00:00:00Z</returnval></CurrentTimeResponse>`
		}
		_, _ = io.WriteString(w, before+answer+after)
	}))
	t.Cleanup(server.Close)
	return Account{Server: server.URL, Username: "u", Password: "p", OfSecret: true}
}

// TestFoldersTakeLittleMemory: a server that a Secret names chooses the UUIDs and the folders of its virtual machines.
func TestFoldersTakeLittleMemory(t *testing.T) {
	session := (&Pool{}).Open(Account{Server: "vcenter.example", OfSecret: true})
	was := heap()
	for n := range 64 {
		for _, long := range [][2]string{{fmt.Sprint(n, strings.Repeat("x", 1<<20)), "group-v1"}, {fmt.Sprint(n), strings.Repeat("x", 1<<20)}} {
			session.recordFolder(VM{VirtualMachine: mo.VirtualMachine{ManagedEntity: mo.ManagedEntity{Parent: &types.ManagedObjectReference{Type: "Folder", Value: strings.Clone(long[1])}},
				Config: &types.VirtualMachineConfigInfo{InstanceUuid: long[0]}}})
		}
	}
	if took := heap() - was; took > 8<<20 {
		t.Errorf("%d KiB are kept", took>>10)
	}
	runtime.KeepAlive(session)
}

// TestPrivilegesTakeLittleMemory: the server chooses the objects.
func TestPrivilegesTakeLittleMemory(t *testing.T) {
	session := (&Pool{}).Open(Account{Server: "vcenter.example", OfSecret: true})
	was := heap()
	for n := range 64 {
		session.keepReadable(types.ManagedObjectReference{Type: "Folder", Value: fmt.Sprint(n, strings.Repeat("x", 1<<20))})
	}
	for n := range 20_000 {
		session.keepReadable(types.ManagedObjectReference{Type: "Folder", Value: fmt.Sprint(n, strings.Repeat("x", 900))})
	}
	if took := heap() - was; took > 4<<20 {
		t.Errorf("%d KiB are kept", took>>10)
	}
	runtime.KeepAlive(session)
}

// TestPlacesTakeLittleMemory: what names stand for is kept for some seconds, and the server chooses how much that is.
func TestPlacesTakeLittleMemory(t *testing.T) {
	session := (&Pool{}).Open(Account{Server: "vcenter.example", OfSecret: true})
	was := heap()
	for n := range 50 {
		var devices object.VirtualDeviceList
		for range 20_000 {
			devices = append(devices, &types.VirtualDisk{})
		}
		session.keepPlace(fmt.Sprint(n), Placement{Devices: devices})
		session.keepPlace(fmt.Sprint("text", n), Placement{Source: VM{Record: strings.Repeat("x", 1<<20)}})
	}
	if took := heap() - was; took > 8<<20 {
		t.Errorf("%d KiB are kept", took>>10)
	}
	runtime.KeepAlive(session)
}

// TestSessionsOfAServerTakeLittleMemory: a namespace may have many sessions, and each answer may have a cookie.
func TestSessionsOfAServerTakeLittleMemory(t *testing.T) {
	was := heap()
	account := hostile(t, `<name>x</name><instanceUuid>u</instanceUuid>`)
	session := (&Pool{}).Open(account)
	client, err := session.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 500 {
		if err := session.touch(client); err != nil {
			t.Fatal(err)
		}
	}
	if took := heap() - was; took > 4<<20 {
		t.Errorf("%d KiB are kept for a session", took>>10)
	}
	runtime.KeepAlive(session)
	long := hostile(t, `<name>`+strings.Repeat("x", 1<<20)+`</name><instanceUuid>u</instanceUuid>`)
	if _, err := (&Pool{Now: time.Now}).Open(long).Client(t.Context()); err == nil {
		t.Error("a server whose description has a MiB is accepted")
	}
}
