// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package envtest gives tests real API servers: each is started by the first test that uses it, and stopped by [Main]
// after the last. It has what the tests of all managers need; what is about the objects of one manager is in the testenv
// package of its module. It is never part of a binary.
package envtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/api/crds"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
	droverpolicyv1 "drover.io/api/policy/v1alpha1"
)

// Server is an API server with its etcd. The zero value has no kinds but Kubernetes' own, as a workload cluster.
type Server struct {
	// Project adds the kinds of the project, as in a management cluster with the provider of simulated machines.
	Project bool
	// Clouds are the providers, as infra-providers/cmd names them, whose kinds Project adds, too. Each further kind delays the
	// start.
	Clouds []string
	// EveryCloud adds the kinds of all providers, for tests of what reads each kind there is.
	EveryCloud bool
	// CRDs and Folders are further kinds, as objects and as folders of manifests.
	CRDs    []*apiextensionsv1.CustomResourceDefinition
	Folders []string
	// AdmitNodes accepts bootstrap tokens, and restricts users who are Nodes as production clusters do.
	AdmitNodes bool
	// Authn authenticates users; nil has client certificates of an authority that the server makes.
	Authn envtest.Authn

	mu          sync.Mutex
	environment envtest.Environment
	config      *rest.Config
	err         error
}

// Start returns the configuration of a client that may do everything, and whose rate is not limited. The first call
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
	apiServer := s.environment.ControlPlane.GetAPIServer()
	if s.Authn != nil {
		apiServer.Authn = s.Authn
	}
	if s.AdmitNodes {
		apiServer.Configure().
			Set("authorization-mode", "Node,RBAC").
			Set("enable-bootstrap-token-auth", "true").
			Append("enable-admission-plugins", "NodeRestriction")
	}
	if s.Project {
		project, err := crds.Definitions()
		if err != nil {
			return nil, fmt.Errorf("reading CRDs: %w", err)
		}
		s.environment.CRDs = append(slices.DeleteFunc(project, s.isOfOtherCloud), s.CRDs...)
	}
	restore := setEnvironment()
	config, err := s.environment.Start()
	restore()
	if err != nil {
		return nil, fmt.Errorf("starting the API server: %w", errors.Join(err, s.environment.Stop()))
	}
	config.QPS = -1
	return config, nil
}

// isOfOtherCloud tells whether a kind belongs to a provider that the server has no kinds of.
func (s *Server) isOfOtherCloud(kind *apiextensionsv1.CustomResourceDefinition) bool {
	if s.EveryCloud || kind.Spec.Group != infrav1.GroupVersion.Group {
		return false
	}
	for _, suffix := range []string{"machines", "machinetemplates"} {
		if cloud, ok := strings.CutSuffix(kind.Spec.Names.Plural, suffix); ok {
			return cloud != "sim" && !slices.Contains(s.Clouds, cloud)
		}
	}
	return false
}

// The environment variable that sets how rarely Go's runtime collects garbage, in percent of the heap that is in use, and its
// value for an API server that lives for one test: less often than with the default of 100, but not so rarely that new memory,
// which is dear in a virtual machine, costs more than that saves.
const (
	collectionVariable = "GOGC"
	collection         = "200"
)

// detectorVariable is the environment variable with which a process of client-go panics where it changes an object in a cache. It is
// for what we wrote: Kubernetes' own programs would compare all that they cache every second, in up to a tenth of their time.
const detectorVariable = "KUBE_CACHE_MUTATION_DETECTOR"

// variables are those that one of Kubernetes' programs that lives for one test has otherwise than this process; empty ones are unset.
// It collects garbage rarely, unless a value is given, and does not look for mutations of its caches.
func variables() map[string]string {
	changed := map[string]string{detectorVariable: ""}
	if _, given := os.LookupEnv(collectionVariable); !given {
		changed[collectionVariable] = collection
	}
	return changed
}

// Environment is the environment of one of Kubernetes' programs that lives for one test.
func Environment() []string {
	changed := variables()
	environment := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		_, found := changed[name]
		return found
	})
	for name, value := range changed {
		if value != "" {
			environment = append(environment, name+"="+value)
		}
	}
	return environment
}

// starting counts the servers that are being started, for which this process has the environment of Kubernetes' programs, and has
// what its variables were before.
var starting struct {
	sync.Mutex
	servers int
	before  map[string]string
}

// setEnvironment gives this process the same environment, for processes that are started until each call's restore was called.
func setEnvironment() (restore func()) {
	starting.Lock()
	defer starting.Unlock()
	if starting.servers++; starting.servers == 1 {
		starting.before = map[string]string{}
		for name, value := range variables() {
			starting.before[name] = os.Getenv(name)
			setVariable(name, value)
		}
	}
	return func() {
		starting.Lock()
		defer starting.Unlock()
		if starting.servers--; starting.servers > 0 {
			return
		}
		for name, value := range starting.before {
			setVariable(name, value)
		}
	}
}

// setVariable sets a variable of this process, or unsets it if the value is empty. No name or value here can be refused.
func setVariable(name, value string) {
	if value == "" {
		_ = os.Unsetenv(name)
		return
	}
	_ = os.Setenv(name, value)
}

// AddUser returns a configuration for a user with a new client certificate. It starts the server.
func (s *Server) AddUser(name string, groups ...string) (*rest.Config, error) {
	if _, err := s.Start(); err != nil {
		return nil, err
	}
	user, err := s.environment.AddUser(envtest.User{Name: name, Groups: groups}, nil)
	if err != nil {
		return nil, err
	}
	return user.Config(), nil
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
	c, err := NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// NewClient returns a client without a cache for all kinds of Scheme.
func NewClient(config *rest.Config) (client.WithWatch, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
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

// Scheme has all kinds that the managers and their tests use.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), clusterv1.AddToScheme(s),
		droverpolicyv1.AddToScheme(s), bootstrapv1.AddToScheme(s), infrav1.AddToScheme(s))
}
