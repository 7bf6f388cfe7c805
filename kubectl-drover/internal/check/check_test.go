// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/api/crds"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/kubectl-drover/internal/object/objecttest"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// checker checks an installation of release v1 at noon.
func checker(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) *Checker {
	t.Helper()
	return &Checker{
		Reader: objecttest.Reader(t, funcs, objects...), Now: noon, ManagerNamespace: "drover-system", Release: "v1",
		Version: func() (*version.Info, error) { return &version.Info{GitVersion: "v1.36.0"}, nil },
	}
}

func levels(results []Result) string {
	var all []string
	for _, r := range results {
		all = append(all, string(r.Level))
	}
	return strings.Join(all, " ")
}

func manager(name, image string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "drover-system", Name: name}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "proxy", Image: "proxy:v9"}, {Name: managerContainer, Image: image}}
	d.Status.AvailableReplicas = 1
	return d
}

// withDefinitions answers with the CustomResourceDefinitions of the release, after a change to each.
func withDefinitions(t *testing.T, change func(name string, definition map[string]any) error) interceptor.Funcs {
	t.Helper()
	definitions, err := crds.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	return interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		into, is := o.(*unstructured.Unstructured)
		if !is || into.GetKind() != "CustomResourceDefinition" {
			return c.Get(ctx, key, o, options...)
		}
		for _, d := range definitions {
			if d.Name != key.Name {
				continue
			}
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d)
			if err != nil {
				return err
			}
			into.Object = content
			return change(d.Name, content)
		}
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}}
}

// TestKinds has API servers that lack a kind, or have it as an older or newer release has it.
func TestKinds(t *testing.T) {
	t.Parallel()
	missing := apierrors.NewNotFound(schema.GroupResource{}, "")
	only := func(which string, do func(map[string]any) error) func(string, map[string]any) error {
		return func(name string, definition map[string]any) error {
			if name == which {
				return do(definition)
			}
			return nil
		}
	}
	const machines, hetzner = "machines.cluster.x-k8s.io", "hetznermachines.infrastructure.drover.io"
	for name, test := range map[string]struct {
		change func(string, map[string]any) error
		level  Level
		want   string
	}{
		"are all there":                   {func(string, map[string]any) error { return nil }, OK, "all kinds of the core"},
		"may lack a cloud":                {only(hetzner, func(map[string]any) error { return missing }), OK, "all kinds of the core"},
		"may not lack one of the core":    {only(machines, func(map[string]any) error { return missing }), Failed, "1 is missing, as " + machines},
		"may not be read by everyone":     {only(machines, func(map[string]any) error { return apierrors.NewForbidden(schema.GroupResource{}, "", nil) }), Unknown, "you may not read customresourcedefinitions in all namespaces"},
		"are not known without an answer": {only(machines, func(map[string]any) error { return errors.New("broken") }), Failed, "broken"},
		"have another version": {only(machines, func(d map[string]any) error {
			return unstructured.SetNestedSlice(d, []any{map[string]any{"name": "v1beta1", "served": true}, map[string]any{"name": "v1beta2", "served": false}}, "spec", "versions")
		}), Failed, machines + " does not serve v1beta2"},
		"of a cloud have another version, too": {only(hetzner, func(d map[string]any) error {
			return unstructured.SetNestedSlice(d, []any{map[string]any{"name": "v1", "served": true}}, "spec", "versions")
		}), Failed, hetzner + " does not serve v1alpha1"},
		"are not established": {only(machines, func(d map[string]any) error {
			return unstructured.SetNestedSlice(d, []any{map[string]any{"type": "Established", "status": "False"}}, "status", "conditions")
		}), Failed, machines + " is not established"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results := checker(t, withDefinitions(t, test.change)).server(t.Context())
			if len(results) != 2 || results[1].Level != test.level || !strings.Contains(results[1].Message, test.want) {
				t.Errorf("got %+v", results)
			}
		})
	}
}

