// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The tests of this file prove what the CRDs refuse and default, on the API server itself.

func validMachine(namespace string) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m", Annotations: map[string]string{clusterv1.PausedAnnotation: ""}}}
	m.Spec = *machineSet(namespace).Spec.Template.Spec.DeepCopy()
	m.Spec.InfrastructureRef.Kind, m.Spec.Bootstrap.ConfigRef.Kind = "ThingMachine", "ThingConfig"
	return m
}

func validSet(namespace string) *clusterv1.MachineSet {
	set := machineSet(namespace)
	set.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	return set
}

func validDeployment(namespace string) *clusterv1.MachineDeployment {
	set := machineSet(namespace)
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "md", Annotations: map[string]string{clusterv1.PausedAnnotation: ""}}}
	md.Spec.ClusterName, md.Spec.Template, md.Spec.Selector = "c", set.Spec.Template, set.Spec.Selector
	return md
}

func validCluster(namespace string) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "valid"}}
	c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "h", Port: 1}
	return c
}

// rolling is a rolling update with these limits.
func rolling(surge, unavailable intstr.IntOrString) clusterv1.MachineDeploymentRolloutSpec {
	return clusterv1.MachineDeploymentRolloutSpec{Strategy: clusterv1.MachineDeploymentRolloutStrategy{
		Type:          clusterv1.RollingUpdateMachineDeploymentStrategyType,
		RollingUpdate: clusterv1.MachineDeploymentRolloutStrategyRollingUpdate{MaxSurge: &surge, MaxUnavailable: &unavailable},
	}}
}

