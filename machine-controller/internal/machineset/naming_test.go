// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/machinename"
)

// TestNamingTemplatesAreValidated has the API server and the controllers validate the same
// templates of MachineSets and MachineDeployments.
func TestNamingTemplatesAreValidated(t *testing.T) {
	t.Parallel()
	c, namespace := unmanaged.Client(t), unmanaged.Namespace(t)
	for name, test := range map[string]struct {
		template string
		valid    bool
	}{
		"it takes what is documented":          {"{{ .cluster.name }}-{{ .machineSet.name }}-{{ .random }}", true},
		"it takes dots":                        {"{{ .machineSet.name }}.{{ .random }}", true},
		"it takes placeholders side by side":   {"w{{ .random }}{{ .random }}", true},
		"it takes any space":                   {"w-{{.random\t}}", true},
		"it refuses a name without random":     {"pet", false},
		"it refuses random in a comment":       {"a{{/* {{ .random */}}", false},
		"it refuses a loop":                    {"{{ .random }}{{range 9000000000000000000}}{{end}}", false},
		"it refuses a definition":              {`{{ .random }}{{define "x"}}{{template "x"}}{{end}}{{template "x"}}`, false},
		"it refuses a pipeline":                {"{{ .random | printf }}{{ .random }}", false},
		"it refuses a function":                {`{{ printf "%0999999d" 1 }}{{ .random }}`, false},
		"it refuses an unknown name":           {"{{ .machine.name }}{{ .random }}", false},
		"it refuses markers that trim":         {"a {{- .random }}", false},
		"it refuses capitals":                  {"Worker-{{ .random }}", false},
		"it refuses a hyphen in front":         {"-{{ .random }}", false},
		"it refuses a dot in front":            {".{{ .random }}", false},
		"it refuses a hyphen at the end":       {"{{ .random }}-", false},
		"it refuses an empty part":             {"a..{{ .random }}", false},
		"it refuses a part that ends in -":     {"a-.{{ .random }}", false},
		"it refuses a part that begins with -": {"a.-{{ .random }}", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := machinename.Check(test.template); (err == nil) != test.valid {
				t.Errorf("the controllers find: %v", err)
			}
			set, md := validSet(namespace), validDeployment(namespace)
			set.Spec.MachineNaming.Template, md.Spec.MachineNaming.Template = test.template, test.template
			for _, object := range []client.Object{set, md} {
				err := c.Create(t.Context(), object, client.DryRunAll)
				if (err == nil) != test.valid || (err != nil && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.machineNaming.template:"))) {
					t.Errorf("%T is created with: %v", object, err)
				}
			}
		})
	}
}

// TestStoredNamingTemplateIsReported gives the controller a template that the API server would refuse now.
func TestStoredNamingTemplateIsReported(t *testing.T) {
	t.Parallel()
	set := validSet("ns")
	set.Spec.Replicas, set.Spec.MachineNaming.Template = new(int32(2)), "pet"
	s := &state{set: set, cluster: &clusterv1.Cluster{}}
	result, err := (&scaler{}).createMissing(t.Context(), s, 2)
	if err != nil || result != (reconcile.Result{}) {
		t.Errorf("got %v, %v, but a retry cannot help", result, err)
	}
	setScalingUp(s)
	if message := conditions.GetMessage(set, clusterv1.MachineSetScalingUpCondition); !strings.Contains(message, "spec.machineNaming.template") || !strings.Contains(message, "{{ .random }}") {
		t.Errorf("the condition is %q", message)
	}
}
