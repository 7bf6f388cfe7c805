// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// crds answers gets of CRD metadata by name.
type crds struct {
	client.Reader
	labels map[string]map[string]string
	err    error
}

func (c crds) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if c.err != nil {
		return c.err
	}
	labels, ok := c.labels[key.Name]
	if !ok {
		return apierrors.NewNotFound(apiextensionsv1.Resource("customresourcedefinitions"), key.Name)
	}
	into.(*metav1.PartialObjectMetadata).Labels = labels
	return nil
}

func TestResolve(t *testing.T) {
	t.Parallel()
	gk := schema.GroupKind{Group: "infrastructure.example.com", Kind: "ThingMachine"}
	const crd, v1beta1, v1beta2 = "thingmachines.infrastructure.example.com", "cluster.x-k8s.io/v1beta1", "cluster.x-k8s.io/v1beta2"
	for name, test := range map[string]struct {
		labels   map[string]string
		version  string
		contract Version
	}{
		"takes the only version":                    {map[string]string{v1beta2: "v1alpha1"}, "v1alpha1", V1Beta2},
		"understands the older contract":            {map[string]string{v1beta1: "v1beta1"}, "v1beta1", V1Beta1},
		"prefers the newer contract":                {map[string]string{v1beta1: "v1", v1beta2: "v1alpha1"}, "v1alpha1", V1Beta2},
		"takes the newest version":                  {map[string]string{v1beta2: "v1_v2"}, "v2", V1Beta2},
		"ranks stability as Kubernetes does":        {map[string]string{v1beta2: "v1_v2beta1_v10alpha1"}, "v1", V1Beta2},
		"ranks numbers as numbers":                  {map[string]string{v1beta2: "v9_v10_v2"}, "v10", V1Beta2},
		"ranks beta over alpha":                     {map[string]string{v1beta2: "v1alpha9_v1beta1_v1alpha10"}, "v1beta1", V1Beta2},
		"skips an empty label":                      {map[string]string{v1beta2: "", v1beta1: "v1"}, "v1", V1Beta1},
		"does not take an unknown contract for one": {map[string]string{"cluster.x-k8s.io/v1alpha4": "v1"}, "", ""},
		"requires a label":                          {map[string]string{"other": "v1"}, "", ""},
		"requires a label where there is none":      {nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &Resolver{Reader: crds{labels: map[string]map[string]string{crd: test.labels}}}
			gvk, version, err := r.Resolve(t.Context(), gk)
			if test.version == "" {
				var missing *MissingLabelError
				if !errors.As(err, &missing) || missing.CRDName != crd || !IsMisconfigured(err) {
					t.Fatalf("error is %v, want a missing label", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if gvk != gk.WithVersion(test.version) || version != test.contract {
				t.Errorf("got %s by contract %s", gvk, version)
			}
		})
	}
}

func TestResolveFails(t *testing.T) {
	t.Parallel()
	gk := schema.GroupKind{Group: "g", Kind: "Thing"}
	_, _, err := (&Resolver{Reader: crds{}}).Resolve(t.Context(), gk)
	var missing *MissingCRDError
	if !errors.As(err, &missing) || !IsMisconfigured(err) {
		t.Fatalf("error is %v, want a missing CRD", err)
	}
	if diff := cmp.Diff(&MissingCRDError{GroupKind: gk, CRDName: "things.g"}, missing); diff != "" {
		t.Error(diff)
	}
	boom := errors.New("boom")
	if _, _, err := (&Resolver{Reader: crds{err: boom}}).Resolve(t.Context(), gk); !errors.Is(err, boom) || IsMisconfigured(err) {
		t.Errorf("error is %v, want %v and nothing to mend", err, boom)
	}
	if !IsMisconfigured(&ForbiddenError{GroupKind: gk, Err: boom}) || !errors.Is(&ForbiddenError{Err: boom}, boom) {
		t.Error("a missing permission is not known as misconfiguration, or hides its cause")
	}
}

func TestCRDName(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		"SimMachine": "simmachines.g", "BootstrapConfig": "bootstrapconfigs.g", "AWSMachineTemplate": "awsmachinetemplates.g",
		"Proxy": "proxies.g", "KubeadmControlPlane": "kubeadmcontrolplanes.g", "Access": "accesses.g",
	} {
		if got := CRDName(schema.GroupKind{Group: "g", Kind: kind}); got != want {
			t.Errorf("CRD of %s is %q, want %q", kind, got, want)
		}
	}
}