func TestCreationIsValidated(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	machine := func(change func(*clusterv1.Machine)) client.Object {
		m := validMachine(w.namespace)
		change(m)
		return m
	}
	set := func(change func(*clusterv1.MachineSet)) client.Object {
		s := validSet(w.namespace)
		change(s)
		return s
	}
	deployment := func(change func(*clusterv1.MachineDeployment)) client.Object {
		md := validDeployment(w.namespace)
		change(md)
		return md
	}
	cluster := func(change func(*clusterv1.Cluster)) client.Object {
		c := validCluster(w.namespace)
		change(c)
		return c
	}
	drainRule := func(drain clusterv1.MachineDrainRuleDrainConfig) client.Object {
		return &clusterv1.MachineDrainRule{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "r"}, Spec: clusterv1.MachineDrainRuleSpec{Drain: drain}}
	}
	long := strings.Repeat("x", 64)
	for name, test := range map[string]struct {
		object client.Object
		field  string // that the refusal names; none is accepted
	}{
		"a set that selects the Machines of another": {
			set(func(s *clusterv1.MachineSet) {
				s.Spec.Selector = metav1.LabelSelector{MatchLabels: map[string]string{clusterv1.MachineSetNameLabel: "original"}}
			}),
			"spec.selector",
		},
		"a set that selects by the names of sets": {
			set(func(s *clusterv1.MachineSet) {
				s.Spec.Selector = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: clusterv1.MachineSetNameLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{s.Name}},
				}}
			}),
			"spec.selector.matchExpressions",
		},
		"a surge of more Machines than there can be": {
			deployment(func(md *clusterv1.MachineDeployment) {
				md.Spec.Rollout = rolling(intstr.FromInt32(10001), intstr.FromInt32(0))
			}),
			"maxSurge",
		},
		"a set with a record of the provider": {
			set(func(s *clusterv1.MachineSet) {
				s.Spec.Template.Annotations = map[string]string{"infrastructure.drover.io/identity": "x"}
			}),
			"spec.template.metadata.annotations",
		},
		"a deployment with a record of the provider": {
			deployment(func(md *clusterv1.MachineDeployment) {
				md.Spec.Template.Annotations = map[string]string{"infrastructure.drover.io/account": "x"}
			}),
			"spec.template.metadata.annotations",
		},
		"a set with a value that no label has": {
			set(func(s *clusterv1.MachineSet) { s.Spec.Template.Labels["team"] = "a b" }), "spec.template.metadata.labels",
		},
		"a deployment with a value that no label has": {
			deployment(func(md *clusterv1.MachineDeployment) { md.Spec.Template.Labels["team"] = "a b" }), "spec.template.metadata.labels",
		},
		"a deployment with a value that is too long for a label": {
			deployment(func(md *clusterv1.MachineDeployment) { md.Spec.Template.Labels["team"] = long }), "spec.template.metadata.labels",
		},
		"a deployment with a key that no label has": {
			deployment(func(md *clusterv1.MachineDeployment) { md.Spec.Template.Labels["my team"] = "a" }), "spec.template.metadata.labels",
		},
		"a set with a key that no annotation has": {
			set(func(s *clusterv1.MachineSet) {
				s.Spec.Template.Annotations = map[string]string{"example.com/my/note": ""}
			}),
			"spec.template.metadata.annotations",
		},
		"a deployment with a key that no annotation has": {
			deployment(func(md *clusterv1.MachineDeployment) {
				md.Spec.Template.Annotations = map[string]string{"my note": ""}
			}),
			"spec.template.metadata.annotations",
		},
		"a deployment with annotations": {
			deployment(func(md *clusterv1.MachineDeployment) {
				md.Spec.Template.Annotations = map[string]string{"Example.com/My_note.b": "any text\n", "note": "", clusterv1.PreDrainDeleteHookAnnotationPrefix + "/a": ""}
			}), "",
		},
		"a deployment with labels": {
			deployment(func(md *clusterv1.MachineDeployment) {
				md.Spec.Template.Labels["node-role.kubernetes.io/worker"], md.Spec.Template.Labels["example.com/A_b.c"] = "", long[:63]
			}), "",
		},
		"a Cluster":                        {cluster(func(*clusterv1.Cluster) {}), ""},
		"a Cluster whose name just fits":   {cluster(func(c *clusterv1.Cluster) { c.Name = long[:63] }), ""},
		"a Cluster whose name is no label": {cluster(func(c *clusterv1.Cluster) { c.Name = long }), "at most 63"},
		"a Cluster with a topology": {cluster(func(c *clusterv1.Cluster) {
			c.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "x"}, Version: "v1.36.3"}
		}), "spec.topology"},
		"an endpoint by name": {cluster(func(c *clusterv1.Cluster) {
			c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "api.example.com", Port: 6443}
		}), ""},
		"an endpoint by IPv6 address": {cluster(func(c *clusterv1.Cluster) {
			c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "2001:db8::1", Port: 6443}
		}), ""},
		"an endpoint that is a URL": {cluster(func(c *clusterv1.Cluster) {
			c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "https://foo.example", Port: 6443}
		}), "spec.controlPlaneEndpoint.host"},
		"an endpoint with its port": {cluster(func(c *clusterv1.Cluster) {
			c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "foo.example:6443", Port: 6443}
		}), "spec.controlPlaneEndpoint.host"},
		"an endpoint in brackets": {cluster(func(c *clusterv1.Cluster) {
			c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "[2001:db8::1]", Port: 6443}
		}), "spec.controlPlaneEndpoint.host"},
		"an endpoint of no address": {cluster(func(c *clusterv1.Cluster) {
			c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "10.0.0.300", Port: 6443}
		}), "spec.controlPlaneEndpoint.host"},
		"networks": {cluster(func(c *clusterv1.Cluster) {
			c.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{"10.0.0.0/16", "2001:db8::/48"}
		}), ""},
		"a network of too many bits":   {cluster(func(c *clusterv1.Cluster) { c.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{"10.0.0.0/99"} }), "spec.clusterNetwork.pods.cidrBlocks[0]"},
		"a network that is an address": {cluster(func(c *clusterv1.Cluster) { c.Spec.ClusterNetwork.Services.CIDRBlocks = []string{"10.0.0.1"} }), "spec.clusterNetwork.services.cidrBlocks[0]"},

		"a Machine":                         {machine(func(*clusterv1.Machine) {}), ""},
		"a Machine with the user's data":    {machine(func(m *clusterv1.Machine) { m.Spec.Bootstrap = clusterv1.Bootstrap{DataSecretName: new("s")} }), ""},
		"a Machine that boots with nothing": {machine(func(m *clusterv1.Machine) { m.Spec.Bootstrap = clusterv1.Bootstrap{} }), "spec.bootstrap"},
		"a Machine without infrastructure":  {machine(func(m *clusterv1.Machine) { m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{} }), "spec.infrastructureRef"},
		"a Machine of no Cluster":           {machine(func(m *clusterv1.Machine) { m.Spec.ClusterName = "" }), "spec.clusterName"},
		"a version":                         {machine(func(m *clusterv1.Machine) { m.Spec.Version = "v1.36.3" }), ""},
		"a version without its v":           {machine(func(m *clusterv1.Machine) { m.Spec.Version = "1.36.3" }), ""},
		"a version with more behind":        {machine(func(m *clusterv1.Machine) { m.Spec.Version = "v1.36.3+k3s1" }), ""},
		"a version too short":               {machine(func(m *clusterv1.Machine) { m.Spec.Version = "v1.36" }), "spec.version"},
		"a version in words":                {machine(func(m *clusterv1.Machine) { m.Spec.Version = "latest" }), "spec.version"},

		"a MachineSet":                             {set(func(*clusterv1.MachineSet) {}), ""},
		"a MachineSet of none":                     {set(func(s *clusterv1.MachineSet) { s.Spec.Replicas = new(int32(0)) }), ""},
		"a version with a command behind":          {machine(func(m *clusterv1.Machine) { m.Spec.Version = "v1.36.3'; reboot; '" }), "spec.version"},
		"a MachineSet's version in words":          {set(func(s *clusterv1.MachineSet) { s.Spec.Template.Spec.Version = "banana" }), "spec.template.spec.version"},
		"a MachineSet of a slip of the hand":       {set(func(s *clusterv1.MachineSet) { s.Spec.Replicas = new(int32(1000000)) }), "spec.replicas"},
		"a MachineSet of less than none":           {set(func(s *clusterv1.MachineSet) { s.Spec.Replicas = new(int32(-1)) }), "spec.replicas"},
		"a MachineSet whose template is another's": {set(func(s *clusterv1.MachineSet) { s.Spec.Template.Spec.ClusterName = "d" }), "spec.template.spec.clusterName"},
		"a MachineSet that boots with nothing":     {set(func(s *clusterv1.MachineSet) { s.Spec.Template.Spec.Bootstrap = clusterv1.Bootstrap{} }), "spec.template.spec.bootstrap"},

		"a MachineDeployment":                             {deployment(func(*clusterv1.MachineDeployment) {}), ""},
		"a MachineDeployment whose name is no label":      {deployment(func(md *clusterv1.MachineDeployment) { md.Name = long }), "at most 63"},
		"a MachineDeployment's version in words":          {deployment(func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = "banana" }), "spec.template.spec.version"},
		"a MachineDeployment's version":                   {deployment(func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = "v1.36.3-rc.1+k3s1" }), ""},
		"a MachineDeployment of a slip of the hand":       {deployment(func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = new(int32(1000000)) }), "spec.replicas"},
		"a MachineDeployment of less than none":           {deployment(func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = new(int32(-1)) }), "spec.replicas"},
		"a MachineDeployment whose template is another's": {deployment(func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.ClusterName = "d" }), "spec.template.spec.clusterName"},
		"a MachineDeployment that boots with nothing":     {deployment(func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Bootstrap = clusterv1.Bootstrap{} }), "spec.template.spec.bootstrap"},
		"a rollout that could not begin": {deployment(func(md *clusterv1.MachineDeployment) {
			md.Spec.Rollout = rolling(intstr.FromInt32(0), intstr.FromInt32(0))
		}), "spec.rollout.strategy.rollingUpdate"},
		"a rollout that could not begin, in percent": {deployment(func(md *clusterv1.MachineDeployment) {
			md.Spec.Rollout = rolling(intstr.FromString("0%"), intstr.FromInt32(0))
		}), "spec.rollout.strategy.rollingUpdate"},
		"a rollout that could not begin, by default": {deployment(func(md *clusterv1.MachineDeployment) {
			md.Spec.Rollout = rolling(intstr.FromInt32(0), intstr.FromInt32(0))
			md.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable = nil
		}), "spec.rollout.strategy.rollingUpdate"},
		"a surge in words": {deployment(func(md *clusterv1.MachineDeployment) {
			md.Spec.Rollout = rolling(intstr.FromString("some"), intstr.FromInt32(1))
		}), "spec.rollout.strategy.rollingUpdate.maxSurge"},
		"a surge without its percent sign": {deployment(func(md *clusterv1.MachineDeployment) {
			md.Spec.Rollout = rolling(intstr.FromString("1"), intstr.FromInt32(1))
		}), "spec.rollout.strategy.rollingUpdate.maxSurge"},
		"an absence of less than none": {deployment(func(md *clusterv1.MachineDeployment) {
			md.Spec.Rollout = rolling(intstr.FromInt32(1), intstr.FromInt32(-1))
		}), "spec.rollout.strategy.rollingUpdate.maxUnavailable"},
		"a remediation of less than none": {deployment(func(md *clusterv1.MachineDeployment) {
			md.Spec.Remediation.MaxInFlight = new(intstr.FromInt32(-1))
		}), "spec.remediation.maxInFlight"},
		"a remediation in words": {deployment(func(md *clusterv1.MachineDeployment) {
			md.Spec.Remediation.MaxInFlight = new(intstr.FromString("half"))
		}), "spec.remediation.maxInFlight"},
		"a remediation in percent": {deployment(func(md *clusterv1.MachineDeployment) {
			md.Spec.Remediation.MaxInFlight = new(intstr.FromString("20%"))
		}), ""},
		"a rollout by surge": {deployment(func(md *clusterv1.MachineDeployment) {
			md.Spec.Rollout = rolling(intstr.FromInt32(1), intstr.FromInt32(0))
		}), ""},
		"a drain rule whose Pods are not evicted and have an order": {drainRule(clusterv1.MachineDrainRuleDrainConfig{
			Behavior: clusterv1.MachineDrainRuleDrainBehaviorSkip, Order: new(int32(5)),
		}), "spec.drain.order"},
		"a drain rule whose Pods have an order": {drainRule(clusterv1.MachineDrainRuleDrainConfig{
			Behavior: clusterv1.MachineDrainRuleDrainBehaviorDrain, Order: new(int32(5)),
		}), ""},
		"a rollout by absence": {deployment(func(md *clusterv1.MachineDeployment) {
			md.Spec.Rollout = rolling(intstr.FromString("0%"), intstr.FromString("10%"))
		}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := w.client.Create(t.Context(), test.object, client.DryRunAll)
			if test.field == "" {
				if err != nil {
					t.Errorf("is refused: %v", err)
				}
				return
			}
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.field) {
				t.Errorf("error is %v, want a refusal with %q", err, test.field)
			}
		})
	}
}

