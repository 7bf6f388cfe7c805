// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package schema tests the schemas of all kinds against their Go types.
package schema

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/api/crds"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
	droverpolicyv1 "drover.io/api/policy/v1alpha1"
)

// extremes are values that a schema may accept and a Go type may not.
var extremes = []any{
	nil, map[string]any{}, map[string]any{"a": nil}, []any{}, []any{nil}, []any{"x"}, []any{"2026-01-01T00:00:00Z"},
	1e3, 9e18, 1e20, int64(1) << 31, -(int64(1) << 31) - 1, int64(1) << 32, int64(1)<<62 + 1, 1.5, true,
	"", "x", "1e1.5", "1e99999999999", strings.Repeat("9", 400), "1h", "-1h", "1.5.5",
	"2026-01-01t00:00:00z", "2026-01-01T00:00:00+99:99", "2026-01-01T00:00:00+24:00", "0000-01-01T00:00:00+23:00", "9999-12-31T23:59:59-23:00",
	"2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T23:59:60Z", "2026-01-01T00:00:00,5Z", "2026-01-01T00:00:00.0000000000001Z", "2026-01-01",
}

// TestWhatIsAcceptedCanBeDecoded: one object that a typed client cannot decode stops the informers of its kind for all
// namespaces. Only the schema of each field counts here; rules in CEL come on top.
func TestWhatIsAcceptedCanBeDecoded(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, bootstrapv1.AddToScheme, infrav1.AddToScheme, droverpolicyv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	definitions, err := crds.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	fields := 0
	for _, crd := range definitions {
		for _, version := range crd.Spec.Versions {
			gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}
			walk(version.Schema.OpenAPIV3Schema, nil, func(path []string, leaf *apiextensionsv1.JSONSchemaProps) {
				fields++
				for _, value := range extremes {
					checkDecodable(t, scheme, gvk, path, leaf, value)
				}
			})
		}
	}
	if fields < 1000 {
		t.Errorf("only %d fields were found", fields)
	}
}

// walk calls visit with each field that holds a value; [] in its path is an element of a list, and {} one of a map.
func walk(props *apiextensionsv1.JSONSchemaProps, path []string, visit func([]string, *apiextensionsv1.JSONSchemaProps)) {
	at := func(name string) []string { return append(path[:len(path):len(path)], name) }
	switch {
	case len(path) == 1 && path[0] == "metadata":
	case len(props.Properties) > 0:
		for name, property := range props.Properties {
			walk(&property, at(name), visit)
		}
	case props.Items != nil && props.Items.Schema != nil:
		walk(props.Items.Schema, at("[]"), visit)
	case props.AdditionalProperties != nil && props.AdditionalProperties.Schema != nil:
		walk(props.AdditionalProperties.Schema, at("{}"), visit)
	default:
		visit(path, props)
	}
}

// checkDecodable fails if the schema of a field accepts a value that the type of the kind cannot have there, or that does
// not survive being written again.
func checkDecodable(t *testing.T, scheme *runtime.Scheme, gvk schema.GroupVersionKind, path []string, leaf *apiextensionsv1.JSONSchemaProps, value any) {
	t.Helper()
	object, err := scheme.New(gvk)
	if err != nil {
		t.Fatal(err)
	}
	nested := value
	for i := len(path) - 1; i >= 0; i-- {
		switch path[i] {
		case "[]":
			nested = []any{nested}
		case "{}":
			nested = map[string]any{"a": nested}
		default:
			nested = map[string]any{path[i]: nested}
		}
	}
	data, err := json.Marshal(nested)
	if err != nil {
		t.Fatal(err)
	}
	if err = json.Unmarshal(data, object); err == nil {
		var written []byte
		if written, err = json.Marshal(object); err == nil {
			err = json.Unmarshal(written, object)
		}
	}
	if err == nil {
		return
	}
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(leaf, internal, nil); err != nil {
		t.Fatal(err)
	}
	validator, _, validatorErr := validation.NewSchemaValidator(internal)
	if validatorErr != nil {
		t.Fatal(validatorErr)
	}
	if problems := validation.ValidateCustomResource(nil, value, validator); len(problems) == 0 {
		t.Errorf("%s: %s accepts %v, which cannot be decoded: %v", gvk.Kind, strings.Join(path, "."), value, err)
	}
}

// TestValuesHaveAFewLevels: a value without a schema of its own may be nested as deeply as a request, and is deeper in a list,
// which no client can decode then.
func TestValuesHaveAFewLevels(t *testing.T) {
	t.Parallel()
	definitions, err := crds.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range definitions {
		for _, version := range crd.Spec.Versions {
			checkLevels(t, crd.Spec.Names.Kind, version.Schema.OpenAPIV3Schema)
		}
	}
}

// checkLevels fails if the schema accepts an object or array about whose content it has nothing.
func checkLevels(t *testing.T, path string, props *apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	if slices.ContainsFunc(props.XValidations, func(rule apiextensionsv1.ValidationRule) bool { return rule.Rule == "false" }) {
		return // it is never stored
	}
	free := ptr.Deref(props.XPreserveUnknownFields, false)
	if free && props.AdditionalProperties == nil && ptr.Deref(props.MaxProperties, 1) > 0 {
		t.Errorf("%s: objects have any number of levels", path)
	}
	if free && props.Type != "object" && props.Items == nil && ptr.Deref(props.MaxItems, 1) > 0 {
		t.Errorf("%s: arrays have any number of levels", path)
	}
	for name, property := range props.Properties {
		checkLevels(t, path+"."+name, &property)
	}
	if props.Items != nil && props.Items.Schema != nil {
		checkLevels(t, path+"[]", props.Items.Schema)
	}
	if props.AdditionalProperties != nil && props.AdditionalProperties.Schema != nil {
		checkLevels(t, path+"{}", props.AdditionalProperties.Schema)
	}
}
