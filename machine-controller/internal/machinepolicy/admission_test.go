// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinepolicy

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
)

// TestAdmission creates policies as a user writes them, and compares the fields that the API
// server refuses.
func TestAdmission(t *testing.T) {
	t.Parallel()
	c := server.Client(t)
	full := `{selector: {matchLabels: {example.com/pool: gpu, a: ""}, matchExpressions: [
		{key: tier, operator: In, values: [a, b]}, {key: x, operator: Exists}]},
		replacement: {maxPerDeployment: 3, maxPerCluster: 25%, maxPerFailureDomain: 0, stopAboveUnhealthy: 100%},
		overshoot: {up: 5, down: 0}, creation: {maxPendingPerDeployment: 4, maxPendingPerCluster: 9}, drain: {forceAfterSeconds: 90, serialVolumes: true}}`
	tests := map[string]struct {
		spec string
		want []string
	}{
		"takes everything":                      {full, nil},
		"takes a selector of all":               {`{selector: {}}`, nil},
		"refuses none":                          {`{}`, []string{"spec.selector"}},
		"refuses a key that is none":            {`{selector: {matchLabels: {"a b": x}}}`, []string{"spec.selector.matchLabels"}},
		"refuses a value that is none":          {`{selector: {matchLabels: {a: "x y"}}}`, []string{"spec.selector.matchLabels"}},
		"refuses an operator":                   {`{selector: {matchExpressions: [{key: a, operator: Near}]}}`, []string{"spec.selector.matchExpressions[0].operator"}},
		"refuses In without values":             {`{selector: {matchExpressions: [{key: a, operator: In}]}}`, []string{"spec.selector.matchExpressions[0]"}},
		"refuses Exists with values":            {`{selector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}`, []string{"spec.selector.matchExpressions[0]"}},
		"refuses a key that is none, expressed": {`{selector: {matchExpressions: [{key: "a/b/c", operator: Exists}]}}`, []string{"spec.selector.matchExpressions[0].key"}},
		"refuses a negative number":             {`{selector: {}, replacement: {maxPerDeployment: -1}}`, []string{"spec.replacement.maxPerDeployment"}},
		"refuses words":                         {`{selector: {}, replacement: {maxPerCluster: half}}`, []string{"spec.replacement.maxPerCluster"}},
		"refuses more than all":                 {`{selector: {}, replacement: {stopAboveUnhealthy: 101%}}`, []string{"spec.replacement.stopAboveUnhealthy"}},
		"refuses a number that is a string":     {`{selector: {}, replacement: {maxPerFailureDomain: "3"}}`, []string{"spec.replacement.maxPerFailureDomain"}},
		"refuses down beyond up":                {`{selector: {}, overshoot: {up: 1, down: 2}}`, []string{"spec.overshoot.down"}},
		"takes down alone":                      {`{selector: {}, overshoot: {down: 2}}`, nil},
		"refuses no pending at all":             {`{selector: {}, creation: {maxPendingPerDeployment: 0}}`, []string{"spec.creation.maxPendingPerDeployment"}},
		"refuses to force at once":              {`{selector: {}, drain: {forceAfterSeconds: 0}}`, []string{"spec.drain.forceAfterSeconds"}},
		"names all that is wrong": {`{selector: {}, overshoot: {up: -1}, creation: {maxPendingPerCluster: -1}, replacement: {maxPerCluster: x}}`,
			[]string{"spec.creation.maxPendingPerCluster", "spec.overshoot.up", "spec.replacement.maxPerCluster"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := &unstructured.Unstructured{Object: map[string]any{}}
			policy.SetGroupVersionKind(droverpolicyv1.GroupVersion.WithKind("MachinePolicy"))
			policy.SetNamespace("default")
			policy.SetName(strings.ToLower(strings.NewReplacer(" ", "-", ",", "").Replace(name)))
			var spec map[string]any
			if err := yaml.Unmarshal([]byte(strings.ReplaceAll(test.spec, "\t", " ")), &spec); err != nil {
				t.Fatal(err)
			}
			policy.Object["spec"] = spec
			err := c.Create(t.Context(), policy)
			if err != nil && !apierrors.IsInvalid(err) {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, refused(err)); diff != "" {
				t.Errorf("refused fields (-want +got):\n%s\n%v", diff, err)
			}
		})
	}
}

// refused are the fields that an Invalid error names, without the notes that rules were not
// evaluated for want of valid values.
func refused(err error) []string {
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		return nil
	}
	fields := map[string]bool{}
	for _, cause := range status.ErrStatus.Details.Causes {
		if cause.Field != "<nil>" && cause.Field != "" {
			fields[cause.Field] = true
		}
	}
	return slices.Sorted(maps.Keys(fields))
}
