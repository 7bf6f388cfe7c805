// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestMachineName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 63)
	for name, test := range map[string]struct {
		set, template string
		want          string // a regular expression; none is an error
	}{
		"is the set's and something random":          {"workers", "", `^workers-[a-z0-9]{5}$`},
		"knows cluster, set and random":              {"workers", "{{ .cluster.name }}.{{ .machineSet.name }}.{{ .random }}", `^c\.workers\.[a-z0-9]{5}$`},
		"need not be random":                         {"workers", "pet", `^pet$`},
		"fits where it just fits":                    {"w", strings.Repeat("a", 63), `^a{63}$`},
		"is cut and keeps a random end":              {long, "", `^x{58}[a-z0-9]{5}$`},
		"is cut also when random was in front":       {long, "{{ .random }}-{{ .machineSet.name }}", `^[a-z0-9]{5}-x{52}[a-z0-9]{5}$`},
		"cannot be made from a template that is bad": {"workers", "{{ .machineSet.name", ``},
		"cannot name what does not exist":            {"workers", "{{ .machineSet.nam }}", ``},
		"cannot call what does not exist":            {"workers", "{{ upper .random }}", ``},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: test.set}, Spec: clusterv1.MachineSetSpec{ClusterName: "c"}}
			set.Spec.MachineNaming.Template = test.template
			got, err := machineName(set)
			if test.want == "" {
				if err == nil {
					t.Fatalf("no error but the name %q", got)
				}
				if !strings.Contains(err.Error(), "spec.machineNaming.template") {
					t.Errorf("the error does not name the field: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !regexp.MustCompile(test.want).MatchString(got) {
				t.Errorf("name is %q, want %s", got, test.want)
			}
		})
	}
}

func TestMachineNamesDiffer(t *testing.T) {
	t.Parallel()
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("x", 100)}}
	seen := map[string]bool{}
	for range 100 {
		name, err := machineName(set)
		if err != nil {
			t.Fatal(err)
		}
		seen[name] = true
	}
	if len(seen) < 99 { // 5 of 27 letters collide once in a thousand such runs
		t.Errorf("only %d names of 100 differ", len(seen))
	}
}