// TestTaintsOfOthersAreRefused: what Kubernetes or the controllers set and remove themselves would be set and removed for ever.
func TestTaintsOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	for key, refusal := range map[string]string{
		"example.com/gpu":                                "",
		"node-role.kubernetes.io/worker":                 "",
		corev1.TaintNodeOutOfService:                     "",
		clusterv1.NodeUninitializedTaint.Key:             "machine-controller sets and removes this taint itself",
		clusterv1.NodeOutdatedRevisionTaint.Key:          "machine-controller sets and removes this taint itself",
		corev1.TaintNodeNotReady:                         "Kubernetes sets and removes the taints of node.kubernetes.io itself",
		"node.cloudprovider.kubernetes.io/uninitialized": "the cloud-controller-manager sets and removes",
		"node-role.kubernetes.io/master":                 "has not used this taint since 1.25",
		"node-role.kubernetes.io/control-plane":          "this taint is for control planes",
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			taints := []clusterv1.MachineTaint{{Key: key, Effect: corev1.TaintEffectNoSchedule, Propagation: clusterv1.MachineTaintPropagationAlways}}
			m, set, md := validMachine(w.namespace), validSet(w.namespace), validDeployment(w.namespace)
			m.Spec.Taints, set.Spec.Template.Spec.Taints, md.Spec.Template.Spec.Taints = taints, taints, taints
			for _, object := range []client.Object{m, set, md} {
				want := refusal
				if object == client.Object(m) && key == "node-role.kubernetes.io/control-plane" {
					want = "" // a Machine may be one of a control plane
				}
				err := w.client.Create(t.Context(), object, client.DryRunAll)
				if (err != nil) != (want != "") || (err != nil && (!strings.Contains(err.Error(), "taints[0].key:") || !strings.Contains(err.Error(), want))) {
					t.Errorf("%T is created with %v, want %q", object, err, want)
				}
			}
		})
	}
}

