// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package testenv gives the tests of a package real API servers: each is started by the first test that wants it, and
// ends with the tests. It is never part of a binary.
package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"drover.io/api/crds"
	policyv1 "drover.io/api/policy/v1alpha1"
)

// Server is an API server with its etcd. The zero value has no kinds but Kubernetes' own, as a workload cluster.
type Server struct {
	// Project adds every kind of the project, as in a management cluster.
	Project bool
	// CRDs and Folders are further kinds, as objects and as folders of manifests.
	CRDs    []*apiextensionsv1.CustomResourceDefinition
	Folders []string

	mu          sync.Mutex
	environment envtest.Environment
	config      *rest.Config
	err         error
}

// Start returns the configuration of a client that may do everything, and that nothing slows down. The first call
// starts the server.
func (s *Server) Start() (*rest.Config, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.config == nil && s.err == nil {
		s.config, s.err = s.start()
	}
	return s.config, s.err
}

func (s *Server) start() (*rest.Config, error) {
	assets, err := Binaries()
	if err != nil {
		return nil, err
	}
	s.environment = envtest.Environment{
		BinaryAssetsDirectory: assets, CRDs: s.CRDs, CRDDirectoryPaths: s.Folders, ErrorIfCRDPathMissing: true,
		// A busy machine takes its time.
		ControlPlaneStartTimeout: 5 * time.Minute, ControlPlaneStopTimeout: time.Minute,
	}
	if s.Project {
		ours, err := crds.Definitions()
		if err != nil {
			return nil, err
		}
		s.environment.CRDs = append(ours, s.CRDs...)
	}
	config, err := s.environment.Start()
	if err != nil {
		return nil, fmt.Errorf("starting the API server: %w", errors.Join(err, s.environment.Stop()))
	}
	config.QPS = -1
	return config, nil
}

// Stop ends the server, if it was started.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.config == nil {
		return nil
	}
	return s.environment.Stop()
}

// Client returns a client without a cache, which may do everything.
func (s *Server) Client(t testing.TB) client.WithWatch {
	t.Helper()
	config, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	known, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: known})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Namespace returns the name of a new namespace.
func (s *Server) Namespace(t testing.TB) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := s.Client(t).Create(context.Background(), namespace); err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}

// Cluster returns the Cluster "c" as an API server accepts it.
func Cluster(namespace string) *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c"}, Spec: clusterv1.ClusterSpec{Paused: ptr.To(false)}}
}

// Machine returns a Machine of the Cluster "c" that an API server accepts.
func Machine(namespace, name string) *clusterv1.Machine {
	return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: MachineSpec()}
}

// TemplateSpec is what a template of Machines cannot do without.
func TemplateSpec() clusterv1.MachineSpec {
	spec := MachineSpec()
	spec.InfrastructureRef.Kind += "Template"
	return spec
}

// MachineSpec is what a Machine cannot do without.
func MachineSpec() clusterv1.MachineSpec {
	return clusterv1.MachineSpec{
		ClusterName: "c", Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To("data")},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "things.test", Kind: "Thing", Name: "t"},
	}
}

// Kubeconfig reaches the server of a configuration as its user.
func Kubeconfig(config *rest.Config) ([]byte, error) {
	host := config.Host
	if !strings.Contains(host, "://") {
		host = "https://" + host
	}
	written := clientcmdapi.NewConfig()
	written.Clusters["c"] = &clientcmdapi.Cluster{Server: host, CertificateAuthorityData: config.CAData}
	written.AuthInfos["u"] = &clientcmdapi.AuthInfo{
		Token: config.BearerToken, ClientCertificateData: config.CertData, ClientKeyData: config.KeyData,
	}
	written.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	written.CurrentContext = "x"
	return clientcmd.Write(*written)
}

// Scheme has all kinds that the managers and their tests use.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), clusterv1.AddToScheme(s), policyv1.AddToScheme(s))
}

// Main runs the tests of a package, then calls what stops their servers and whatever runs against them, and ends the
// process.
func Main(m *testing.M, stops ...func() error) {
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	for _, stop := range stops {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping what the tests started:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// Binaries is KUBEBUILDER_ASSETS, or bin/k8s of the checkout that the test runs in.
func Binaries() (string, error) {
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		return assets, nil
	}
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
		found := filepath.Join(folder, "bin", "k8s")
		if _, err := os.Stat(filepath.Join(found, "kube-apiserver")); err == nil {
			return found, nil
		}
	}
	return "", errors.New("no bin/k8s/kube-apiserver: build it with `make control-plane`, or set KUBEBUILDER_ASSETS")
}
