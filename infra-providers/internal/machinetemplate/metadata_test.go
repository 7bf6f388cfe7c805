// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinetemplate_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drover.io/api/crds"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
)

// TestATemplateNamesNoInstance: an identity or account in a template would be that of every machine made from it.
func TestATemplateNamesNoInstance(t *testing.T) {
	t.Parallel()
	for _, annotation := range []string{infrav1.IdentityAnnotation, infrav1.AccountAnnotation, infrav1.ChoiceAnnotation, infrav1.ReleaseAnnotation} {
		template := &infrav1.SimMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "t-"}}
		template.Spec.Template.Spec.InstanceType = "small"
		template.Spec.Template.ObjectMeta.Annotations = map[string]string{annotation: "x"}
		if err := cluster.Client.Create(t.Context(), template); err == nil || !strings.Contains(err.Error(), "a template must not have them") {
			t.Errorf("%s: %v", annotation, err)
		}
	}
	template := &infrav1.SimMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "t-"}}
	template.Spec.Template.Spec.InstanceType = "small"
	template.Spec.Template.ObjectMeta.Annotations = map[string]string{"example.org/note": "x"}
	if err := cluster.Client.Create(t.Context(), template); err != nil {
		t.Error(err)
	}
}

// TestNoTemplateNamesAnInstance: the rule is in the kind of each cloud.
func TestNoTemplateNamesAnInstance(t *testing.T) {
	t.Parallel()
	kinds, err := crds.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, kind := range kinds {
		if kind.Spec.Group != infrav1.GroupVersion.Group || !strings.HasSuffix(kind.Spec.Names.Kind, "MachineTemplate") {
			continue
		}
		checked++
		metadata := kind.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["template"].Properties["metadata"]
		if len(metadata.XValidations) != 1 || !strings.Contains(metadata.XValidations[0].Rule, "startsWith('infrastructure.drover.io/')") {
			t.Errorf("%s: spec.template.metadata has the rules %+v", kind.Spec.Names.Kind, metadata.XValidations)
		}
	}
	if checked == 0 {
		t.Error("there is no template")
	}
}