// selecting is what a selector and a template's labels are in the test below.
type selecting struct {
	selector metav1.LabelSelector
	labels   map[string]string
}

// TestSelectorMustMatchTemplate shows which selectors the API server refuses, of
// MachineSets and MachineDeployments alike.
func TestSelectorMustMatchTemplate(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	require := func(operator metav1.LabelSelectorOperator, values ...string) metav1.LabelSelector {
		return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: operator, Values: values}}}
	}
	labelled := func(labels map[string]string) metav1.LabelSelector { return metav1.LabelSelector{MatchLabels: labels} }
	for name, test := range map[string]struct {
		selecting
		field string
	}{
		"it takes none":                               {selecting{}, ""},
		"it takes labels of the template":             {selecting{labelled(map[string]string{"a": "1"}), map[string]string{"a": "1", "b": "2"}}, ""},
		"it takes the Cluster's":                      {selecting{labelled(map[string]string{clusterv1.ClusterNameLabel: "c"}), nil}, ""},
		"it refuses another Cluster's":                {selecting{labelled(map[string]string{clusterv1.ClusterNameLabel: "d"}), nil}, "spec.selector"},
		"it refuses a label that the template lacks":  {selecting{labelled(map[string]string{"a": "1"}), nil}, "spec.template.metadata"},
		"it refuses a label of another value":         {selecting{labelled(map[string]string{"a": "1"}), map[string]string{"a": "2"}}, "spec.template.metadata"},
		"it takes a value among others":               {selecting{require(metav1.LabelSelectorOpIn, "0", "1"), map[string]string{"a": "1"}}, ""},
		"it refuses a value that is not among others": {selecting{require(metav1.LabelSelectorOpIn, "0"), map[string]string{"a": "1"}}, "spec.template.metadata"},
		"it refuses a value that is excluded":         {selecting{require(metav1.LabelSelectorOpNotIn, "1"), map[string]string{"a": "1"}}, "spec.template.metadata"},
		"it takes a label that exists":                {selecting{require(metav1.LabelSelectorOpExists), map[string]string{"a": "1"}}, ""},
		"it refuses a label that does not exist":      {selecting{require(metav1.LabelSelectorOpExists), nil}, "spec.template.metadata"},
		"it refuses a label that must not exist":      {selecting{require(metav1.LabelSelectorOpDoesNotExist), map[string]string{"a": "1"}}, "spec.template.metadata"},
		"it refuses an operator that there is not":    {selecting{require("Like", "1"), map[string]string{"a": "1"}}, "spec.selector.matchExpressions[0].operator"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, md := validSet(w.namespace), validDeployment(w.namespace)
			set.Name, md.Name = "", ""
			set.GenerateName, md.GenerateName = "s-", "d-"
			set.Spec.Selector, set.Spec.Template.Labels = test.selector, test.labels
			md.Spec.Selector, md.Spec.Template.Labels = test.selector, test.labels
			for _, object := range []client.Object{set, md} {
				err := w.client.Create(t.Context(), object, client.DryRunAll)
				if (err != nil) != (test.field != "") || (err != nil && !strings.Contains(err.Error(), test.field+":")) {
					t.Errorf("%T is created with %v, want an error about %q", object, err, test.field)
				}
			}
		})
	}
}