// TestNothingIsCheckedWithoutAServer has an API server that does not answer.
func TestNothingIsCheckedWithoutAServer(t *testing.T) {
	t.Parallel()
	c := checker(t, interceptor.Funcs{})
	c.Version = func() (*version.Info, error) { return nil, errors.New("connection refused") }
	want := []Result{{"API server", Failed, "connection refused", ""}}
	if diff := cmp.Diff(want, c.Run(t.Context())); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

// TestWhatMayNotBeReadIsUnknown has a user with no permission, and a server that fails: each check says so, and runs whatever
// came out of the others.
func TestWhatMayNotBeReadIsUnknown(t *testing.T) {
	t.Parallel()
	for level, refusal := range map[Level]error{
		Unknown: apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", errors.New("no rule")), Failed: apierrors.NewInternalError(errors.New("etcd")),
	} {
		funcs := withDefinitions(t, func(string, map[string]any) error { return nil })
		definitions := funcs.Get
		funcs.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if _, is := o.(*unstructured.Unstructured); is {
				return definitions(ctx, c, key, o, options...)
			}
			return refusal
		}
		funcs.List = func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return refusal }
		results := checker(t, funcs).Run(t.Context())
		var names []string
		for _, r := range results[2:] {
			names = append(names, r.Name)
			if r.Level != level {
				t.Errorf("got %+v", r)
			}
		}
		want := []string{"roles", "managers", "leases", "workload clusters", "certificates", "credentials", "freezes", "orphans"}
		if diff := cmp.Diff(want, names); diff != "" || NoneFailed(results) != (level == Unknown) {
			t.Errorf("checks (-want +got):\n%s", diff)
		}
		counts := map[Level]string{Unknown: "\n2 ok, 0 warnings, 0 failed, 8 not checked\n", Failed: "\n2 ok, 0 warnings, 8 failed, 0 not checked\n"}
		if text := Text(results); !strings.HasSuffix(text, counts[level]) {
			t.Errorf("text %s", text)
		}
	}
}

// TestRolesRuleByRule removes each rule from the ClusterRole of each manager of the release.
func TestRolesRuleByRule(t *testing.T) {
	t.Parallel()
	files, err := released.ReadDir("roles")
	if err != nil || len(files) < len(core) {
		t.Fatalf("%d roles, error %v", len(files), err)
	}
	for _, file := range files {
		name := managerPrefix + strings.TrimSuffix(file.Name(), ".yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, err := releasedRules(name)
			if err != nil || len(want) == 0 {
				t.Fatalf("%d rules, error %v", len(want), err)
			}
			installed := want
			c := checker(t, interceptor.Funcs{Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
				role, is := o.(*rbacv1.ClusterRole)
				if !is || key.Name != name+":drover-system" {
					return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
				}
				role.Name, role.Rules = key.Name, installed
				return nil
			}})
			if results, err := c.role(t.Context(), name, "v1"); err != nil || len(results) > 0 {
				t.Errorf("the role of the release: %+v, error %v", results, err)
			}
			for i, rule := range want {
				installed = slices.Delete(slices.Clone(want), i, i+1)
				results, err := c.role(t.Context(), name, "v1")
				if err != nil || levels(results) != "failed" || !slices.ContainsFunc(append(rule.Resources, "more"), func(r string) bool { return strings.Contains(results[0].Message, r) }) {
					t.Errorf("without %v: %+v, error %v", rule, results, err)
				}
			}
		})
	}
}

// TestRoleThatLacksAPermission depends on the version of its manager.
func TestRoleThatLacksAPermission(t *testing.T) {
	t.Parallel()
	role := func(name string) *rbacv1.ClusterRole {
		rules, err := releasedRules("drover-bootstrap")
		if err != nil {
			t.Fatal(err)
		}
		return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules[1:]}
	}
	for name, test := range map[string]struct {
		manager, version string
		role             *rbacv1.ClusterRole
		want             string
		help             string
	}{
		"is a failure of this release":          {"drover-bootstrap", "v1", role("drover-bootstrap:drover-system"), "failed", "apply the manifests of the release again"},
		"is a warning of another release":       {"drover-bootstrap", "v2", role("drover-bootstrap:drover-system"), "warning", "drover-bootstrap is of version v2, and this plugin of version v1: use the plugin of that release"},
		"is a warning of an unknown release":    {"drover-bootstrap", "", role("drover-bootstrap:drover-system"), "warning", "the version of drover-bootstrap is not known: if it is that of this plugin, v1, apply the manifests of the release again, else use the plugin of that release"},
		"is read from a name without namespace": {"drover-bootstrap", "v1", role("drover-bootstrap"), "failed", "apply the manifests of the release again"},
		"is not that of another installation":   {"drover-bootstrap", "v1", role("drover-bootstrap:other"), "failed", "install the manifests of the release"},
		"does not matter of another's manager":  {"drover-infra-private", "v1", role("other"), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results, err := checker(t, interceptor.Funcs{}, test.role).role(t.Context(), test.manager, test.version)
			if err != nil || levels(results) != test.want || test.want != "" && results[0].Help != test.help {
				t.Errorf("got %+v, error %v", results, err)
			}
		})
	}
}

