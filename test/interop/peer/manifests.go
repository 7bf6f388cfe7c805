// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// shipment is what a manager ships for a management cluster.
type shipment struct {
	// objects are applied as they are, in this order.
	objects []unstructured.Unstructured
	// namespace and account are those of the manager's Deployment.
	namespace, account string
	// newestOnly drops the older versions of kinds.
	newestOnly bool
}

// endpoint is where a manager's webhooks are served, and by whose certificate.
type endpoint struct {
	url string
	ca  []byte
}

// ship builds the manifests of a manager. Its Deployment, Service and certificate are left
// out, because it runs as a process beside the API server: webhooks point at that.
func (p *Peers) ship(ctx context.Context, of program, at endpoint) (*shipment, error) {
	built, err := p.manifests(ctx, of)
	if err != nil {
		return nil, err
	}
	s := &shipment{newestOnly: p.NewestOnly}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(built), 4096)
	for {
		var object unstructured.Unstructured
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil {
			return nil, fmt.Errorf("decoding the manifests of %s: %w", of.name, err)
		}
		if err := s.add(object, at); err != nil {
			return nil, fmt.Errorf("reading %s %q of %s: %w", object.GetKind(), object.GetName(), of.name, err)
		}
	}
}

// manifests builds everything that a manager ships.
func (p *Peers) manifests(ctx context.Context, of program) (string, error) {
	dir, err := p.list(ctx, "{{.Dir}}", of.module)
	if err != nil {
		return "", err
	}
	return output(exec.CommandContext(ctx, p.Path(kustomize), "build", filepath.Join(dir, filepath.FromSlash(of.config))))
}

func (s *shipment) add(object unstructured.Unstructured, at endpoint) error {
	switch object.GetKind() {
	case "Service", "Certificate", "Issuer":
		return nil
	case "Deployment":
		s.namespace = object.GetNamespace()
		var err error
		s.account, _, err = unstructured.NestedString(object.Object, "spec", "template", "spec", "serviceAccountName")
		return err
	case "CustomResourceDefinition":
		convert := redirectConversion
		if s.newestOnly {
			convert = dropConversion
		}
		if err := convert(object, at); err != nil {
			return err
		}
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		if err := redirectWebhooks(object, at); err != nil {
			return err
		}
	}
	s.objects = append(s.objects, object)
	return nil
}

func redirectConversion(crd unstructured.Unstructured, at endpoint) error {
	config, found, err := unstructured.NestedMap(crd.Object, "spec", "conversion", "webhook", "clientConfig")
	if err != nil || !found {
		return err
	}
	return unstructured.SetNestedMap(crd.Object, at.redirect(config), "spec", "conversion", "webhook", "clientConfig")
}

// dropConversion leaves only the version that is stored.
func dropConversion(crd unstructured.Unstructured, _ endpoint) error {
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return err
	}
	versions = slices.DeleteFunc(versions, func(each any) bool {
		version, _ := each.(map[string]any)
		return version["storage"] != true
	})
	unstructured.RemoveNestedField(crd.Object, "spec", "conversion")
	return unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions")
}

func redirectWebhooks(configuration unstructured.Unstructured, at endpoint) error {
	webhooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil {
		return err
	}
	for _, each := range webhooks {
		webhook, _ := each.(map[string]any)
		config, _, err := unstructured.NestedMap(webhook, "clientConfig")
		if err != nil {
			return err
		}
		webhook["clientConfig"] = at.redirect(config)
	}
	return unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks")
}

// redirect turns a reference to a Service into the address of the process.
func (e endpoint) redirect(config map[string]any) map[string]any {
	path, _, _ := unstructured.NestedString(config, "service", "path")
	return map[string]any{"url": e.url + path, "caBundle": base64.StdEncoding.EncodeToString(e.ca)}
}
