// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/envtest"
)

// TestANestedObjectHidesNoOthers: a user of one namespace may create an object whose metadata no decoder accepts in a list.
func TestANestedObjectHidesNoOthers(t *testing.T) {
	config, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := envtest.Kubeconfig(config)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", path)
	o, err := Parse("program", []string{"--metrics-bind-address=0", "--health-probe-bind-address=0", "--leader-elect=false"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := New(t.Context(), "drover-test", o, ctrl.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	c, err := UncachedClient(mgr)
	if err != nil {
		t.Fatal(err)
	}
	const levels = 9994 // as many as a request may have
	namespace := server.Namespace(t)
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"nested","managedFields":[{"manager":"x","operation":"Apply",
		"apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":%s{}%s}}]}}`, strings.Repeat(`{"f:a":`, levels), strings.Repeat("}", levels))
	path = "/api/v1/namespaces/" + namespace + "/configmaps"
	clients := kubernetes.NewForConfigOrDie(config)
	if err := clients.CoreV1().RESTClient().Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	list := func(reader client.Reader) error {
		all := &unstructured.UnstructuredList{}
		all.SetAPIVersion("v1")
		all.SetKind("ConfigMapList")
		return reader.List(t.Context(), all, client.InNamespace(namespace))
	}
	if list(server.Client(t)) == nil {
		t.Error("the object can be decoded by any client")
	}
	if err := list(c); err != nil {
		t.Error(err)
	}
}
