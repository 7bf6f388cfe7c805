// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package crdvalidation applies to an object what an API server with Drover's CustomResourceDefinitions does when the object is
// created: unknown fields are refused, defaults are set, and the schema with its rules in CEL is checked. It uses the API
// server's own code, so that the messages are the same. It does not see other objects and admission policies. The
// previews of bootstrap and the plugin of kubectl call it.
package crdvalidation

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"drover.io/api/crds"
	"drover.io/runtime/requesterror"
)

// Kinds are those that an API server with Drover's CustomResourceDefinitions serves. They may be used concurrently.
type Kinds struct {
	served map[schema.GroupVersionKind]*apiextensionsv1.JSONSchemaProps

	mu       sync.Mutex
	compiled map[schema.GroupVersionKind]*rules
}

// Load reads the CustomResourceDefinitions of this program.
func Load() (*Kinds, error) {
	all, err := crds.Definitions()
	if err != nil {
		return nil, err
	}
	k := &Kinds{served: map[schema.GroupVersionKind]*apiextensionsv1.JSONSchemaProps{}, compiled: map[schema.GroupVersionKind]*rules{}}
	for _, crd := range all {
		for _, v := range crd.Spec.Versions {
			if v.Served && v.Schema != nil {
				k.served[schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind}] = v.Schema.OpenAPIV3Schema
			}
		}
	}
	return k, nil
}

// rules are the schema of a kind in the forms in which the API server uses it.
type rules struct {
	structural *structuralschema.Structural
	validator  validation.SchemaValidator
	cel        *cel.Validator
}

func (k *Kinds) rulesOf(kind schema.GroupVersionKind) (*rules, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.compiled[kind]; r != nil {
		return r, nil
	}
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(k.served[kind], internal, nil); err != nil {
		return nil, fmt.Errorf("converting the schema of %s: %w", kind.Kind, err)
	}
	structural, err := structuralschema.NewStructural(internal)
	if err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", kind.Kind, err)
	}
	validator, _, err := validation.NewSchemaValidator(internal)
	if err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", kind.Kind, err)
	}
	r := &rules{structural, validator, cel.NewValidator(structural, true, celconfig.PerCallLimit)}
	k.compiled[kind] = r
	return r, nil
}

// Admit sets the defaults of an object of a served kind, and returns what the API server refuses it for, one message each.
func (k *Kinds) Admit(kind schema.GroupVersionKind, object map[string]any) ([]string, error) {
	r, err := k.rulesOf(kind)
	if err != nil {
		return nil, err
	}
	problems := checkMetadata(object)
	if len(problems) > 0 {
		return problems, nil // no other part of the object can be relied on
	}
	options := structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	for _, path := range pruning.PruneWithOptions(object, r.structural, true, options) {
		problems = append(problems, unknownField(path, r.structural))
	}
	if len(problems) > 0 {
		return problems, nil // as the API server does: what follows may come from them
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(object, r.structural)
	defaulting.Default(object, r.structural)
	for _, invalid := range r.validate(object) {
		problems = append(problems, requesterror.Truncate(strings.TrimPrefix(invalid.Error(), "<nil>: "))) // of the object as a whole
	}
	return problems, nil
}

// validate checks what the strategy of the API server for custom resources does when one is created, in that order.
func (r *rules) validate(object map[string]any) field.ErrorList {
	named := named(object)
	all := metavalidation.ValidateObjectMetaAccessor(named, true, metavalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	all = append(all, validation.ValidateCustomResource(nil, named.Object, r.validator)...)
	all = append(all, listtype.ValidateListSetsAndMaps(nil, r.structural, named.Object)...)
	if r.cel == nil || blocks(all) {
		return all
	}
	invalid, _ := r.cel.Validate(context.Background(), nil, r.structural, named.Object, nil, celconfig.RuntimeCELCostBudget)
	return append(all, invalid...)
}

// named is an object with the namespace and the name that a client and the API server give it where it has none.
func named(object map[string]any) *unstructured.Unstructured {
	u := (&unstructured.Unstructured{Object: object}).DeepCopy()
	if u.GetNamespace() == "" {
		u.SetNamespace("default")
	}
	if u.GetName() == "" && u.GetGenerateName() != "" {
		u.SetName(u.GetGenerateName() + "abcde")
	}
	return u
}

// blocks reports whether the API server evaluates no rules in CEL after these errors: those could not rely on the object.
func blocks(errs field.ErrorList) bool {
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		}
	}
	return false
}
