// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

func TestShipmentPointsWebhooksAtTheProcess(t *testing.T) {
	t.Parallel()
	at := endpoint{url: "https://127.0.0.1:1", ca: []byte("authority")}
	for name, test := range map[string]struct{ shipped, want string }{
		"of admission": {
			shipped: "{kind: MutatingWebhookConfiguration, webhooks: [{name: a, clientConfig: {service: {name: s, path: /mutate}}}]}",
			want:    "{kind: MutatingWebhookConfiguration, webhooks: [{name: a, clientConfig: {url: 'https://127.0.0.1:1/mutate', caBundle: YXV0aG9yaXR5}}]}",
		},
		"of conversion": {
			shipped: "{kind: CustomResourceDefinition, spec: {conversion: {webhook: {clientConfig: {service: {name: s, path: /convert}}}}}}",
			want:    "{kind: CustomResourceDefinition, spec: {conversion: {webhook: {clientConfig: {url: 'https://127.0.0.1:1/convert', caBundle: YXV0aG9yaXR5}}}}}",
		},
		"and leaves a kind without conversion alone": {
			shipped: "{kind: CustomResourceDefinition, spec: {group: g}}",
			want:    "{kind: CustomResourceDefinition, spec: {group: g}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &shipment{}
			if err := s.add(object(t, test.shipped), at); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]unstructured.Unstructured{object(t, test.want)}, s.objects); diff != "" {
				t.Errorf("shipment (-want +got):\n%s", diff)
			}
		})
	}
}

func TestShipmentKeepsServiceAccountOfOmittedDeployment(t *testing.T) {
	t.Parallel()
	s := &shipment{}
	for _, shipped := range []string{
		"{kind: Deployment, metadata: {namespace: capi-system}, spec: {template: {spec: {serviceAccountName: capi-manager}}}}",
		"{kind: Service}", "{kind: Certificate}", "{kind: Issuer}",
	} {
		if err := s.add(object(t, shipped), endpoint{}); err != nil {
			t.Fatal(err)
		}
	}
	want := &shipment{namespace: "capi-system", account: "capi-manager"}
	if diff := cmp.Diff(want, s, cmp.AllowUnexported(shipment{})); diff != "" {
		t.Errorf("shipment (-want +got):\n%s", diff)
	}
}

func object(t *testing.T, document string) unstructured.Unstructured {
	t.Helper()
	var o unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}
