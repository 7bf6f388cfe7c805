// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/kubevirt"
	"drover.io/runtime/httplimit"
)

// connectTo returns a function that connects to a server that answers as it likes.
func connectTo(t *testing.T, answer http.HandlerFunc) func(namespace string) driver.Driver[kubevirt.InstanceConfig] {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	cloud := kubevirt.Cloud(kubevirt.Options{Own: func() (*rest.Config, error) {
		return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, nil
	}})
	return func(namespace string) driver.Driver[kubevirt.InstanceConfig] {
		connected, err := cloud.Connect(t.Context(), driver.Account{Region: namespace}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return connected
	}
}

// listAnswer is a list of a kind; next is where it goes on.
func listAnswer(kind, next, items string) string {
	version := "kubevirt.io/v1"
	if kind == "Pod" || kind == "Secret" {
		version = "v1"
	}
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"continue":%q},"items":[%s]}`, version, kind+"List", next, items)
}

// kindOf is the kind of a list that is requested.
func kindOf(r *http.Request) string {
	for path, kind := range map[string]string{"/virtualmachines": "VirtualMachine", "/virtualmachineinstances": "VirtualMachineInstance", "/pods": "Pod", "/datavolumes": "DataVolume", "/secrets": "Secret"} {
		if strings.HasSuffix(r.URL.Path, path) {
			return kind
		}
	}
	return ""
}

const oneVM = `{"metadata":{"name":"drover-1","uid":"u","labels":{"drover.io/machine-uid":"1"}},"spec":{"template":{"metadata":{"labels":{"drover.io/machine-uid":"1"}},"spec":{"domain":{"devices":{}}}}}}`

func listAll(ctx context.Context, d driver.Driver[kubevirt.InstanceConfig]) (last error) {
	for _, last = range d.List(ctx, driver.Owner{}) {
		continue
	}
	return last
}

// TestAnswersOfEmptyObjectsAreNotDecoded: an empty object of three bytes becomes a VirtualMachineInstance of 1.5 KiB.
func TestAnswersOfEmptyObjectsAreNotDecoded(t *testing.T) {
	t.Parallel()
	empty := strings.Repeat("{},", 40_000) + "{}"
	nested := fmt.Sprintf(`{"spec":{"containers":[%s],"domain":{"devices":{"interfaces":[%s]}}}}`, empty, empty)
	for _, kind := range []string{"VirtualMachine", "VirtualMachineInstance", "Pod"} {
		for what, items := range map[string]string{"items": empty, "parts of an item": nested} {
			t.Run(what+" of "+kind, func(t *testing.T) {
				t.Parallel()
				d := connectTo(t, func(w http.ResponseWriter, r *http.Request) {
					switch asked := kindOf(r); asked {
					case kind, "": // the latter asks for one VirtualMachineInstance
						fmt.Fprint(w, listAnswer(kind, "", items))
					case "VirtualMachine":
						fmt.Fprint(w, listAnswer(asked, "", oneVM))
					default:
						fmt.Fprint(w, listAnswer(asked, "", ""))
					}
				})("team")
				err := listAll(t.Context(), d)
				// A VirtualMachineInstance that is too long hides no others.
				if refused := err != nil && strings.Contains(err.Error(), "answer has more"); refused != (kind != "VirtualMachineInstance") {
					t.Errorf("the list ended with %v", err)
				}
			})
		}
	}
}

// TestListsWithoutEndTakeLittleMemory: the server decides where a list ends.
func TestListsWithoutEndTakeLittleMemory(t *testing.T) { //nolint:paralleltest // memory is measured
	long := strings.Repeat("x", 20<<10)
	attached := func(ctx context.Context, d driver.Driver[kubevirt.InstanceConfig]) (last error) {
		for _, last = range d.(driver.AttachedObjectLister).AttachedObjects(ctx, driver.Owner{}) {
			continue
		}
		return last
	}
	tagged := func(ctx context.Context, d driver.Driver[kubevirt.InstanceConfig]) error {
		return d.(driver.Tagger).Tag(ctx, identity("1"))
	}
	vm := map[string]any{}
	if err := json.Unmarshal([]byte(oneVM), &vm); err != nil {
		t.Fatal(err)
	}
	vm["apiVersion"], vm["kind"] = "kubevirt.io/v1", "VirtualMachine"
	vm["metadata"].(map[string]any)["annotations"] = identity("1").Tags()
	for kind, call := range map[string]func(context.Context, driver.Driver[kubevirt.InstanceConfig]) error{
		"VirtualMachineInstance": listAll, "Pod": listAll, "DataVolume": attached, "Secret": tagged,
	} {
		t.Run(kind, func(t *testing.T) { //nolint:paralleltest // memory is measured
			var before, after runtime.MemStats
			pages := 0
			ctx, cancel := context.WithCancel(t.Context())
			d := connectTo(t, func(w http.ResponseWriter, r *http.Request) {
				asked := kindOf(r)
				switch {
				case asked == "":
					_ = json.NewEncoder(w).Encode(vm)
				case asked == "VirtualMachine":
					fmt.Fprint(w, listAnswer(asked, "", oneVM))
				case asked != kind:
					fmt.Fprint(w, listAnswer(asked, "", ""))
				default:
					if pages++; pages == 5 {
						runtime.GC()
						runtime.ReadMemStats(&before)
					}
					if pages == 45 {
						runtime.GC()
						runtime.ReadMemStats(&after)
						cancel()
					}
					var items []string
					for n := range 50 {
						items = append(items, fmt.Sprintf(`{"metadata":{"name":"drover-%d-%d","uid":"%d-%d","annotations":{"a":"%s%d"},"ownerReferences":[{"apiVersion":"v1","kind":"x","name":"x","uid":"u","controller":true}],"labels":{"drover.io/machine-uid":"1","kubevirt.io/created-by":"u"}}}`, pages, n, pages, n, long, n))
					}
					fmt.Fprint(w, listAnswer(kind, fmt.Sprint(pages), strings.Join(items, ",")))
				}
			})("team")
			err := call(ctx, d)
			if pages < 45 {
				t.Fatalf("only %d pages were read: %v", pages, err)
			}
			if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 { //nolint:gosec // the heap is smaller
				t.Errorf("40 pages of 1 MiB take %d MiB", grown>>20)
			}
		})
	}
}

// TestGuestsWithManyAddressesHideNoOthers: the guest agent reports any number of addresses, and etcd accepts 1.5 MiB of them.
func TestGuestsWithManyAddressesHideNoOthers(t *testing.T) {
	t.Parallel()
	const hostile = 5
	var vms, instances []string
	for n := range hostile + 1 {
		tags, err := json.Marshal(identity(types.UID(fmt.Sprint(n))).Tags())
		if err != nil {
			t.Fatal(err)
		}
		addresses := `"10.0.0.1"`
		if n < hostile {
			addresses = strings.Repeat(`"10.0.0.1",`, 120_000) + addresses
		}
		head := fmt.Sprintf(`"apiVersion":"kubevirt.io/v1","metadata":{"name":"drover-%d","uid":"vm-%d","labels":{"drover.io/machine-uid":"%d"},"annotations":%s`, n, n, n, tags)
		vms = append(vms, fmt.Sprintf(`{"kind":"VirtualMachine",%s},"spec":{"runStrategy":"Always","template":{"metadata":{"labels":{"drover.io/machine-uid":"%d"}},"spec":{"domain":{"devices":{}}}}},"status":{"printableStatus":"Running"}}`, head, n))
		instances = append(instances, fmt.Sprintf(`{"kind":"VirtualMachineInstance",%s,"ownerReferences":[{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","name":"drover-%d","uid":"vm-%d","controller":true}]},"status":{"interfaces":[{"ipAddresses":[%s]}]}}`, head, n, n, addresses))
	}
	d := connectTo(t, func(w http.ResponseWriter, r *http.Request) {
		var n int
		switch _, err := fmt.Sscanf(path.Base(r.URL.Path), "drover-%d", &n); {
		case err == nil && strings.Contains(r.URL.Path, "/virtualmachines/"):
			fmt.Fprint(w, vms[n])
		case err == nil:
			fmt.Fprint(w, instances[n])
		default:
			fmt.Fprint(w, listAnswer(kindOf(r), "", map[string]string{"VirtualMachine": strings.Join(vms, ","), "VirtualMachineInstance": strings.Join(instances, ",")}[kindOf(r)]))
		}
	})("team")
	seen := 0
	for found, err := range d.List(t.Context(), driver.Owner{}) {
		if err != nil {
			t.Fatal(err)
		}
		if seen++; found.State != driver.Running {
			t.Errorf("%s is %s", found.ID, found.State)
		}
		if found.ID == fmt.Sprintf("drover-%d", hostile) && len(found.Reported) != 1 {
			t.Errorf("another guest has the addresses %v", found.Reported)
		}
	}
	if seen != hostile+1 {
		t.Errorf("%d virtual machines were listed", seen)
	}
	if found, err := d.Get(t.Context(), identity("0")); err != nil || found.State != driver.Running {
		t.Errorf("the guest itself: got %s, %v", found.State, err)
	}
}

// TestLongUIDsAreRefused: the UID of a namespace is kept with each connection, of which a tenant has any number.
func TestLongUIDsAreRefused(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]bool{36: true, 1 << 20: false} {
		d := connectTo(t, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"team","uid":%q}}`, strings.Repeat("x", size))
		})("team")
		if id, err := d.(driver.AccountIdentifier).AccountID(t.Context()); (err == nil) != want {
			t.Errorf("a UID of %d bytes: got an account of %d bytes, %v", size, len(id), err)
		}
	}
}

// TestServersOfANamespaceLeaveLongAnswersToOthers: a namespace may use any number of namespaces of infrastructure clusters.
func TestServersOfANamespaceLeaveLongAnswersToOthers(t *testing.T) {
	t.Parallel()
	long := `{"metadata":{"name":"x","annotations":{"a":"` + strings.Repeat("x", 400<<10) + `"}}}`
	release := make(chan struct{})
	connect := connectTo(t, func(w http.ResponseWriter, r *http.Request) {
		if kindOf(r) != "VirtualMachine" {
			fmt.Fprint(w, listAnswer(kindOf(r), "", ""))
			return
		}
		answer := listAnswer("VirtualMachine", "", long)
		if strings.Contains(r.URL.Path, "/hangs-") {
			fmt.Fprint(w, answer[:len(answer)-1])
			w.(http.Flusher).Flush()
			<-release
			return
		}
		fmt.Fprint(w, answer)
	})
	t.Cleanup(func() { close(release) })
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	for n := range 10 {
		d := connect(fmt.Sprintf("hangs-%d", n))
		go func() { _ = listAll(httplimit.WithHolder(ctx, "tenant"), d) }()
	}
	time.Sleep(time.Second) // until their answers are being read
	if err := listAll(httplimit.WithHolder(ctx, "other"), connect("team")); err != nil {
		t.Errorf("the list of another namespace: %v", err)
	}
}
