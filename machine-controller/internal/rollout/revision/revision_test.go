// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func template(change ...func(*clusterv1.MachineTemplateSpec)) clusterv1.MachineTemplateSpec {
	t := clusterv1.MachineTemplateSpec{Spec: clusterv1.MachineSpec{
		ClusterName:       "c",
		Version:           "v1.35.0",
		FailureDomain:     "fsn1",
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.drover.io", Kind: "HetznerMachineTemplate", Name: "cx22"},
		Bootstrap:         clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.drover.io", Kind: "BootstrapConfigTemplate", Name: "ubuntu"}},
	}}
	for _, f := range change {
		f(&t)
	}
	return t
}

func version(v string) func(*clusterv1.MachineTemplateSpec) {
	return func(t *clusterv1.MachineTemplateSpec) { t.Spec.Version = v }
}

func deployment() *clusterv1.MachineDeployment {
	md := &clusterv1.MachineDeployment{}
	md.Name, md.UID = "workers", "md-uid"
	md.Spec.Replicas = new(int32(3))
	md.Spec.Template = template()
	return md
}

// machineSet is a MachineSet that is age hours old at noon.
func machineSet(name string, age int, replicas int32, change ...func(*clusterv1.MachineTemplateSpec)) *clusterv1.MachineSet {
	ms := &clusterv1.MachineSet{}
	ms.Name, ms.UID = name, types.UID("uid-"+name)
	ms.CreationTimestamp = metav1.NewTime(noon.Add(-time.Duration(age) * time.Hour))
	ms.Spec.Replicas = &replicas
	ms.Spec.Template = template(change...)
	return ms
}

func TestEqualTemplate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*clusterv1.MachineTemplateSpec)
		diffs  []string
	}{
		"it detects the version": {
			change: version("v1.34.0"),
			diffs:  []string{`spec.version is "v1.34.0", want "v1.35.0"`},
		},
		"it takes a version without its prefix for the same": {change: version("1.35.0")},
		"it detects the failure domain": {
			change: func(t *clusterv1.MachineTemplateSpec) { t.Spec.FailureDomain = "" },
			diffs:  []string{`spec.failureDomain is "", want "fsn1"`},
		},
		"it detects another bootstrap template": {
			change: func(t *clusterv1.MachineTemplateSpec) { t.Spec.Bootstrap.ConfigRef.Name = "flatcar" },
			diffs:  []string{`spec.bootstrap.configRef is "BootstrapConfigTemplate.bootstrap.drover.io/flatcar", want "BootstrapConfigTemplate.bootstrap.drover.io/ubuntu"`},
		},
		"it detects a secret in place of a bootstrap template": {
			change: func(t *clusterv1.MachineTemplateSpec) {
				t.Spec.Bootstrap = clusterv1.Bootstrap{DataSecretName: new("data")}
			},
			diffs: []string{
				`spec.bootstrap.configRef is "", want "BootstrapConfigTemplate.bootstrap.drover.io/ubuntu"`,
				`spec.bootstrap.dataSecretName is "data", want ""`,
			},
		},
		"it detects another group of infrastructure": {
			change: func(t *clusterv1.MachineTemplateSpec) { t.Spec.InfrastructureRef.APIGroup = "other.io" },
			diffs:  []string{`spec.infrastructureRef is "HetznerMachineTemplate.other.io/cx22", want "HetznerMachineTemplate.infrastructure.drover.io/cx22"`},
		},
		"it ignores what is propagated in place": {
			change: func(t *clusterv1.MachineTemplateSpec) {
				t.Labels = map[string]string{clusterv1.MachineDeploymentUniqueLabel: "123-abc", "a": "b"}
				t.Annotations = map[string]string{"a": "b"}
				t.Spec.ReadinessGates = []clusterv1.MachineReadinessGate{{ConditionType: "X"}}
				t.Spec.MinReadySeconds = new(int32(5))
				t.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(5))
				t.Spec.Deletion.NodeVolumeDetachTimeoutSeconds = new(int32(5))
				t.Spec.Deletion.NodeDeletionTimeoutSeconds = new(int32(5))
				t.Spec.Taints = []clusterv1.MachineTaint{{Key: "k", Effect: "NoSchedule"}}
				t.Spec.ProviderID = "x://y"
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			have, want := template(test.change), template()
			equal, diffs := EqualTemplate(&have, &want)
			if diff := cmp.Diff(test.diffs, diffs); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
			if equal != (len(test.diffs) == 0) {
				t.Errorf("equal is %t", equal)
			}
		})
	}
}

