// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"fmt"
	"strings"
	"text/template"

	utilrand "k8s.io/apimachinery/pkg/util/rand"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

const (
	defaultNaming = "{{ .machineSet.name }}-{{ .random }}"
	randomLength  = 5
	// maxName is what a host name and a label value can hold.
	maxName = 63
)

// machineName makes the name of a new Machine from spec.machineNaming.template. A name that
// is too long is cut and keeps a random end, so that it stays unique.
func machineName(set *clusterv1.MachineSet) (string, error) {
	text := set.Spec.MachineNaming.Template
	if text == "" {
		text = defaultNaming
	}
	parsed, err := template.New("spec.machineNaming.template").Option("missingkey=error").Parse(text)
	if err != nil {
		return "", fmt.Errorf("spec.machineNaming.template: %w", err)
	}
	random := utilrand.String(randomLength)
	var name strings.Builder
	err = parsed.Execute(&name, map[string]any{
		"cluster":    map[string]string{"name": set.Spec.ClusterName},
		"machineSet": map[string]string{"name": set.Name},
		"random":     random,
	})
	if err != nil {
		return "", fmt.Errorf("spec.machineNaming.template: %w", err)
	}
	if name.Len() <= maxName {
		return name.String(), nil
	}
	return name.String()[:maxName-randomLength] + random, nil
}
