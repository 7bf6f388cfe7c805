// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinename

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
		"replaces cluster, set and random":           {"workers", "{{ .cluster.name }}.{{ .machineSet.name }}.{{ .random }}", `^c\.workers\.[a-z0-9]{5}$`},
		"takes any space around a placeholder":       {"workers", "{{.machineSet.name}}-{{	.random }}", `^workers-[a-z0-9]{5}$`},
		"takes the random part more than once":       {"w", "{{ .random }}.{{ .random }}", `^([a-z0-9]{5})\.[a-z0-9]{5}$`},
		"is cut and keeps a random end":              {long, "", `^x{58}[a-z0-9]{5}$`},
		"fits where it just fits":                    {"w", strings.Repeat("a", 58) + "{{ .random }}", `^a{58}[a-z0-9]{5}$`},
		"is cut also when random was in front":       {long, "{{ .random }}-{{ .machineSet.name }}", `^[a-z0-9]{5}-x{52}[a-z0-9]{5}$`},
		"does not look into values":                  {"{{ .cluster.name }}", "{{ .machineSet.name }}-{{ .random }}", `^{{ \.cluster\.name }}-[a-z0-9]{5}$`},
		"must be random":                             {"workers", "pet", ``},
		"must be random where it looks so":           {"workers", "a-{{ /* {{ .random */ }}", ``},
		"cannot be made from a template that is bad": {"workers", "{{ .random }}-{{ .machineSet.name", ``},
		"cannot name what does not exist":            {"workers", "{{ .random }}{{ .machineSet.nam }}", ``},
		"cannot call":                                {"workers", "{{ .random }}{{ printf .random }}", ``},
		"cannot pipe":                                {"workers", "{{ .random }}{{ .random | len }}", ``},
		"cannot loop":                                {"workers", "{{ .random }}{{range 9000000000000000000}}{{end}}", ``},
		"cannot loop inside of a definition":         {"workers", `{{ .random }}{{define "x"}}{{template "x"}}{{end}}{{template "x"}}`, ``},
		"cannot trim":                                {"workers", "a {{- .random }}", ``},
		"must begin like a name":                     {"workers", "-{{ .random }}", ``},
		"must be a name":                             {"workers", "Workers_{{ .random }}", ``},
		"must be no longer than the API allows":      {"workers", strings.Repeat("a", 244) + "{{ .random }}", ``},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: test.set}, Spec: clusterv1.MachineSetSpec{ClusterName: "c"}}
			set.Spec.MachineNaming.Template = test.template
			got, err := New(set)
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
		name, err := New(set)
		if err != nil {
			t.Fatal(err)
		}
		seen[name] = true
	}
	if len(seen) < 99 { // 5 of 27 letters collide once in a thousand such runs
		t.Errorf("only %d names of 100 differ", len(seen))
	}
}