func TestFindCurrent(t *testing.T) {
	t.Parallel()
	after := func(hours int) metav1.Time { return metav1.NewTime(noon.Add(time.Duration(hours) * time.Hour)) }
	revision := func(ms *clusterv1.MachineSet, n string) *clusterv1.MachineSet {
		ms.Annotations = map[string]string{clusterv1.RevisionAnnotation: n}
		return ms
	}
	for name, test := range map[string]struct {
		after metav1.Time
		sets  []*clusterv1.MachineSet
		want  string
		olds  []string
	}{
		"it finds nothing among others": {
			sets: []*clusterv1.MachineSet{machineSet("b", 1, 3, version("v1")), machineSet("a", 2, 3, version("v2"))},
			olds: []string{"a", "b"},
		},
		"it goes back to an old set of the wanted template": {
			sets: []*clusterv1.MachineSet{machineSet("b", 1, 3, version("v1")), machineSet("a", 2, 0)},
			want: "a", olds: []string{"b"},
		},
		"it keeps Machines: the set that has most is current": {
			sets: []*clusterv1.MachineSet{machineSet("a", 3, 0), machineSet("b", 2, 3), machineSet("c", 1, 1)},
			want: "b", olds: []string{"a", "c"},
		},
		"it takes the latest revision of equal ones": {
			sets: []*clusterv1.MachineSet{revision(machineSet("a", 3, 0), "9"), revision(machineSet("b", 2, 0), "10")},
			want: "b", olds: []string{"a"},
		},
		"it takes the oldest of sets without a revision": {
			sets: []*clusterv1.MachineSet{machineSet("a", 1, 3), machineSet("c", 2, 3), machineSet("b", 2, 3)},
			want: "b", olds: []string{"c", "a"},
		},
		"it takes no set that is being deleted": {
			sets: []*clusterv1.MachineSet{func() *clusterv1.MachineSet {
				ms := machineSet("a", 1, 3)
				ms.DeletionTimestamp = new(after(0))
				return ms
			}()},
			olds: []string{"a"},
		},
		"it waits for rollout.after": {
			after: after(1), sets: []*clusterv1.MachineSet{machineSet("a", 5, 3)}, want: "a",
		},
		"it takes no set from before rollout.after once that has passed": {
			after: after(-1), sets: []*clusterv1.MachineSet{machineSet("a", 5, 3)}, olds: []string{"a"},
		},
		"it takes a set from rollout.after itself": {
			after: after(-1), sets: []*clusterv1.MachineSet{machineSet("a", 5, 3), machineSet("b", 1, 1)}, want: "b", olds: []string{"a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := deployment()
			md.Spec.Rollout.After = test.after
			current, olds := FindNewMachineSet(md, test.sets, noon)
			got, rest := "", []string(nil)
			if current != nil {
				got = current.Name
			}
			for _, ms := range olds {
				rest = append(rest, ms.Name)
			}
			if diff := cmp.Diff([]any{test.want, test.olds}, []any{got, rest}); diff != "" {
				t.Errorf("current and old sets (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFindCurrentWithSkewedClocks(t *testing.T) {
	t.Parallel()
	md := deployment()
	md.Spec.Rollout.After = metav1.NewTime(noon)
	// Created for rollout.after by an API server whose clock is behind.
	ms := machineSet("a", 1, 3)
	ms.Labels = map[string]string{clusterv1.MachineDeploymentUniqueLabel: NewMachineSetName(md, noon, 2).Hash}
	if current, _ := FindNewMachineSet(md, []*clusterv1.MachineSet{ms}, noon); current != ms {
		t.Error("the set that was created for rollout.after is not current")
	}
	ms.Spec.Template.Spec.Version = "v1.0.0"
	if current, _ := FindNewMachineSet(md, []*clusterv1.MachineSet{ms}, noon); current != nil {
		t.Error("the label alone made a set of another template current")
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	at := func(revision string) *clusterv1.MachineSet {
		ms := &clusterv1.MachineSet{}
		ms.Annotations = map[string]string{clusterv1.RevisionAnnotation: revision}
		return ms
	}
	for name, test := range map[string]struct {
		current *clusterv1.MachineSet
		olds    []*clusterv1.MachineSet
		want    int64
	}{
		"it starts with one":                     {want: 1},
		"it exceeds all others":                  {olds: []*clusterv1.MachineSet{at("9"), at("10")}, want: 11},
		"it raises a set that is current again":  {current: at("3"), olds: []*clusterv1.MachineSet{at("7")}, want: 8},
		"it never goes down":                     {current: at("8"), olds: []*clusterv1.MachineSet{at("2")}, want: 8},
		"it ignores annotations that are broken": {current: at("x"), olds: []*clusterv1.MachineSet{at("?"), {}}, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, Next(test.current, test.olds)); diff != "" {
				t.Errorf("revision (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewest(t *testing.T) {
	t.Parallel()
	at := func(name string, age int, revision string) *clusterv1.MachineSet {
		ms := machineSet(name, age, 0)
		ms.Annotations = map[string]string{clusterv1.RevisionAnnotation: revision}
		return ms
	}
	deleted := at("deleted", 1, "11")
	deleted.DeletionTimestamp = new(metav1.NewTime(noon))
	for name, test := range map[string]struct {
		sets []*clusterv1.MachineSet
		want string
	}{
		"it is none of none":             {},
		"it compares numbers":            {sets: []*clusterv1.MachineSet{at("a", 1, "9"), at("b", 2, "10")}, want: "b"},
		"it leaves out deleted ones":     {sets: []*clusterv1.MachineSet{at("a", 2, "9"), deleted}, want: "a"},
		"it is one of those without any": {sets: []*clusterv1.MachineSet{at("a", 1, ""), at("b", 2, ""), at("c", 2, "")}, want: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if newest := Newest(test.sets); newest != nil {
				got = newest.Name
			}
			if got != test.want {
				t.Errorf("the newest is %q, want %q", got, test.want)
			}
		})
	}
}

func TestNewMachineSetName(t *testing.T) {
	t.Parallel()
	md := deployment()
	first := NewMachineSetName(md, noon, 0)
	// The format is part of what is stored in clusters.
	if diff := cmp.Diff(MachineSetName{Name: "workers-" + first.Hash, Hash: first.Hash}, first); diff != "" {
		t.Errorf("name (-want +got):\n%s", diff)
	}
	same := func(name string, change func(*clusterv1.MachineDeployment), now time.Time, want bool) {
		other := md.DeepCopy()
		change(other)
		if got := NewMachineSetName(other, now, 0) == first; got != want {
			t.Errorf("%s: same name is %t, want %t", name, got, want)
		}
	}
	same("later", func(*clusterv1.MachineDeployment) {}, noon.Add(time.Hour), true)
	same("other labels", func(m *clusterv1.MachineDeployment) { m.Spec.Template.Labels = map[string]string{"a": "b"} }, noon, true)
	same("other version", func(m *clusterv1.MachineDeployment) { m.Spec.Template.Spec.Version = "v2" }, noon, false)
	same("recreated deployment", func(m *clusterv1.MachineDeployment) { m.UID = "other" }, noon, false)
	same("after in the future", func(m *clusterv1.MachineDeployment) { m.Spec.Rollout.After = metav1.NewTime(noon.Add(1)) }, noon, true)
	same("after has passed", func(m *clusterv1.MachineDeployment) { m.Spec.Rollout.After = metav1.NewTime(noon) }, noon, false)

	if second := NewMachineSetName(md, noon, 1); second.Name == first.Name || second.Hash == first.Hash {
		t.Errorf("second attempt %+v repeats the first %+v", second, first)
	}
	md.Name = strings.Repeat("long.name-", 25)
	for attempt := range 12 {
		name := NewMachineSetName(md, noon, attempt)
		if errs := validation.IsDNS1123Subdomain(name.Name); len(errs) > 0 || len(name.Name) > 63 {
			t.Errorf("name %q is bad: %v", name.Name, errs)
		}
		if errs := validation.IsValidLabelValue(name.Hash); len(errs) > 0 {
			t.Errorf("label %q is bad: %v", name.Hash, errs)
		}
	}
}
