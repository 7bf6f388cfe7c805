// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
)

func TestRules(t *testing.T) {
	t.Parallel()
	const least, most, freeze = clusterv1.AutoscalerMinSizeAnnotation, clusterv1.AutoscalerMaxSizeAnnotation, droverpolicyv1.FreezeAnnotation
	const skip = clusterv1.MachineSetSkipPreflightChecksAnnotation
	tests := map[string]struct {
		annotations map[string]string
		want        string
	}{
		"it has none":              {},
		"it freezes":               {annotations: map[string]string{freeze: "true"}},
		"it keeps from freezing":   {annotations: map[string]string{freeze: "false"}},
		"it is capitalised":        {map[string]string{freeze: "True"}, `the annotation drover.io/freeze is "True": use "true" or "false"; until then it freezes`},
		"it has no value":          {map[string]string{freeze: ""}, `the annotation drover.io/freeze is "": use "true" or "false"; until then it freezes`},
		"it is scaled":             {annotations: map[string]string{least: "0", most: "3"}},
		"it is kept at one size":   {annotations: map[string]string{least: "3", most: "3"}},
		"its least is no number":   {map[string]string{least: "abc", most: "3"}, `the annotation ` + least + ` is "abc": use a number from 0; until then ` + sizeIgnored},
		"its least is negative":    {map[string]string{least: "-1", most: "3"}, `the annotation ` + least + ` is "-1": use a number from 0; until then ` + sizeIgnored},
		"its most is less":         {map[string]string{least: "4", most: "3"}, `the annotation ` + most + ` is "3": use a number that is no less than ` + least + `; until then ` + sizeIgnored},
		"its most is beyond int32": {map[string]string{most: "2147483648"}, `the annotation ` + most + ` is "2147483648": use a number that is no less than ` + least + `; until then ` + sizeIgnored},
		"it skips all checks":      {annotations: map[string]string{skip: "All"}},
		"it skips two checks":      {annotations: map[string]string{skip: "ControlPlaneIsStable, KubeadmVersionSkew,"}},
		"it skips a check that is misspelt": {map[string]string{skip: "ControlPlaneIsStable,kubeadmVersionSkew"}, "the annotation " + skip +
			` is "ControlPlaneIsStable,kubeadmVersionSkew": use All, ControlPlaneIsStable, ControlPlaneVersionSkew, KubeadmVersionSkew, ` +
			"KubernetesVersionSkew, or several of them separated by commas; until then other names skip no check"},
		"its most is int32's limit": {annotations: map[string]string{most: "2147483647"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := &clusterv1.MachineDeployment{}
			md.Annotations = test.annotations
			rules := append([]Rule{Freeze, SkipPreflightChecks}, NodeGroupSizes...)
			if changed := Validate(md, rules...); changed != test.want {
				t.Errorf("news %q, want %q", changed, test.want)
			}
			if got := conditions.GetMessage(md, droverpolicyv1.AnnotationsValidCondition); got != test.want {
				t.Errorf("message %q, want %q", got, test.want)
			}
			if changed := Validate(md, rules...); changed != "" {
				t.Errorf("what was reported counts as changed again: %q", changed)
			}
			md.Annotations = nil
			if Validate(md, rules...); conditions.Has(md, droverpolicyv1.AnnotationsValidCondition) {
				t.Error("the condition remains without its annotation")
			}
		})
	}
}