func TestDescribeRules(t *testing.T) {
	t.Parallel()
	rule := func(group, resource, verb string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb}}
	}
	rules := []rbacv1.PolicyRule{rule("", "secrets", "get"), rule("apps", "deployments", "get"), rule("", "nodes", "delete")}
	if got, want := describeRules(rules), "delete nodes, get deployments.apps, get secrets"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := describeRules(append(rules, rule("", "pods", "list"), rule("", "pods", "watch"))), "delete nodes, get deployments.apps, get secrets and 2 more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestVersionOf(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]string{
		"r.example.org:5000/drover/x:v1":                         "v1",
		"r.example.org:5000/drover/x":                            "latest",
		"x:v1@sha256:" + strings.Repeat("0", 64):                 "v1",
		"r.example.org:5000/x@sha256:" + strings.Repeat("0", 64): "",
	} {
		if got := versionOf(manager("m", image)); got != want {
			t.Errorf("%s: got %q, want %q", image, got, want)
		}
	}
	if got := versionOf(&appsv1.Deployment{}); got != "" {
		t.Errorf("without a container: %q", got)
	}
}

// TestManagers has installations with what is missing, does not run, or is turned off, so that nothing is reconciled.
func TestManagers(t *testing.T) {
	t.Parallel()
	core := func(change func(d *appsv1.Deployment)) []client.Object {
		d := manager("drover-bootstrap", "b:v1")
		change(d)
		return []client.Object{d, manager("drover-machine-controller", "m:v1")}
	}
	off := func(d *appsv1.Deployment) { d.Spec.Replicas, d.Status.AvailableReplicas = new(int32(0)), 0 }
	provider := manager("drover-infra-sim", "s:v1")
	off(provider)
	for name, test := range map[string]struct {
		objects []client.Object
		level   string
		want    string
	}{
		"run":                        {core(func(*appsv1.Deployment) {}), "ok", "2 run"},
		"have no available replica":  {core(func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 }), "failed", "drover-bootstrap has no available replica"},
		"are turned off":             {core(off), "failed", "drover-bootstrap is turned off: it has 0 replicas"},
		"have a provider turned off": {append(core(func(*appsv1.Deployment) {}), provider), "warning", "drover-infra-sim is turned off: it has 0 replicas"},
		"are not all there":          {core(func(*appsv1.Deployment) {})[1:], "warning", "drover-bootstrap is not in namespace drover-system"},
		"have two versions":          {core(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[1].Image = "b:v2" }), "warning", "the managers have different versions: v1 (drover-machine-controller), v2 (drover-bootstrap)"},
		"have no known version":      {core(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[1].Image = "b@sha256:0" }), "ok", "2 run"},
		"are elsewhere":              {core(func(d *appsv1.Deployment) { d.Namespace = "other" })[:1], "unknown", "there are none in namespace drover-system; --installed-in names another"},
		"are beside other programs":  {append(core(func(*appsv1.Deployment) {}), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "drover-system", Name: "other"}}), "ok", "2 run"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results := checker(t, interceptor.Funcs{}, test.objects...).managers(t.Context())
			if levels(results) != test.level || results[0].Message != test.want {
				t.Errorf("got %+v", results)
			}
		})
	}
}

// TestLeases has Leases of managers that run, were removed, or have no replicas.
func TestLeases(t *testing.T) {
	t.Parallel()
	lease := func(name string, age time.Duration) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "drover-system", Name: name},
			Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: noon.Add(-age)}, LeaseDurationSeconds: new(int32(15))},
		}
	}
	off := manager("drover-off", "x")
	off.Spec.Replicas = new(int32(0))
	never := lease("drover-bootstrap", 0)
	never.Spec.RenewTime = nil
	for name, test := range map[string]struct {
		leases []client.Object
		level  string
		want   string
	}{
		"are renewed":         {[]client.Object{lease("drover-bootstrap", time.Minute)}, "ok", "1 is renewed"},
		"are late":            {[]client.Object{lease("drover-bootstrap", time.Minute+time.Second)}, "failed", "drover-bootstrap was renewed 61s ago, and its holder must renew it within 15 s"},
		"stay behind":         {[]client.Object{lease("drover-bootstrap", 0), lease("drover-off", time.Hour), lease("drover-removed", time.Hour)}, "ok", "1 is renewed"},
		"are those of others": {[]client.Object{lease("other", 0)}, "unknown", "there are none of managers in namespace drover-system"},
		"were never held":     {[]client.Object{never}, "unknown", "there are none of managers in namespace drover-system"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results := checker(t, interceptor.Funcs{}, append(test.leases, manager("drover-bootstrap", "x"), off)...).leases(t.Context())
			if levels(results) != test.level || results[0].Message != test.want {
				t.Errorf("got %+v", results)
			}
		})
	}
}

// certificate is one that ends at a time.
func certificate(t *testing.T, end time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.AddDate(-1, 0, 0), NotAfter: end}
	content, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: content})
}

