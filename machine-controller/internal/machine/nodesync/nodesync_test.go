// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nodesync

import (
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
)

// synced is a machine with a Node on which the sync has only the changes of the test to apply.
func synced(change func(*clusterv1.Machine, *corev1.Node)) State {
	m := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"},
		Spec:       clusterv1.MachineSpec{ClusterName: "c"},
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	change(m, n)
	return State{Machine: m, Node: n}
}

// bookkeeping are the annotations of every synced Node, with the changes of the test.
func bookkeeping(changes map[string]string) map[string]string {
	all := map[string]string{
		clusterv1.ClusterNameAnnotation:            "c",
		clusterv1.ClusterNamespaceAnnotation:       "ns",
		clusterv1.MachineAnnotation:                "m",
		clusterv1.LabelsFromMachineAnnotation:      "",
		clusterv1.AnnotationsFromMachineAnnotation: "",
		clusterv1.TaintsFromMachineAnnotation:      "",
	}
	for key, value := range changes {
		all[key] = value
	}
	return all
}

func TestDesiredLabels(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sync    Sync
		machine map[string]string
		node    map[string]string
		before  string
		want    map[string]string
		owned   string
	}{
		"carries the managed domains and their subdomains": {
			machine: map[string]string{
				"node-role.kubernetes.io/worker": "", "node-restriction.kubernetes.io/a": "1", "x.node-restriction.kubernetes.io/b": "2",
				"node.cluster.x-k8s.io/c": "3", "x.node.cluster.x-k8s.io/d": "4",
			},
			want: map[string]string{
				"node-role.kubernetes.io/worker": "", "node-restriction.kubernetes.io/a": "1", "x.node-restriction.kubernetes.io/b": "2",
				"node.cluster.x-k8s.io/c": "3", "x.node.cluster.x-k8s.io/d": "4",
			},
			owned: "node-restriction.kubernetes.io/a,node-role.kubernetes.io/worker,node.cluster.x-k8s.io/c," +
				"x.node-restriction.kubernetes.io/b,x.node.cluster.x-k8s.io/d",
		},
		"leaves every other domain, also one that only looks alike": {
			machine: map[string]string{"team": "a", "example.com/x": "1", "evilnode.cluster.x-k8s.io/c": "1", "node.cluster.x-k8s.io": "no prefix", "x.node-role.kubernetes.io/y": ""},
			want:    map[string]string{},
		},
		"carries what the expressions match": {
			sync:    Sync{Labels: []*regexp.Regexp{regexp.MustCompile(`^example\.com/`), regexp.MustCompile(`^team$`)}},
			machine: map[string]string{"team": "a", "example.com/x": "1", "teams": "b"},
			want:    map[string]string{"team": "a", "example.com/x": "1"},
			owned:   "example.com/x,team",
		},
		"takes back what the machine no longer has": {
			machine: map[string]string{"node.cluster.x-k8s.io/kept": "1"},
			node:    map[string]string{"node.cluster.x-k8s.io/kept": "0", "node.cluster.x-k8s.io/gone": "1", "node.cluster.x-k8s.io/other": "1"},
			before:  "node.cluster.x-k8s.io/gone,node.cluster.x-k8s.io/kept",
			want:    map[string]string{"node.cluster.x-k8s.io/kept": "1", "node.cluster.x-k8s.io/other": "1"},
			owned:   "node.cluster.x-k8s.io/kept",
		},
		"takes back what the expressions no longer match": {
			machine: map[string]string{"team": "a"},
			node:    map[string]string{"team": "a", "kubernetes.io/os": "linux"},
			before:  "team",
			want:    map[string]string{"kubernetes.io/os": "linux"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := synced(func(m *clusterv1.Machine, n *corev1.Node) {
				m.Labels, n.Labels = test.machine, test.node
				if test.before != "" {
					n.Annotations = map[string]string{clusterv1.LabelsFromMachineAnnotation: test.before}
				}
			})
			got := test.sync.desired(s.Node, s)
			if diff := cmp.Diff(test.want, got.Labels); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(bookkeeping(map[string]string{clusterv1.LabelsFromMachineAnnotation: test.owned}), got.Annotations); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDesiredAnnotations(t *testing.T) {
	t.Parallel()
	const mine, gone, other = "node.cluster.x-k8s.io/mine", "node.cluster.x-k8s.io/gone", "example.com/other"
	s := synced(func(m *clusterv1.Machine, n *corev1.Node) {
		m.Annotations = map[string]string{mine: "1", other: "1", "private": "1"}
		m.OwnerReferences = []metav1.OwnerReference{{Kind: "MachineSet", Name: "s", Controller: new(true)}}
		n.Annotations = map[string]string{gone: "1", "kubelet": "1", clusterv1.AnnotationsFromMachineAnnotation: gone}
	})
	sync := Sync{Annotations: []*regexp.Regexp{regexp.MustCompile("^example.com/")}}
	want := bookkeeping(map[string]string{
		mine: "1", other: "1", "kubelet": "1",
		clusterv1.AnnotationsFromMachineAnnotation: other + "," + mine,
		clusterv1.OwnerKindAnnotation:              "MachineSet",
		clusterv1.OwnerNameAnnotation:              "s",
	})
	s.Node = sync.desired(s.Node, s)
	if diff := cmp.Diff(want, s.Node.Annotations); diff != "" {
		t.Error(diff)
	}
	s.Machine.OwnerReferences = nil
	delete(want, clusterv1.OwnerKindAnnotation)
	delete(want, clusterv1.OwnerNameAnnotation)
	if diff := cmp.Diff(want, sync.desired(s.Node, s).Annotations); diff != "" {
		t.Errorf("after the Machine lost its owner: %s", diff)
	}
}

// taint is key, value and effect NoSchedule.
func taint(key, value string) corev1.Taint {
	return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectNoSchedule}
}

func machineTaint(key, value string, propagation clusterv1.MachineTaintPropagation) clusterv1.MachineTaint {
	return clusterv1.MachineTaint{Key: key, Value: value, Effect: corev1.TaintEffectNoSchedule, Propagation: propagation}
}

func TestDesiredTaints(t *testing.T) {
	t.Parallel()
	const always, once = clusterv1.MachineTaintPropagationAlways, clusterv1.MachineTaintPropagationOnInitialization
	done := func(owned string) *string { return &owned }
	for name, test := range map[string]struct {
		machine []clusterv1.MachineTaint
		node    []corev1.Taint
		before  *string // nil on a Node never synced
		want    []corev1.Taint
		owned   string
	}{
		"takes the taint of a Node that was never synced away": {
			node: []corev1.Taint{taint("other", ""), clusterv1.NodeUninitializedTaint},
			want: []corev1.Taint{taint("other", "")},
		},
		"puts both kinds on a Node at its first sync": {
			machine: []clusterv1.MachineTaint{machineTaint("a", "1", always), machineTaint("o", "1", once)},
			node:    []corev1.Taint{clusterv1.NodeUninitializedTaint},
			want:    []corev1.Taint{taint("a", "1"), taint("o", "1")},
			owned:   "a:NoSchedule",
		},
		"puts both kinds on a Node that registered without the taint": {
			machine: []clusterv1.MachineTaint{machineTaint("a", "1", always), machineTaint("o", "1", once)},
			want:    []corev1.Taint{taint("a", "1"), taint("o", "1")},
			owned:   "a:NoSchedule",
		},
		"puts only the permanent kind back later": {
			machine: []clusterv1.MachineTaint{machineTaint("a", "1", always), machineTaint("o", "1", once)},
			before:  done("a:NoSchedule"),
			want:    []corev1.Taint{taint("a", "1")},
			owned:   "a:NoSchedule",
		},
		"does not put an initial taint on after a first sync without any": {
			machine: []clusterv1.MachineTaint{machineTaint("o", "1", once)},
			before:  done(""),
		},
		"changes the value of its own": {
			machine: []clusterv1.MachineTaint{machineTaint("a", "2", always)},
			node:    []corev1.Taint{taint("a", "1"), taint("other", "1")},
			before:  done("a:NoSchedule"),
			want:    []corev1.Taint{taint("a", "2"), taint("other", "1")},
			owned:   "a:NoSchedule",
		},
		"takes its own back and leaves others": {
			node:   []corev1.Taint{taint("a", "1"), taint("other", "1")},
			before: done("a:NoSchedule"),
			want:   []corev1.Taint{taint("other", "1")},
		},
		"distinguishes effects": {
			machine: []clusterv1.MachineTaint{{Key: "a", Effect: corev1.TaintEffectNoExecute, Propagation: always}},
			node:    []corev1.Taint{taint("a", "")},
			before:  done("a:NoSchedule"),
			want:    []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoExecute}},
			owned:   "a:NoExecute",
		},
		"stops managing a taint that became an initial one without removing it": {
			machine: []clusterv1.MachineTaint{machineTaint("a", "1", once)},
			node:    []corev1.Taint{taint("a", "1")},
			before:  done("a:NoSchedule"),
			want:    []corev1.Taint{taint("a", "1")},
		},
		"does not put on what follows from the state": {
			machine: []clusterv1.MachineTaint{
				machineTaint(clusterv1.NodeUninitializedTaint.Key, "", always), machineTaint(clusterv1.NodeOutdatedRevisionTaint.Key, "", once),
			},
			node: []corev1.Taint{clusterv1.NodeUninitializedTaint},
		},
		"removes the taint of an outdated revision": {
			node:   []corev1.Taint{clusterv1.NodeOutdatedRevisionTaint, taint("other", "")},
			before: done(""),
			want:   []corev1.Taint{taint("other", "")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := synced(func(m *clusterv1.Machine, n *corev1.Node) {
				m.Spec.Taints, n.Spec.Taints = test.machine, test.node
				if test.before != nil {
					n.Annotations = map[string]string{clusterv1.TaintsFromMachineAnnotation: *test.before}
					m.Annotations = map[string]string{droverpolicyv1.RestrictedOnNodeAnnotation: *test.before}
				}
			})
			given := s.Node.DeepCopy()
			got := Sync{}.desired(s.Node, s)
			if diff := cmp.Diff(test.want, got.Spec.Taints, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(bookkeeping(map[string]string{clusterv1.TaintsFromMachineAnnotation: test.owned}), got.Annotations); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(given, s.Node); diff != "" {
				t.Errorf("the cached Node was changed: %s", diff)
			}
			s.Node = got
			if diff := cmp.Diff(got, (Sync{}).desired(got, s)); diff != "" {
				t.Errorf("a second reconcile changes more: %s", diff)
			}
		})
	}
}

func TestOutdatedRevision(t *testing.T) {
	t.Parallel()
	at := func(revision string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Annotations: map[string]string{clusterv1.RevisionAnnotation: revision}}
	}
	for name, test := range map[string]struct {
		set        *clusterv1.MachineSet
		deployment *clusterv1.MachineDeployment
		want       bool
	}{
		"marks a Node of a superseded MachineSet":       {&clusterv1.MachineSet{ObjectMeta: at("1")}, &clusterv1.MachineDeployment{ObjectMeta: at("2")}, true},
		"does not mark one of the current MachineSet":   {&clusterv1.MachineSet{ObjectMeta: at("2")}, &clusterv1.MachineDeployment{ObjectMeta: at("2")}, false},
		"compares numbers":                              {&clusterv1.MachineSet{ObjectMeta: at("9")}, &clusterv1.MachineDeployment{ObjectMeta: at("10")}, true},
		"does not mark one without a MachineDeployment": {&clusterv1.MachineSet{ObjectMeta: at("1")}, nil, false},
		"does not mark a stand-alone one":               {nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := synced(func(*clusterv1.Machine, *corev1.Node) {})
			s.MachineSet, s.Deployment = test.set, test.deployment
			got := Sync{}.desired(s.Node, s)
			if has := slices.Contains(got.Spec.Taints, clusterv1.NodeOutdatedRevisionTaint); has != test.want {
				t.Errorf("outdated is %t, want %t", has, test.want)
			}
		})
	}
}

