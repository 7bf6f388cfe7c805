// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"strings"
	"testing"

	"github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/envtest"
)

func validCheck(namespace string, apiVersion, kind string) *clusterv1.MachineHealthCheck {
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "check"}}
	check.Spec.ClusterName, check.Spec.Selector.MatchLabels = "c", map[string]string{"pool": "a"}
	check.Spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{APIVersion: apiVersion, Kind: kind, Name: "t"}
	return check
}

func TestReferencesOfTheWrongKindAreRefused(t *testing.T) {
	t.Parallel()
	c, namespace := unmanaged.Client(t), unmanaged.Namespace(t)
	const core = "cluster.x-k8s.io"
	machine := func(change func(*clusterv1.MachineSpec)) client.Object {
		m := validMachine(namespace)
		change(&m.Spec)
		return m
	}
	set := func(change func(*clusterv1.MachineSpec)) client.Object {
		s := validSet(namespace)
		change(&s.Spec.Template.Spec)
		return s
	}
	deployment := func(change func(*clusterv1.MachineSpec)) client.Object {
		md := validDeployment(namespace)
		change(&md.Spec.Template.Spec)
		return md
	}
	cluster := func(change func(*clusterv1.ClusterSpec)) client.Object {
		o := validCluster(namespace)
		change(&o.Spec)
		return o
	}
	for name, test := range map[string]struct {
		object client.Object
		field  string
	}{
		"a Machine on a template":           {machine(func(s *clusterv1.MachineSpec) { s.InfrastructureRef.Kind = "ThingMachineTemplate" }), "spec.infrastructureRef.kind"},
		"a Machine booting with a template": {machine(func(s *clusterv1.MachineSpec) { s.Bootstrap.ConfigRef.Kind = "ThingConfigTemplate" }), "spec.bootstrap.configRef.kind"},
		"a Machine on a kind of Cluster API": {machine(func(s *clusterv1.MachineSpec) {
			s.InfrastructureRef.APIGroup, s.InfrastructureRef.Kind = core, "Cluster"
		}), "spec.infrastructureRef.apiGroup"},
		"a Machine booting with one":                   {machine(func(s *clusterv1.MachineSpec) { s.Bootstrap.ConfigRef.APIGroup = core }), "spec.bootstrap.configRef.apiGroup"},
		"a MachineSet of an instance":                  {set(func(s *clusterv1.MachineSpec) { s.InfrastructureRef.Kind = "ThingMachine" }), "spec.template.spec.infrastructureRef.kind"},
		"a MachineSet of a config":                     {set(func(s *clusterv1.MachineSpec) { s.Bootstrap.ConfigRef.Kind = "ThingConfig" }), "spec.template.spec.bootstrap.configRef.kind"},
		"a MachineSet of a kind of Cluster API":        {set(func(s *clusterv1.MachineSpec) { s.InfrastructureRef.APIGroup = core }), "spec.template.spec.infrastructureRef.apiGroup"},
		"a MachineDeployment of an instance":           {deployment(func(s *clusterv1.MachineSpec) { s.InfrastructureRef.Kind = "ThingMachine" }), "spec.template.spec.infrastructureRef.kind"},
		"a MachineDeployment of no kind in particular": {deployment(func(s *clusterv1.MachineSpec) { s.InfrastructureRef.Kind = "Template" }), "spec.template.spec.infrastructureRef.kind"},
		"a MachineDeployment of a config":              {deployment(func(s *clusterv1.MachineSpec) { s.Bootstrap.ConfigRef.Kind = "ThingConfig" }), "spec.template.spec.bootstrap.configRef.kind"},
		"a health check that requests Machines":        {validCheck(namespace, core+"/v1beta2", "MachineTemplate"), "spec.remediation.templateRef.kind"},
		"a health check that requests infrastructure":  {validCheck(namespace, "infrastructure.test.io/v1", "ThingMachineTemplate"), "spec.remediation.templateRef.kind"},
		"a health check that requests an instance":     {validCheck(namespace, "mend.test/v1", "MendRemediation"), "spec.remediation.templateRef.kind"},
		"a health check that requests of Kubernetes":   {validCheck(namespace, "apps/v1", "XRemediationTemplate"), "spec.remediation.templateRef.apiVersion"},
		"a Cluster on a template": {cluster(func(s *clusterv1.ClusterSpec) {
			s.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.test.io", Kind: "ThingClusterTemplate", Name: "t"}
		}), "spec.infrastructureRef.kind"},
		"a Cluster planned by Cluster API": {cluster(func(s *clusterv1.ClusterSpec) {
			s.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: core, Kind: "Cluster", Name: "c"}
		}), "spec.controlPlaneRef.apiGroup"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := c.Create(t.Context(), test.object, client.DryRunAll); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.field+":") {
				t.Errorf("error is %v, want a refusal that names %s", err, test.field)
			}
		})
	}
	for name, object := range map[string]client.Object{
		"a Machine": validMachine(namespace), "a MachineSet": validSet(namespace), "a MachineDeployment": validDeployment(namespace),
		"a health check": validCheck(namespace, "mend.test/v1", "MendRemediationTemplate"),
	} {
		if err := c.Create(t.Context(), object, client.DryRunAll); err != nil {
			t.Errorf("%s is refused: %v", name, err)
		}
	}
}

// relaxSchema applies a change to the CRD of Machines until the test takes it back.
func relaxSchema(t *testing.T, server *envtest.Server, change func(*apiextensionsv1.JSONSchemaProps)) (restore func()) {
	t.Helper()
	known := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	config, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: known})
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "machines.cluster.x-k8s.io"}, crd); err != nil {
		t.Fatal(err)
	}
	strict := crd.DeepCopy()
	change(crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
	if err := c.Patch(t.Context(), crd, client.MergeFrom(strict)); err != nil {
		t.Fatal(err)
	}
	return func() {
		loose := crd.DeepCopy()
		crd.Spec = strict.Spec
		if err := c.Patch(t.Context(), crd, client.MergeFrom(loose)); err != nil {
			t.Fatal(err)
		}
	}
}