// A default in the schema would also replace what is taken out, with no regard for what it was.
func TestReplicasHaveNoDefaultInTheSchema(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	set, md := validSet(w.namespace), validDeployment(w.namespace)
	w.create(set)
	w.create(md)
	if set.Spec.Replicas != nil || md.Spec.Replicas != nil {
		t.Errorf("replicas are %v and %v, want none", set.Spec.Replicas, md.Spec.Replicas)
	}
}

// TestRemovedReplicasKeepLastValue removes spec.replicas of a set with three Machines, as an apply does of a
// manifest that leaves it to the cluster autoscaler.
func TestRemovedReplicasKeepLastValue(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.templates()
	set := w.set(3)
	w.waitComplete(set, 3)
	if err := w.client.Patch(t.Context(), set, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/spec/replicas"}]`))); err != nil {
		t.Fatal(err)
	}
	w.Eventually(func(g gomega.Gomega) {
		g.Expect(w.client.Get(w.Context(), client.ObjectKeyFromObject(set), set)).To(gomega.Succeed())
		g.Expect(set.Spec.Replicas).To(gomega.HaveValue(gomega.BeEquivalentTo(3)))
	}).Should(gomega.Succeed())
	w.waitComplete(set, 3)
	if made := faults.created(w.namespace, "Machine"); len(made) != 3 {
		t.Errorf("%d Machines were made, want 3", len(made))
	}
}

