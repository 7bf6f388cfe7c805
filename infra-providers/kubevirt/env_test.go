// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	virtv1 "kubevirt.io/api/core/v1"
	instancetypev1 "kubevirt.io/api/instancetype/v1beta1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/testenv"
	"drover.io/infra-providers/kubevirt"
	"drover.io/infra-providers/kubevirt/kubevirtfake"
	"drover.io/runtime/envtest"
)

// infra is the API server of the infrastructure cluster, with the kinds of KubeVirt.
var infra envtest.Server

// shared is the management cluster.
var shared = testenv.NewShared("kubevirt", "../config/rbac/kubevirt/role.yaml")

func TestMain(m *testing.M) {
	definitions, err := kubevirtfake.Definitions()
	if err != nil {
		panic(err)
	}
	infra.CRDs = definitions
	if programs != "" {
		infra.CRDs, infra.Folders = nil, []string{filepath.Join(programs, "crds")}
	}
	code := shared.Main(m)
	if err := errors.Join(real.stop(), infra.Stop()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// env is an infrastructure cluster with a namespace of its own, whose KubeVirt takes a step with each request.
type env struct {
	t         *testing.T
	config    *rest.Config
	api       client.Client
	namespace string
	server    *kubevirtfake.Subresources
	wire      *wire
	pokes     int
}

func newEnv(t *testing.T) *env {
	t.Helper()
	config, err := infra.Start()
	if err != nil {
		t.Fatal(err)
	}
	scheme := kubevirt.Scheme()
	if err := kubevirtfake.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := served(api); err != nil {
		t.Fatal(err)
	}
	e := &env{t: t, config: config, api: api, namespace: infra.Namespace(t)}
	player := api
	if programs != "" {
		if err := real.start(config); err != nil {
			t.Fatal(err)
		}
		// KubeVirt's admission lets only its own programs change what runs.
		handler, err := infra.AddUser("system:serviceaccount:kubevirt:kubevirt-handler", "system:masters")
		if err != nil {
			t.Fatal(err)
		}
		if player, err = client.New(handler, client.Options{Scheme: scheme}); err != nil {
			t.Fatal(err)
		}
	}
	e.server = &kubevirtfake.Subresources{Player: &kubevirtfake.Player{Client: player, Namespace: e.namespace, Controlled: programs != ""}}
	e.wire = &wire{}
	return e
}

// served waits until the API server serves all kinds: it refuses requests for a moment after it was started.
func served(api client.Client) (err error) {
	for deadline := time.Now().Add(testenv.WaitTimeout); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		err = nil
		for _, kind := range []client.ObjectList{
			&virtv1.VirtualMachineList{}, &virtv1.VirtualMachineInstanceList{}, &cdiv1.DataVolumeList{}, &cdiv1.DataSourceList{},
			&instancetypev1.VirtualMachineInstancetypeList{}, &instancetypev1.VirtualMachineClusterInstancetypeList{},
			&instancetypev1.VirtualMachinePreferenceList{}, &instancetypev1.VirtualMachineClusterPreferenceList{},
		} {
			err = errors.Join(err, api.List(context.Background(), kind, client.Limit(1)))
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// options are those of a provider whose own cluster is the infrastructure cluster.
func (e *env) options() kubevirt.Options {
	return kubevirt.Options{
		Own:      func() (*rest.Config, error) { return rest.CopyConfig(e.config), nil },
		PageSize: 4,
		Transport: func(next http.RoundTripper) http.RoundTripper {
			e.server.Next = next // all connections lead to the same server
			return &faulty{wire: e.wire, next: e.server}
		},
	}
}

// connect returns the driver of another process.
func (e *env) connect() driver.Driver[kubevirt.InstanceConfig] {
	e.t.Helper()
	connected, err := kubevirt.Cloud(e.options()).Connect(e.t.Context(), driver.Account{Region: e.namespace}, nil)
	if err != nil {
		e.t.Fatal(err)
	}
	return connected
}

// wire is where requests fail.
type wire struct {
	mu    sync.Mutex
	next  func(*http.Request) fault
	hook  func(*http.Request) func()
	count int
}

// fault is what goes wrong with one request.
type fault struct {
	// lost is true when the request takes effect and its answer is lost.
	lost   bool
	status int
	reason metav1.StatusReason
}

// fail makes the next request that fits fail.
func (w *wire) fail(with fault, fits func(*http.Request) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next = func(request *http.Request) fault {
		if !fits(request) {
			return fault{}
		}
		return with
	}
}

// before calls a function before the next request that fits.
func (w *wire) before(fits func(*http.Request) bool, do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hook = func(r *http.Request) func() {
		if !fits(r) {
			return nil
		}
		return do
	}
}

// hooked returns what to do before a request.
func (w *wire) hooked(request *http.Request) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hook == nil {
		return nil
	}
	do := w.hook(request)
	if do != nil {
		w.hook = nil
	}
	return do
}

func (w *wire) of(request *http.Request) fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	if request.Method != http.MethodGet && !strings.HasSuffix(request.URL.Path, "/selfsubjectaccessreviews") {
		w.count++
	}
	if w.next == nil {
		return fault{}
	}
	found := w.next(request)
	if found != (fault{}) {
		w.next = nil
	}
	return found
}

func (w *wire) changes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}

type faulty struct {
	wire *wire
	next http.RoundTripper
}

func (f *faulty) RoundTrip(request *http.Request) (*http.Response, error) {
	if do := f.wire.hooked(request); do != nil {
		do()
	}
	found := f.wire.of(request)
	if found.status != 0 {
		return kubevirtfake.Status(request, found.status, found.reason, "refused"), nil
	}
	response, err := f.next.RoundTrip(request)
	if found.lost && err == nil {
		_ = response.Body.Close()
		return nil, errors.New("the answer was lost")
	}
	return response, err
}

func anyRequest(*http.Request) bool { return true }

// changesVM fits requests that create, change or delete VirtualMachines.
func changesVM(request *http.Request) bool {
	return request.Method != http.MethodGet && strings.Contains(request.URL.Path, "/virtualmachines")
}

func createsVM(request *http.Request) bool {
	return changesVM(request) && request.Method == http.MethodPost
}

// leftovers names everything of ours in the namespace. What Kubernetes' garbage collector deletes, because its owner does not
// exist any more, is left out for DataVolumes.
func (e *env) leftovers() (left []string) {
	e.t.Helper()
	ctx, ours := context.Background(), client.HasLabels{driver.TagMachineUID}
	vms, secrets, volumes := &virtv1.VirtualMachineList{}, &corev1.SecretList{}, &cdiv1.DataVolumeList{}
	for _, all := range []client.ObjectList{vms, secrets, volumes} {
		if err := e.api.List(ctx, all, client.InNamespace(e.namespace), ours); err != nil {
			e.t.Fatal(err)
		}
	}
	exists := map[string]bool{}
	for _, vm := range vms.Items {
		exists[string(vm.UID)] = true
		left = append(left, "VirtualMachine "+vm.Name)
	}
	for _, secret := range secrets.Items {
		left = append(left, "Secret "+secret.Name)
	}
	for _, volume := range volumes.Items {
		if owner := metav1.GetControllerOf(&volume); owner == nil || exists[string(owner.UID)] {
			left = append(left, "DataVolume "+volume.Name)
		}
	}
	return left
}

func (e *env) vm(name string) *virtv1.VirtualMachine {
	e.t.Helper()
	vm := &virtv1.VirtualMachine{}
	if err := e.api.Get(context.Background(), client.ObjectKey{Namespace: e.namespace, Name: name}, vm); err != nil {
		e.t.Fatal(err)
	}
	return vm
}

// update changes an object until there is no conflict.
func update[O client.Object](e *env, object O, change func(O)) {
	e.t.Helper()
	for range 100 {
		if err := e.api.Get(context.Background(), client.ObjectKeyFromObject(object), object); err != nil {
			e.t.Fatal(err)
		}
		change(object)
		if err := e.api.Update(context.Background(), object); err == nil {
			return
		}
	}
	e.t.Fatalf("%s is changed all the time", object.GetName())
}

// step takes steps of the player until nothing changes any more.
func (e *env) step() {
	e.t.Helper()
	for range 3 {
		if err := e.server.Player.Step(context.Background()); err != nil {
			e.t.Fatal(err)
		}
	}
}

func minimalSpec() infrav1.KubeVirtMachineSpec {
	return infrav1.KubeVirtMachineSpec{
		CPU: infrav1.KubeVirtCPU{Cores: 2}, MemoryMiB: 4096,
		RootDisk: infrav1.KubeVirtRootDisk{ContainerDisk: infrav1.KubeVirtContainerDisk{Image: "quay.io/containerdisks/ubuntu:24.04"}},
	}
}

func newConfig(t *testing.T, spec infrav1.KubeVirtMachineSpec, zone string) kubevirt.InstanceConfig {
	t.Helper()
	machine := &infrav1.KubeVirtMachine{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "home"}}, Spec: spec}
	config, err := kubevirt.NewInstanceConfig(machine, zone)
	if err != nil {
		t.Fatal(err)
	}
	return config
}