// An object that an older API server accepted must be able to change, and to go. It runs alone, as it changes a CRD.
func TestStoredReferenceStaysValid(t *testing.T) {
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(eventuallyTimeout)
	c, namespace := unmanaged.Client(t), unmanaged.Namespace(t)
	restore := relaxSchema(t, unmanaged, func(schema *apiextensionsv1.JSONSchemaProps) {
		spec := schema.Properties["spec"]
		ref := spec.Properties["infrastructureRef"]
		ref.XValidations = nil
		spec.Properties["infrastructureRef"] = ref
	})
	m := validMachine(namespace)
	m.Finalizers, m.Spec.InfrastructureRef.Kind = []string{"test.io/held"}, "ThingMachineTemplate"
	bad := m.DeepCopy()
	bad.Name = "bad"
	g.Eventually(func() error { return c.Create(t.Context(), m) }).Should(gomega.Succeed())
	restore()
	g.Eventually(func() bool { return apierrors.IsInvalid(c.Create(t.Context(), bad.DeepCopy(), client.DryRunAll)) }).Should(gomega.BeTrue())

	before := m.DeepCopy()
	m.Spec.MinReadySeconds = new(int32(5))
	g.Expect(c.Patch(t.Context(), m, client.MergeFrom(before))).To(gomega.Succeed(), "what is not about the reference")
	before = m.DeepCopy()
	m.Spec.InfrastructureRef.Name = "other"
	g.Expect(apierrors.IsInvalid(c.Patch(t.Context(), m, client.MergeFrom(before)))).To(gomega.BeTrue(), "what is about the reference")
	g.Expect(c.Delete(t.Context(), before)).To(gomega.Succeed())
	g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(before), m)).To(gomega.Succeed())
	before = m.DeepCopy()
	m.Finalizers = nil
	g.Expect(c.Patch(t.Context(), m, client.MergeFrom(before))).To(gomega.Succeed())
	g.Expect(apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(m), m))).To(gomega.BeTrue())
}

func TestDeploymentSelectorIsImmutable(t *testing.T) {
	t.Parallel()
	c, namespace := unmanaged.Client(t), unmanaged.Namespace(t)
	labels := func(pairs ...string) map[string]string {
		all := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			all[pairs[i]] = pairs[i+1]
		}
		return all
	}
	expression := []metav1.LabelSelectorRequirement{{Key: "pool", Operator: metav1.LabelSelectorOpExists}}
	own := labels(clusterv1.ClusterNameLabel, "c", clusterv1.MachineDeploymentNameLabel, "md")
	for name, test := range map[string]struct {
		before, after metav1.LabelSelector
		refused       bool
	}{
		"another value":                     {metav1.LabelSelector{MatchLabels: labels("pool", "a")}, metav1.LabelSelector{MatchLabels: labels("pool", "b")}, true},
		"a further label":                   {metav1.LabelSelector{MatchLabels: labels("pool", "a")}, metav1.LabelSelector{MatchLabels: labels("pool", "a", "tier", "x")}, true},
		"a label less":                      {metav1.LabelSelector{MatchLabels: labels("pool", "a", "tier", "x")}, metav1.LabelSelector{MatchLabels: labels("pool", "a")}, true},
		"none any more":                     {metav1.LabelSelector{MatchLabels: labels("pool", "a")}, metav1.LabelSelector{}, true},
		"an expression":                     {metav1.LabelSelector{MatchLabels: labels("pool", "a")}, metav1.LabelSelector{MatchLabels: labels("pool", "a"), MatchExpressions: expression}, true},
		"nothing":                           {metav1.LabelSelector{MatchLabels: labels("pool", "a")}, metav1.LabelSelector{MatchLabels: labels("pool", "a")}, false},
		"what the controller fills in":      {metav1.LabelSelector{}, metav1.LabelSelector{MatchLabels: own}, false},
		"what a manifest does not repeat":   {metav1.LabelSelector{MatchLabels: own}, metav1.LabelSelector{}, false},
		"what upstream's webhook adds":      {metav1.LabelSelector{MatchLabels: labels("pool", "a")}, metav1.LabelSelector{MatchLabels: labels("pool", "a", clusterv1.ClusterNameLabel, "c")}, false},
		"what upstream's webhook has added": {metav1.LabelSelector{MatchLabels: labels("pool", "a", clusterv1.ClusterNameLabel, "c")}, metav1.LabelSelector{MatchLabels: labels("pool", "a")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := validDeployment(namespace)
			md.Name, md.GenerateName = "", "md-"
			if len(test.before.MatchLabels) == 2 || len(test.after.MatchLabels) == 2 { // the label holds the name
				md.Name, md.Namespace = "md", unmanaged.Namespace(t)
			}
			md.Spec.Template.Labels = labels("pool", "a", "tier", "x")
			md.Spec.Selector = test.before
			if err := c.Create(t.Context(), md); err != nil {
				t.Fatal(err)
			}
			md.Spec.Selector = test.after
			if test.after.MatchLabels["pool"] == "b" {
				md.Spec.Template.Labels["pool"] = "b"
			}
			err := c.Update(t.Context(), md)
			if test.refused && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.selector") || !strings.Contains(err.Error(), "immutable")) {
				t.Errorf("error is %v, want a refusal that names the field", err)
			}
			if !test.refused && err != nil {
				t.Errorf("it is refused: %v", err)
			}
		})
	}
}