func TestNewSetDefaultsToAutoscalerMinimum(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.templates()
	set := machineSet(w.namespace)
	set.Annotations = map[string]string{clusterv1.AutoscalerMinSizeAnnotation: "2", clusterv1.AutoscalerMaxSizeAnnotation: "5"}
	w.create(set)
	w.waitComplete(set, 2)
}

func TestClusterNameIsImmutable(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	m, set, md := validMachine(w.namespace), validSet(w.namespace), validDeployment(w.namespace)
	for name, test := range map[string]struct {
		object client.Object
		change func()
	}{
		"Machine":           {m, func() { m.Spec.ClusterName = "d" }},
		"MachineSet":        {set, func() { set.Spec.ClusterName, set.Spec.Template.Spec.ClusterName = "d", "d" }},
		"MachineDeployment": {md, func() { md.Spec.ClusterName, md.Spec.Template.Spec.ClusterName = "d", "d" }},
	} {
		t.Run(name, func(t *testing.T) {
			w.create(test.object)
			before, _ := test.object.DeepCopyObject().(client.Object)
			test.change()
			err := w.client.Patch(t.Context(), test.object, client.MergeFrom(before))
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.clusterName") || !strings.Contains(err.Error(), "immutable") {
				t.Errorf("error is %v, want a refusal that names the field", err)
			}
		})
	}
}

// TestDeletionIsNeverRefused removes the finalizers of deleted objects, which the rules
// of the CRDs must not refuse.
func TestDeletionIsNeverRefused(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	m, set, md := validMachine(w.namespace), validSet(w.namespace), validDeployment(w.namespace)
	c := validCluster(w.namespace)
	c.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	for name, o := range map[string]client.Object{"Machine": m, "MachineSet": set, "MachineDeployment": md, "Cluster": c} {
		t.Run(name, func(t *testing.T) {
			o.SetFinalizers([]string{"test.io/held"})
			w.create(o)
			if err := w.client.Delete(t.Context(), o); err != nil {
				t.Fatalf("the deletion is refused: %v", err)
			}
			if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
				t.Fatal(err)
			}
			before, _ := o.DeepCopyObject().(client.Object)
			o.SetFinalizers(nil)
			if err := w.client.Patch(t.Context(), o, client.MergeFrom(before)); err != nil {
				t.Fatalf("removing the finalizer is refused: %v", err)
			}
			if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
				t.Errorf("it is still there: %v", err)
			}
		})
	}
}

// TestSelectorOfASetIsImmutable: a MachineSet releases the Machines that it no longer selects, and nothing deletes them.
func TestSelectorOfASetIsImmutable(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	set := validSet(w.namespace)
	w.create(set)
	patch := func(labels string) error {
		return w.client.Patch(t.Context(), set.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(
			`{"spec":{"selector":{"matchLabels":{`+labels+`}},"template":{"metadata":{"labels":{`+labels+`}}}}}`)))
	}
	if err := patch(`"pool":"another"`); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "selector is immutable") {
		t.Errorf("another value: %v", err)
	}
	if err := patch(`"more":"x"`); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "selector is immutable") {
		t.Errorf("another label: %v", err)
	}
	if err := w.client.Patch(t.Context(), set.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(
		`{"spec":{"selector":{"matchLabels":{"`+clusterv1.ClusterNameLabel+`":"c"}}}}`))); err != nil {
		t.Errorf("the label that an empty selector stands for: %v", err)
	}
}
