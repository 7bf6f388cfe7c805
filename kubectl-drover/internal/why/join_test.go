// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/api/reason"
	"drover.io/kubectl-drover/internal/object"
	"drover.io/kubectl-drover/internal/object/objecttest"
)

// joining is a Machine whose instance runs and that has no Node.
func joining() *clusterv1.Machine {
	m := machine("m", is(clusterv1.MachineNodeReadyCondition, "Unknown", clusterv1.MachineNodeInspectionFailedReason, ""))
	m.UID = "uid-of-m"
	m.Spec.ProviderID = "sim://m"
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "SimMachine", Name: "i"}
	m.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineExternalIP, Address: "203.0.113.7"}, {Type: clusterv1.MachineInternalIP, Address: "10.0.0.7"}, {Type: clusterv1.MachineInternalDNS, Address: "host.internal"}}
	return m
}

// host is an infrastructure machine with what it has found on the console.
func host(reason string) *infrav1.SimMachine {
	i := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "i"}}
	i.Status.Conditions = []metav1.Condition{is("Ready", "True", infrav1.InstanceRunningReason, ""), is(infrav1.HostJoinedCondition, "False", reason, "")}
	return i
}

func nodeNamed(name, providerID string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID}}
}

// registeredElsewhere is the Node of a joining Machine, whose host has another providerID.
func registeredElsewhere() *corev1.Node {
	node := nodeNamed("m", "k3s://m")
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "m"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.7"}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return node
}

// TestNodeOfItsName has a Node that is not known to be that of the Machine, and a console that shows only the consequence.
func TestNodeOfItsName(t *testing.T) {
	t.Parallel()
	annotated := nodeNamed("m", "sim://other")
	annotated.Annotations = map[string]string{clusterv1.MachineAnnotation: "former"}
	const (
		assign = "kubectl annotate cluster.cluster.x-k8s.io c --namespace n drover.io/assign-provider-ids=true"
		logs   = "kubectl drover logs machine/m --namespace n"
	)
	uninitialized := nodeNamed("m", "")
	uninitialized.Spec.Taints = []corev1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	refuses := func(names ...string) interceptor.Funcs {
		return interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if len(names) == 0 || slices.Contains(names, key.Name) {
				return errors.New("no rule")
			}
			return c.Get(ctx, key, o, options...)
		}}
	}
	without := func(name string) string {
		return "Node " + name + " exists and has no spec.providerID, so it is not known to be that of this Machine"
	}
	for name, test := range map[string]struct {
		workload *object.Reader
		facts    string
		object   string
		command  string
	}{
		"without a providerID, by the name of the Machine": {objecttest.Reader(t, interceptor.Funcs{}, nodeNamed("m", "")), without("m"), "Machine m", assign},
		"without a providerID, by the infrastructure":      {objecttest.Reader(t, interceptor.Funcs{}, nodeNamed("i", "")), without("i"), "Machine m", assign},
		"without a providerID, by an address of the host":  {objecttest.Reader(t, interceptor.Funcs{}, nodeNamed("m", "sim://other"), nodeNamed("host.internal", "")), without("host.internal"), "Machine m", assign},
		"without a providerID, before its initialization":  {objecttest.Reader(t, interceptor.Funcs{}, uninitialized), without("m"), "Machine m", ""},
		"of another instance":                              {objecttest.Reader(t, interceptor.Funcs{}, nodeNamed("m", "sim://other")), `Node "m" exists with spec.providerID "sim://other", which is another instance`, "Machine m", ""},
		"of another Machine":                               {objecttest.Reader(t, interceptor.Funcs{}, annotated), `Node "m" exists with spec.providerID "sim://other", which is another instance. It is that of Machine former`, "Machine m", ""},
		"of its host, under another providerID":            {objecttest.Reader(t, interceptor.Funcs{}, registeredElsewhere()), `Node "m" exists with spec.providerID "k3s://m", and is ready with an address of this Machine`, "Machine m", ""},
		"is not there":                                     {objecttest.Reader(t, interceptor.Funcs{}, nodeNamed("203.0.113.7", "")), "", "SimMachine i", logs},
		"is its own, and the Machine is about to find it":  {objecttest.Reader(t, interceptor.Funcs{}, nodeNamed("m", "sim://m")), "", "SimMachine i", logs},
		"is not known if the workload cluster is not read": {nil, "The workload cluster was not read: refused", "SimMachine i", logs},
		"is not known if Nodes may not be read":            {objecttest.Reader(t, refuses()), "The workload cluster was not read: no rule", "SimMachine i", logs},
		"of another instance, beside one that is not read": {objecttest.Reader(t, refuses("host.internal"), nodeNamed("m", "sim://other")), `Node "m" exists with spec.providerID "sim://other", which is another instance`, "Machine m", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := joining()
			found, err := finder(t, test.workload, m, cluster(), host(infrav1.KubeletNotJoinedReason)).machine(t.Context(), m)
			if err != nil || strings.Join(found.Facts, ". ") != test.facts || found.Object.String() != test.object || found.Command != test.command {
				t.Errorf("got %+v, error %v", found, err)
			}
		})
	}
}