func TestInterruptible(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reported *bool
		had      bool
		want     bool
	}{
		"labels the Node of a spot machine":                   {new(true), false, true},
		"takes the label back when it is no spot machine":     {new(false), true, false},
		"keeps the label while the InfraMachine is not known": {nil, true, true},
		"adds no label while the InfraMachine is not known":   {nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := synced(func(_ *clusterv1.Machine, n *corev1.Node) {
				if test.had {
					n.Labels = map[string]string{clusterv1.InterruptibleLabel: ""}
					n.Annotations = map[string]string{clusterv1.LabelsFromMachineAnnotation: clusterv1.InterruptibleLabel}
				}
			})
			s.Interruptible = test.reported
			got := Sync{}.desired(s.Node, s)
			if _, has := got.Labels[clusterv1.InterruptibleLabel]; has != test.want {
				t.Errorf("interruptible is %t, want %t", has, test.want)
			}
		})
	}
}

// TestWhatAKubeletClaimsIsNotTakenOff has root on a worker that claims, in annotations of its own Node, that what keeps it
// in quarantine came from the Machine. NodeRestriction allows a kubelet to change neither.
func TestWhatAKubeletClaimsIsNotTakenOff(t *testing.T) {
	t.Parallel()
	const label, own = "node-restriction.kubernetes.io/quarantine", "node-restriction.kubernetes.io/pool"
	quarantine, pool := corev1.Taint{Key: "quarantine", Effect: corev1.TaintEffectNoExecute}, corev1.Taint{Key: "pool", Effect: corev1.TaintEffectNoSchedule}
	s := synced(func(m *clusterv1.Machine, n *corev1.Node) {
		m.Labels, m.Spec.Taints = map[string]string{own: "a"}, []clusterv1.MachineTaint{{Key: pool.Key, Effect: pool.Effect}}
		n.Labels, n.Spec.Taints = map[string]string{label: "true"}, []corev1.Taint{quarantine}
		n.Annotations = map[string]string{
			clusterv1.LabelsFromMachineAnnotation: label, clusterv1.TaintsFromMachineAnnotation: "quarantine:NoExecute",
		}
	})
	sync := Sync{}
	sync.RecordRestricted(s.Machine)
	if listed := s.Machine.Annotations[droverpolicyv1.RestrictedOnNodeAnnotation]; listed != own+",pool:NoSchedule" || sync.IsPersisted(s.Machine, nil) {
		t.Errorf("the Machine lists %q, and it is on record before it is written", listed)
	}
	if !sync.IsPersisted(s.Machine, Recorded(s.Machine)) {
		t.Error("what was written is not on record")
	}
	node := sync.desired(s.Node, s)
	if diff := cmp.Diff(map[string]string{label: "true", own: "a"}, node.Labels); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]corev1.Taint{quarantine, pool}, node.Spec.Taints); diff != "" {
		t.Error(diff)
	}

	// What is its own is removed, and no longer recorded.
	s.Machine.Labels, s.Machine.Spec.Taints, s.Node = nil, nil, node
	sync.RecordRestricted(s.Machine)
	node = sync.desired(node, s)
	if diff := cmp.Diff(map[string]string{label: "true"}, node.Labels); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]corev1.Taint{quarantine}, node.Spec.Taints); diff != "" {
		t.Error(diff)
	}
	sync.TrimRecord(s.Machine)
	if _, found := s.Machine.Annotations[droverpolicyv1.RestrictedOnNodeAnnotation]; found {
		t.Error("it is still recorded")
	}
}
