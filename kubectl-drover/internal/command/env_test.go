// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/runtime/envtest"
)

var update = flag.Bool("update", false, "write golden files")

// management has the kinds of the project, empty has none of them.
var management, empty = &envtest.Server{Project: true, EveryCloud: true}, &envtest.Server{}

func TestMain(m *testing.M) {
	flag.Parse()
	// The discovery of each server is cached below the home folder.
	home, err := os.MkdirTemp("", "kubectl-drover-")
	if err != nil {
		panic(err)
	}
	if err := os.Setenv("HOME", home); err != nil {
		panic(err)
	}
	// As in main: the commands report failures themselves.
	klog.SetLogger(logr.Discard())
	envtest.Main(m, management.Stop, empty.Stop, func() error { return os.RemoveAll(home) })
}

// noon is the time of every command in tests; the objects in testdata are older.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// result is what a command printed, and its exit code.
type result struct {
	out, err string
	code     int
}

// run runs a command as the user of a kubeconfig.
func run(t *testing.T, kubeconfig string, args ...string) result {
	t.Helper()
	return runAt(t, noon, kubeconfig, "", args...)
}

// runAt runs a command at a time, with what is typed.
func runAt(t *testing.T, now time.Time, kubeconfig, typed string, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	code := Run(t.Context(), Environment{
		Streams: genericiooptions.IOStreams{In: strings.NewReader(typed), Out: &out, ErrOut: &errOut},
		Now:     func() time.Time { return now },
	}, append(args, "--kubeconfig", kubeconfig))
	return result{out.String(), errOut.String(), code}
}

// kubeconfigOf writes a kubeconfig for a configuration.
func kubeconfigOf(t testing.TB, config *rest.Config) string {
	t.Helper()
	content, err := envtest.Kubeconfig(config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// admin is a kubeconfig of the administrator of a server.
func admin(t testing.TB, server *envtest.Server) string {
	t.Helper()
	config, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfigOf(t, config)
}

// apply creates the objects of a file in a namespace, with their status.
func apply(t testing.TB, file, namespace string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := management.Client(t)
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(object.Object) > 0 {
			create(t, c, object, namespace)
		}
	}
}

func create(t testing.TB, c client.Client, object *unstructured.Unstructured, namespace string) {
	t.Helper()
	object.SetNamespace(namespace)
	status, deleted := object.Object["status"], object.GetAnnotations()["deleted"] != ""
	for i, owner := range object.GetOwnerReferences() {
		found := &unstructured.Unstructured{}
		found.SetAPIVersion(owner.APIVersion)
		found.SetKind(owner.Kind)
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: owner.Name}, found); err != nil {
			t.Fatal(err)
		}
		owners := object.GetOwnerReferences()
		owners[i].UID = found.GetUID()
		object.SetOwnerReferences(owners)
	}
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
	if status != nil {
		object.Object["status"] = status
		if err := c.Status().Update(t.Context(), object); err != nil {
			t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	if deleted {
		if err := c.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// ofKubeconfig matches the flag of the kubeconfig, which is another file in each run.
var ofKubeconfig = regexp.MustCompile(` --kubeconfig \S+`)

// golden compares an answer with a file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	got = ofKubeconfig.ReplaceAllString(got, "")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil { //nolint:gosec // a golden file is for everyone
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// workloadSecret makes a server the workload cluster of a Cluster.
func workloadSecret(t *testing.T, namespace, cluster string, server *envtest.Server) {
	t.Helper()
	config, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	secretFor(t, namespace, cluster, config)
}

// secretFor writes the kubeconfig Secret of a Cluster.
func secretFor(t *testing.T, namespace, cluster string, config *rest.Config) {
	t.Helper()
	content, err := envtest.Kubeconfig(config)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: cluster + "-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: cluster}},
		Data:       map[string][]byte{"value": content},
	}
	if err := management.Client(t).Create(context.Background(), secret); err != nil {
		t.Fatal(err)
	}
}

// counter counts the requests for objects that pass through it.
type counter struct {
	requests atomic.Int64
	http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	c.requests.Add(1)
	return c.RoundTripper.RoundTrip(r)
}

// machineNamed reads a Machine of the management cluster.
func machineNamed(t *testing.T, namespace, name string) *clusterv1.Machine {
	t.Helper()
	m := &clusterv1.Machine{}
	if err := management.Client(t).Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, m); err != nil {
		t.Fatal(err)
	}
	return m
}

// bootstrapConfig is a BootstrapConfig that the API server accepts.
func bootstrapConfig(namespace, name string) *bootstrapv1.BootstrapConfig {
	config := &bootstrapv1.BootstrapConfig{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	config.Spec.OperatingSystem = "ubuntu"
	return config
}

// applyAs applies an object as a field manager.
func applyAs(t *testing.T, content map[string]any, manager string) {
	t.Helper()
	object := client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: content})
	if err := management.Client(t).Apply(t.Context(), object, client.FieldOwner(manager), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
}