// TestNodeWithoutProviderIDWhereDroverWritesThem: the annotation that would help is there already, or has another value.
func TestNodeWithoutProviderIDWhereDroverWritesThem(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"true":  "",
		"false": "kubectl annotate cluster.cluster.x-k8s.io c --namespace n drover.io/assign-provider-ids=true --overwrite",
	} {
		m, c := joining(), cluster()
		c.Annotations = map[string]string{"drover.io/assign-provider-ids": value}
		found, err := finder(t, objecttest.Reader(t, interceptor.Funcs{}, nodeNamed("m", "")), m, c, host(infrav1.KubeletNotJoinedReason)).machine(t.Context(), m)
		if err != nil || found.Actor != reason.Operator || found.Command != want {
			t.Errorf("%s: got %+v, error %v", value, found, err)
		}
	}
}

// TestNodeOfItsNameWithoutAConsole names what could not be read.
func TestNodeOfItsNameWithoutAConsole(t *testing.T) {
	t.Parallel()
	m := joining()
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{}
	found, err := finder(t, nil, m, cluster()).machine(t.Context(), m)
	if err != nil || strings.Join(found.Facts, "") != "The workload cluster was not read: refused" {
		t.Errorf("got %+v, error %v", found, err)
	}
}

// TestHostBesideTheInfrastructureOfItsCluster names a load balancer that fails, whatever else keeps the host from its Node.
func TestHostBesideTheInfrastructureOfItsCluster(t *testing.T) {
	t.Parallel()
	c := cluster(is(clusterv1.ClusterInfrastructureReadyCondition, "False", "LoadBalancerFailed", "no backend"))
	c.Status.Initialization.InfrastructureProvisioned = new(true)
	const besides = "Besides, the condition InfrastructureReady of Cluster c is False (LoadBalancerFailed): no backend"
	for name, workload := range map[string]*object.Reader{
		"with a Node of its name": objecttest.Reader(t, interceptor.Funcs{}, nodeNamed("m", "sim://other")),
		"without one":             objecttest.Reader(t, interceptor.Funcs{}),
		"where that is not known": nil,
	} {
		m := joining()
		found, err := finder(t, workload, m, c.DeepCopy(), host(infrav1.KubeletNotJoinedReason)).machine(t.Context(), m)
		if err != nil || len(found.Facts) == 0 || found.Facts[len(found.Facts)-1] != besides {
			t.Errorf("%s: got %+v, error %v", name, found, err)
		}
	}
}

// TestRefusedCertificate has events of the Machine and of others, of which the newest warning counts.
func TestRefusedCertificate(t *testing.T) {
	t.Parallel()
	event := func(name, reason, kind, message string, before time.Duration) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, CreationTimestamp: ago(before)}, Reason: reason, Type: kind, Message: message,
			InvolvedObject: corev1.ObjectReference{UID: "uid-of-m"},
		}
	}
	other := event("d", refusedEvent, corev1.EventTypeWarning, "of another Machine", time.Second)
	other.InvolvedObject.UID = "uid-of-another"
	m := joining()
	f := finder(t, objecttest.Reader(t, interceptor.Funcs{}), m, cluster(), host(infrav1.BootstrapNotStartedReason), other,
		event("a", refusedEvent, corev1.EventTypeWarning, "the first", time.Hour), event("b", refusedEvent, corev1.EventTypeWarning, "the Machine does not have the address 10.9.0.99", time.Minute),
		event("c", "InstanceRunning", corev1.EventTypeNormal, "instance runs", time.Second))
	found, err := f.machine(t.Context(), m)
	if err != nil || strings.Join(found.Facts, "") != "Its host may not register: the Machine does not have the address 10.9.0.99" ||
		found.Actor != reason.Operator || found.Command != "kubectl events --for machine.cluster.x-k8s.io/m --namespace n" {
		t.Errorf("got %+v, error %v", found, err)
	}
}

// TestObjectThatCannotBeCreated has a MachineSet that has tried to create what the condition of its Machine misses.
func TestObjectThatCannotBeCreated(t *testing.T) {
	t.Parallel()
	const quotaUsed = `creating SimMachine "i": simmachines "i" is forbidden: exceeded quota: few, requested: 1, used: 1, limited: 1`
	for name, test := range map[string]struct {
		message string
		set     string
		object  string
		command string
	}{
		"by a quota":                  {quotaUsed, "set", "MachineSet set", "kubectl describe resourcequota --namespace n"},
		"by a policy":                 {`creating SimMachine "i": denied by policy`, "set", "MachineSet set", ""},
		"for another Machine":         {`creating SimMachine "i2": denied by policy`, "set", "Machine m", ""},
		"with nothing from the owner": {"", "set", "Machine m", ""},
		"with an owner that is gone":  {quotaUsed, "another", "Machine m", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := machine("m", is(clusterv1.MachineInfrastructureReadyCondition, "False", clusterv1.ObjectDoesNotExistReason, `SimMachine "i" does not exist`))
			m.Spec.InfrastructureRef = joining().Spec.InfrastructureRef
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "set", Controller: new(true)}}
			set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: test.set}}
			set.Status.Conditions = []metav1.Condition{is(clusterv1.ScalingUpCondition, "False", clusterv1.NotScalingUpReason, test.message)}
			found, err := finder(t, nil, m, set, cluster()).machine(t.Context(), m)
			if err != nil || found.Object.String() != test.object || found.Command != test.command {
				t.Errorf("got %+v, error %v", found, err)
			}
		})
	}
}

