// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/testenv"
	"drover.io/infra-providers/kubevirt"
	"drover.io/infra-providers/kubevirt/kubevirtfake"
	"drover.io/runtime/envtest"
)

// programs is the folder with KubeVirt's own virt-controller, virt-api and kinds, which `make e2e-kubevirt` builds; empty without.
var programs = os.Getenv("DROVER_KUBEVIRT")

// kubeVirt runs KubeVirt's own programs until the tests end. Its namespace is kubevirt.
type kubeVirt struct {
	once    sync.Once
	err     error
	dir     string
	running []*exec.Cmd
}

var real kubeVirt

// start starts them once, after what they need.
func (k *kubeVirt) start(config *rest.Config) error {
	k.once.Do(func() { k.err = k.run(config) })
	return k.err
}

func (k *kubeVirt) run(config *rest.Config) (err error) {
	if k.dir, err = os.MkdirTemp("", "drover-kubevirt-"); err != nil {
		return err
	}
	api, err := client.New(config, client.Options{Scheme: kubevirt.Scheme()})
	if err != nil {
		return err
	}
	certificate, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return err
	}
	// The programs read their certificates again with each change in this folder, so nothing else is in it.
	certificates := filepath.Join(k.dir, "certificates")
	crt, keyFile := filepath.Join(certificates, "tls.crt"), filepath.Join(certificates, "tls.key")
	if err := errors.Join(os.Mkdir(certificates, 0o700), os.WriteFile(crt, certificate, 0o600), os.WriteFile(keyFile, key, 0o600)); err != nil {
		return err
	}
	if err := install(api, certificate); err != nil {
		return err
	}
	webhooks, err := freePort()
	if err != nil {
		return err
	}
	health, err := freePort()
	if err != nil {
		return err
	}
	if err := errors.Join(
		k.launch("virt-controller", "kubevirt-controller", health, "--prom-cert-file="+crt, "--prom-key-file="+keyFile),
		k.launch("virt-api", "kubevirt-apiserver", webhooks, "--tls-cert-file="+crt, "--tls-key-file="+keyFile, "--handler-cert-file="+crt, "--handler-key-file="+keyFile),
	); err != nil {
		return err
	}
	return admit(api, fmt.Sprintf("https://127.0.0.1:%d", webhooks), certificate)
}

// install creates what KubeVirt's operator does, and what the full spec names.
func install(api client.Client, certificate []byte) error {
	kv := &virtv1.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: "kubevirt", Name: "kubevirt"}}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kubevirt"}}, kv,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kubevirt", Name: "kubevirt-ca"}, Data: map[string]string{"ca-bundle": string(certificate)}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: kubevirtfake.NodeName, Labels: map[string]string{virtv1.NodeSchedulable: "true"}}},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "workers"}, Value: 1},
	} {
		if err := api.Create(context.Background(), object); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	kv.Status.Phase = virtv1.KubeVirtPhaseDeployed
	if err := api.Status().Update(context.Background(), kv); err != nil {
		return err
	}
	// The API server has no aggregation here, which would write this.
	aggregation := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "extension-apiserver-authentication"}
	err := api.Get(context.Background(), key, aggregation)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	missing := apierrors.IsNotFound(err)
	aggregation.Namespace, aggregation.Name = key.Namespace, key.Name
	if aggregation.Data == nil {
		aggregation.Data = map[string]string{}
	}
	aggregation.Data["requestheader-client-ca-file"] = string(certificate)
	aggregation.Data["client-ca-file"] = string(certificate)
	if missing {
		return api.Create(context.Background(), aggregation)
	}
	return api.Update(context.Background(), aggregation)
}

// launch starts a program as its ServiceAccount.
func (k *kubeVirt) launch(program, account string, port int, args ...string) error {
	config, err := infra.AddUser("system:serviceaccount:kubevirt:"+account, "system:masters")
	if err != nil {
		return err
	}
	content, err := envtest.Kubeconfig(config)
	if err != nil {
		return err
	}
	file := filepath.Join(k.dir, program+".kubeconfig")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(k.dir, program+".log"))
	if err != nil {
		return err
	}
	command := exec.Command(filepath.Join(programs, program), append(args, "--kubeconfig="+file, "--listen=127.0.0.1", fmt.Sprintf("--port=%d", port))...)
	command.Env = append(os.Environ(), "POD_NAMESPACE=kubevirt", "KUBEVIRT_NAMESPACE=kubevirt")
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	k.running = append(k.running, command)
	return command.Start()
}

