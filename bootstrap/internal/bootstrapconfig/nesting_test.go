// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// withConfiguration returns one object of each kind that has a fragment of the kubelet's configuration.
func withConfiguration(namespace, name, configuration string) []client.Object {
	kubelet := bootstrapv1.Kubelet{Configuration: &runtime.RawExtension{Raw: []byte(configuration)}}
	spec := bootstrapv1.BootstrapConfigSpec{OperatingSystem: bootstrapv1.Ubuntu, Kubelet: kubelet}
	metadata := metav1.ObjectMeta{Namespace: namespace, Name: name}
	template := &bootstrapv1.BootstrapConfigTemplate{ObjectMeta: metadata}
	template.Spec.Template.Spec = spec
	profile := &bootstrapv1.NodeProfile{ObjectMeta: metadata}
	profile.Spec.Defaults.Kubelet = kubelet
	return []client.Object{&bootstrapv1.BootstrapConfig{ObjectMeta: metadata, Spec: spec}, template, profile}
}

// TestNestedConfigurationIsRefused: the API server would store objects that neither it nor a client can decode beside the
// others of their kind, so that all namespaces had none.
func TestNestedConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	namespace := "default"
	for name, configuration := range map[string]string{
		"objects": strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000),
		"arrays":  `{"a":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "}",
		"mixed":   strings.Repeat(`{"a":[`, 4) + strings.Repeat("]}", 4),
	} {
		for _, object := range withConfiguration(namespace, name, configuration) {
			if err := unmanaged.Client.Create(t.Context(), object); err == nil || !apierrors.IsInvalid(err) {
				t.Errorf("%s in a %T: got %.200v", name, object, err)
			}
		}
	}
}

// TestConfigurationIsStoredAsItIs: null in it removes a field, and a template cannot be changed in it.
func TestConfigurationIsStoredAsItIs(t *testing.T) {
	t.Parallel()
	namespace := "default"
	const configuration = `{"a":{"b":{"c":{"d":{"e":{"f":1.5}}}}},"g":[{"h":{"i":"x"},"j":[{"k":null}]},null,true],"l":null,"m":{"n":null}}`
	for _, object := range withConfiguration(namespace, "stored", configuration) {
		if err := unmanaged.Client.Create(t.Context(), object); err != nil {
			t.Errorf("%T: %v", object, err)
			continue
		}
		var stored *runtime.RawExtension
		switch object := object.(type) {
		case *bootstrapv1.BootstrapConfig:
			stored = object.Spec.Kubelet.Configuration
		case *bootstrapv1.NodeProfile:
			stored = object.Spec.Defaults.Kubelet.Configuration
		case *bootstrapv1.BootstrapConfigTemplate:
			stored = object.Spec.Template.Spec.Kubelet.Configuration
		}
		if string(stored.Raw) != configuration {
			t.Errorf("%T: got %s", object, stored.Raw)
		}
		template, ok := object.(*bootstrapv1.BootstrapConfigTemplate)
		if !ok {
			continue
		}
		template.Spec.Template.Spec.Kubelet.Configuration.Raw = []byte(strings.Replace(configuration, "1.5", "2.5", 1))
		if err := unmanaged.Client.Update(t.Context(), template); !apierrors.IsInvalid(err) {
			t.Errorf("the template was changed: %v", err)
		}
	}
}