// TestExpiring has certificates around the limits, and bundles in which one ends first.
func TestExpiring(t *testing.T) {
	t.Parallel()
	later, month, day := certificate(t, noon.AddDate(1, 0, 0)), certificate(t, noon.Add(soon)), certificate(t, noon.Add(24*time.Hour))
	for name, test := range map[string]struct {
		tls  rest.TLSClientConfig
		want []string
	}{
		"has none":                       {rest.TLSClientConfig{}, nil},
		"ends in 30 days":                {rest.TLSClientConfig{CertData: month}, nil},
		"ends within 30 days":            {rest.TLSClientConfig{CertData: certificate(t, noon.Add(soon-time.Second))}, []string{"warning the client certificate in the kubeconfig of Cluster n/c expires in 29d"}},
		"ends now":                       {rest.TLSClientConfig{CertData: certificate(t, noon)}, []string{"failed the client certificate in the kubeconfig of Cluster n/c expired 0s ago"}},
		"has an authority that ends":     {rest.TLSClientConfig{CertData: later, CAData: day}, []string{"warning the CA certificate in the kubeconfig of Cluster n/c expires in 24h"}},
		"has a bundle in which one ends": {rest.TLSClientConfig{CAData: slices.Concat(later, day, month)}, []string{"warning the CA certificate in the kubeconfig of Cluster n/c expires in 24h"}},
		"has one that cannot be read":    {rest.TLSClientConfig{CAData: slices.Concat(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}), day)}, []string{"warning the CA certificate in the kubeconfig of Cluster n/c expires in 24h"}},
		"has what is not a certificate":  {rest.TLSClientConfig{CertData: []byte("x")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, r := range checker(t, interceptor.Funcs{}).expiring(client.ObjectKey{Namespace: "n", Name: "c"}, &rest.Config{TLSClientConfig: test.tls}) {
				got = append(got, fmt.Sprint(r.Level, " ", r.Message))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSecretsThatMayNotBeRead has two Clusters, whose certificates are not known.
func TestSecretsThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	funcs := interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", nil)
	}}
	a, b := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"}}, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "m", Name: "b"}}
	want := []Result{{"certificates", Unknown, "you may not read the kubeconfig Secrets of 2 Clusters", ""}}
	if diff := cmp.Diff(want, checker(t, funcs, a, b).kubeconfigs(t.Context())); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	want = []Result{{"certificates", OK, "none of 0 kubeconfigs expires within 30 days", ""}}
	if diff := cmp.Diff(want, checker(t, interceptor.Funcs{}, a, b).kubeconfigs(t.Context())); diff != "" {
		t.Errorf("without Secrets (-want +got):\n%s", diff)
	}
}

// TestCredentialsAreGrouped has Machines of two namespaces and clouds.
func TestCredentialsAreGrouped(t *testing.T) {
	t.Parallel()
	machine := func(namespace, name, kind, reason string) *clusterv1.Machine {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		m.Spec.InfrastructureRef.Kind = kind
		m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineInfrastructureReadyCondition, Status: metav1.ConditionFalse, Reason: reason}}
		return m
	}
	c := checker(t, interceptor.Funcs{}, machine("a", "1", "AWSMachine", infrav1.UnauthorizedReason), machine("a", "2", "AWSMachine", infrav1.UnauthorizedReason),
		machine("a", "3", "AWSMachine", "CloudError"), machine("b", "4", "AWSMachine", infrav1.AccountMismatchReason))
	want := []Result{
		{"credentials", Failed, "1 Machine in namespace b: AWSMachine " + infrav1.AccountMismatchReason, "kubectl drover why machine/4 --namespace b"},
		{"credentials", Failed, "2 Machines in namespace a: AWSMachine " + infrav1.UnauthorizedReason, "kubectl drover why machine/1 --namespace a"},
	}
	if diff := cmp.Diff(want, c.credentials(t.Context())); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	c.Namespace = "c"
	want = []Result{{"credentials", OK, "no cloud refuses those of any of 0 Machines", ""}}
	if diff := cmp.Diff(want, c.credentials(t.Context())); diff != "" {
		t.Errorf("of another namespace (-want +got):\n%s", diff)
	}
}

// TestOrphansAreOneWarning has two, of which the first is named.
func TestOrphansAreOneWarning(t *testing.T) {
	t.Parallel()
	old := func(name string) *infrav1.SimMachine {
		return &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))}}
	}
	want := []Result{{"orphans", Warning, "2 objects of providers have no Machine, as SimMachine n/a", "kubectl drover orphans --all-namespaces"}}
	if diff := cmp.Diff(want, checker(t, interceptor.Funcs{}, old("b"), old("a")).orphans(t.Context())); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}