// admit registers the webhooks of KubeVirt, as its operator does, at the address of virt-api.
func admit(api client.Client, address string, certificate []byte) error {
	content, err := os.ReadFile(filepath.Join(programs, "webhooks.yaml"))
	if err != nil {
		return err
	}
	mutating, validating, _ := bytes.Cut(content, []byte("---\n"))
	mutators, validators := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := errors.Join(yaml.Unmarshal(mutating, mutators), yaml.Unmarshal(validating, validators)); err != nil {
		return err
	}
	redirect := func(config *admissionregistrationv1.WebhookClientConfig) {
		url := address + *config.Service.Path
		*config = admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: certificate}
	}
	for i := range mutators.Webhooks {
		redirect(&mutators.Webhooks[i].ClientConfig)
	}
	for i := range validators.Webhooks {
		redirect(&validators.Webhooks[i].ClientConfig)
	}
	for deadline := time.Now().Add(testenv.WaitTimeout); ; time.Sleep(50 * time.Millisecond) {
		connection, err := net.Dial("tcp", address[len("https://"):])
		if err == nil {
			_ = connection.Close()
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waiting for virt-api: %w", err)
		}
	}
	return errors.Join(api.Create(context.Background(), mutators), api.Create(context.Background(), validators))
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

// stop ends them.
func (k *kubeVirt) stop() error {
	for _, command := range k.running {
		if command.Process != nil {
			_ = command.Process.Kill()
			_ = command.Wait()
		}
	}
	if k.dir == "" {
		return nil
	}
	return os.RemoveAll(k.dir)
}

// TestAdmission shows to KubeVirt's own admission what only it refuses: it is invalid, and nothing is left of it.
func TestAdmission(t *testing.T) {
	t.Parallel()
	if programs == "" {
		t.Skip("it needs KubeVirt's own virt-api: make e2e-kubevirt")
	}
	e := newEnv(t)
	e.createSources()
	d := e.connect()
	for name, change := range map[string]func(*infrav1.KubeVirtMachineSpec){
		"an instancetype that does not exist": func(s *infrav1.KubeVirtMachineSpec) {
			s.CPU, s.MemoryMiB, s.Instancetype.Name = infrav1.KubeVirtCPU{}, 0, "none"
		},
		"a preference that does not exist":    func(s *infrav1.KubeVirtMachineSpec) { s.Preference.Name = "none" },
		"an architecture that is not enabled": func(s *infrav1.KubeVirtMachineSpec) { s.Architecture = "s390x" },
		"a topology that is spread by no label": func(s *infrav1.KubeVirtMachineSpec) {
			s.TopologySpread = []infrav1.KubeVirtTopologySpread{{TopologyKey: "a b"}}
		},
	} {
		spec, uid := minimalSpec(), types.UID(strings.ReplaceAll(name, " ", "-"))
		change(&spec)
		_, err := d.Create(t.Context(), e.request(uid, newConfig(t, spec, ""), "x"))
		if !driver.IsInvalidConfiguration(err) {
			t.Errorf("%s: got %v, want an InvalidConfigurationError", name, err)
		} else {
			t.Logf("%s: %v", name, err)
		}
		if err := d.Delete(t.Context(), identity(uid)); err != nil {
			t.Fatal(err)
		}
	}
	e.eventually("nothing to be left", func() bool { return len(e.leftovers()) == 0 })
}

// TestDrainOfANode evicts the Pod of a virtual machine, as kubectl drain does: KubeVirt's own admission refuses it, and the
// driver reports that the node waits.
func TestDrainOfANode(t *testing.T) {
	t.Parallel()
	if programs == "" {
		t.Skip("it needs KubeVirt's own virt-api: make e2e-kubevirt")
	}
	e := newEnv(t)
	d := e.connect()
	if _, err := d.Create(t.Context(), e.request("1", newConfig(t, minimalSpec(), ""), "x")); err != nil {
		t.Fatal(err)
	}
	var found driver.Instance
	e.eventually("the virtual machine to run", func() (runs bool) {
		var err error
		found, err = d.Get(t.Context(), identity("1"))
		return err == nil && found.State == driver.Running && len(found.Addresses) == 1
	})
	pods := &corev1.PodList{}
	if err := e.api.List(t.Context(), pods, client.InNamespace(e.namespace)); err != nil || len(pods.Items) != 1 {
		t.Fatalf("got %d Pods, %v", len(pods.Items), err)
	}
	err := e.api.SubResource("eviction").Create(t.Context(), &pods.Items[0], &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: pods.Items[0].Name}})
	if !apierrors.IsTooManyRequests(err) {
		t.Fatalf("the eviction: got %v, want a refusal by KubeVirt", err)
	}
	found, err = d.Get(t.Context(), identity("1"))
	if err != nil || found.State != driver.Running || found.Eviction == "" {
		t.Errorf("got %+v, %v, want a virtual machine that runs and has to leave its node", found, err)
	}
	if err := d.Delete(t.Context(), identity("1")); err != nil {
		t.Fatal(err)
	}
	e.eventually("the Pod to leave the node", func() bool {
		_, err := d.Get(t.Context(), identity("1"))
		return driver.IsNotFound(err)
	})
}
