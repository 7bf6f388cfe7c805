// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package machinename makes the names of new Machines from spec.machineNaming.template of
// MachineSets and MachineDeployments. The template is data of a user: placeholders are
// replaced, nothing is executed. hack/crds has the same grammar, for the API server.
package machinename

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

const (
	defaultTemplate = "{{ .machineSet.name }}-{{ .random }}"
	randomLength    = 5
	// maxTemplate is the length that the CRDs allow.
	maxTemplate = 256
	// maxName is what a host name and a label value can hold.
	maxName = 63
)

// random is the name of the one placeholder that every template must have.
const random = "random"

// placeholder matches one placeholder, with any space or tabs around its name.
var placeholder = regexp.MustCompile(`\{\{[ \t]*\.(cluster\.name|machineSet\.name|random)[ \t]*\}\}`)

// New makes the name of a new Machine. A name that is too long is cut and keeps a random
// end, so that it stays unique.
func New(set *clusterv1.MachineSet) (string, error) {
	text := set.Spec.MachineNaming.Template
	if err := Check(text); err != nil {
		return "", err
	}
	unique := utilrand.String(randomLength)
	name := render(text, map[string]string{"cluster.name": set.Spec.ClusterName, "machineSet.name": set.Name, random: unique})
	if len(name) > maxName {
		name = name[:maxName-randomLength] + unique
	}
	return name, nil
}

// Check reports why names cannot be made from a template; an empty one is the default.
func Check(text string) error {
	if text == "" {
		return nil
	}
	if err := objection(text); err != nil {
		return fmt.Errorf("spec.machineNaming.template %q: %w", text, err)
	}
	return nil
}

func objection(text string) error {
	if len(text) > maxTemplate {
		return fmt.Errorf("must not be longer than %d characters", maxTemplate)
	}
	unique := false
	for _, match := range placeholder.FindAllStringSubmatch(text, -1) {
		unique = unique || match[1] == random
	}
	if !unique {
		return errors.New("must contain {{ .random }}, or the second Machine would have the name of the first")
	}
	if strings.ContainsAny(placeholder.ReplaceAllLiteralString(text, ""), "{}") {
		return errors.New("may only contain the placeholders {{ .cluster.name }}, {{ .machineSet.name }} and {{ .random }}")
	}
	if wrong := validation.IsDNS1123Subdomain(placeholder.ReplaceAllLiteralString(text, "x")); len(wrong) > 0 {
		return fmt.Errorf("makes names that are not valid: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// render replaces each placeholder by its value, once: placeholders in a value are not replaced.
func render(text string, values map[string]string) string {
	if text == "" {
		text = defaultTemplate
	}
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		return values[placeholder.FindStringSubmatch(found)[1]]
	})
}
