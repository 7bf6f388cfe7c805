// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestDefaultReplicas(t *testing.T) {
	t.Parallel()
	sizes := func(least, most string) map[string]string {
		return map[string]string{clusterv1.AutoscalerMinSizeAnnotation: least, clusterv1.AutoscalerMaxSizeAnnotation: most}
	}
	tests := map[string]struct {
		annotations map[string]string
		before      *int32
		want        int32
		fails       bool
	}{
		"it is one for a new object":                       {want: 1},
		"it stays without the autoscaler":                  {before: new(int32(5)), want: 5},
		"it stays nothing without the autoscaler":          {before: new(int32(0)), want: 0},
		"it is the minimum for a new object":               {annotations: sizes("3", "9"), want: 3},
		"it is nothing for a new object that may be":       {annotations: sizes("0", "9"), want: 0},
		"it stays between the sizes":                       {annotations: sizes("3", "9"), before: new(int32(5)), want: 5},
		"it stays at the minimum":                          {annotations: sizes("3", "9"), before: new(int32(3)), want: 3},
		"it stays at the maximum":                          {annotations: sizes("3", "9"), before: new(int32(9)), want: 9},
		"it is raised to the minimum":                      {annotations: sizes("3", "9"), before: new(int32(2)), want: 3},
		"it is lowered to the maximum":                     {annotations: sizes("3", "9"), before: new(int32(10)), want: 9},
		"it stays while a size is no number":               {annotations: sizes("abc", "9"), before: new(int32(10)), want: 10},
		"it stays while the sizes contradict one another":  {annotations: sizes("9", "3"), before: new(int32(5)), want: 5},
		"it is not guessed for a new object":               {annotations: sizes("abc", "9"), fails: true},
		"it is not guessed where the sizes contradict":     {annotations: sizes("9", "3"), fails: true},
		"it is one where only one of both sizes is given":  {annotations: map[string]string{clusterv1.AutoscalerMinSizeAnnotation: "3"}, want: 1},
		"it stays where only one of both sizes is given":   {annotations: map[string]string{clusterv1.AutoscalerMaxSizeAnnotation: "3"}, before: new(int32(5)), want: 5},
		"it is the only number between two that are equal": {annotations: sizes("4", "4"), before: new(int32(5)), want: 4},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := DefaultReplicas(&metav1.ObjectMeta{Annotations: test.annotations}, test.before)
			if got != test.want || (err != nil) != test.fails {
				t.Errorf("got %d and error %v, want %d and failure %t", got, err, test.want, test.fails)
			}
		})
	}
}