// TestHostThatTakesTooLong is no progress any more, and a console that cannot be read is no cause.
func TestHostThatTakesTooLong(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		condition, reason string
		waited            time.Duration
		actor             reason.Actor
	}{
		"boots":                        {clusterv1.MachineNodeReadyCondition, clusterv1.MachineNodeInspectionFailedReason, 29 * time.Minute, reason.Drover},
		"does not join":                {clusterv1.MachineNodeReadyCondition, clusterv1.MachineNodeInspectionFailedReason, 31 * time.Minute, reason.Operator},
		"is created":                   {clusterv1.MachineInfrastructureReadyCondition, infrav1.InstancePendingReason, 29 * time.Minute, reason.Drover},
		"is not finished in the cloud": {clusterv1.MachineInfrastructureReadyCondition, infrav1.InstancePendingReason, 31 * time.Minute, reason.CloudOwner},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := joining()
			m.Status.Conditions = []metav1.Condition{is(test.condition, "Unknown", test.reason, "")}
			m.Status.Conditions[0].LastTransitionTime = ago(test.waited)
			i := host(infrav1.ConsoleUnavailableReason)
			found, err := finder(t, nil, m, i, cluster()).machine(t.Context(), m)
			if err != nil || found.Object.String() != "Machine m" || found.Actor != test.actor {
				t.Errorf("got %+v, error %v", found, err)
			}
			unread := strings.Contains(strings.Join(found.Facts, "|"), "Its console cannot be read")
			if unread != (test.reason == clusterv1.MachineNodeInspectionFailedReason) {
				t.Errorf("facts: %q", found.Facts)
			}
		})
	}
}

// TestBootstrapThatIsRepeated is no progress after half an hour, unless the instance has not run for as long, or the Machine is to be
// replaced for less.
func TestBootstrapThatIsRepeated(t *testing.T) {
	t.Parallel()
	instance := is(clusterv1.MachineInfrastructureReadyCondition, "True", infrav1.InstanceRunningReason, "")
	instance.LastTransitionTime = ago(29 * time.Minute)
	replaced := is(clusterv1.MachineOwnerRemediatedCondition, "False", clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, "")
	justNow := replaced
	justNow.LastTransitionTime = ago(29 * time.Minute)
	for name, test := range map[string]struct {
		reason string
		more   []metav1.Condition
		actor  reason.Actor
	}{
		"for an hour":                            {infrav1.BootstrapRunningReason, nil, reason.Operator},
		"of an instance that runs for less":      {infrav1.JoinedReason, []metav1.Condition{instance}, reason.Drover},
		"of a Machine that will be replaced":     {infrav1.JoinedReason, []metav1.Condition{justNow}, reason.Drover},
		"of one whose replacement does not come": {infrav1.JoinedReason, []metav1.Condition{replaced}, reason.Operator},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, i := joining(), host(test.reason)
			m.Status.Conditions = append(m.Status.Conditions, test.more...)
			if test.reason == infrav1.JoinedReason {
				i.Status.Conditions = nil
			}
			found, err := finder(t, nil, m, i, cluster()).machine(t.Context(), m)
			if err != nil || found.Actor != test.actor || test.actor == reason.Operator && found.Help == "" {
				t.Errorf("got %+v, error %v", found, err)
			}
		})
	}
}

// TestInfraMachineThatTakesTooLong is asked about itself.
func TestInfraMachineThatTakesTooLong(t *testing.T) {
	t.Parallel()
	for waited, actor := range map[time.Duration]reason.Actor{29 * time.Minute: reason.Drover, 31 * time.Minute: reason.CloudOwner} {
		i := host(infrav1.ConsoleUnavailableReason)
		i.Status.Conditions = []metav1.Condition{is(clusterv1.ReadyCondition, "False", infrav1.InstancePendingReason, "")}
		i.Status.Conditions[0].LastTransitionTime = ago(waited)
		kind := object.Kind{GroupVersionKind: infrav1.GroupVersion.WithKind("SimMachine"), Resource: "simmachines"}
		answer, err := finder(t, nil, i).Answer(t.Context(), kind, key("i"))
		if err != nil || answer.Finding == nil || answer.Finding.Actor != actor {
			t.Errorf("after %s: got %+v, error %v", waited, answer.Finding, err)
		}
	}
}
