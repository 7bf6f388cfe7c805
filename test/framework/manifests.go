// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/api/crds"
)

// waitTimeout bounds what an API server does in a moment unless the machine has far more to do than it can.
const waitTimeout = 10 * time.Minute

// Apply applies every object of the YAML documents, in their order, on the server's side.
func Apply(ctx context.Context, c client.Client, documents []byte) error {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(documents), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("decoding YAML: %w", err)
		}
		if len(object.Object) == 0 {
			continue
		}
		if err := apply(ctx, c, object); err != nil {
			return fmt.Errorf("applying %s %q: %w", object.GetKind(), object.GetName(), err)
		}
	}
}

// apply waits for kinds and namespaces that were applied a moment ago to be served.
func apply(ctx context.Context, c client.Client, object *unstructured.Unstructured) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, waitTimeout, true, func(ctx context.Context) (bool, error) {
		err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.FieldOwner("drover-install"), client.ForceOwnership)
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// applyFolder applies every YAML file of a folder of the repository but its kustomization.
func applyFolder(ctx context.Context, c client.Client, folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no manifests in %s", folder)
	}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		documents, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := Apply(ctx, c, documents); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
	}
	return nil
}

// applyCRDs applies the CRDs of the api module whose files are chosen, and waits until all are served.
func applyCRDs(ctx context.Context, c client.Client, chosen func(file string) bool) error {
	err := fs.WalkDir(crds.Bases, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !chosen(entry.Name()) {
			return err
		}
		documents, err := crds.Bases.ReadFile(path)
		if err != nil {
			return err
		}
		return Apply(ctx, c, documents)
	})
	if err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, waitTimeout, true, func(ctx context.Context) (bool, error) {
		list := &apiextensionsv1.CustomResourceDefinitionList{}
		if err := c.List(ctx, list); err != nil {
			return false, err
		}
		for i := range list.Items {
			if !established(&list.Items[i]) {
				return false, nil
			}
		}
		return true, nil
	})
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, condition := range crd.Status.Conditions {
		if condition.Type == apiextensionsv1.Established {
			return condition.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

// awaitAggregation waits until the controller manager has gathered the rules of the role.
func awaitAggregation(ctx context.Context, c client.Client, name string) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, waitTimeout, true, func(ctx context.Context) (bool, error) {
		role := &rbacv1.ClusterRole{}
		err := c.Get(ctx, client.ObjectKey{Name: name}, role)
		return err == nil && len(role.Rules) > 0, err
	})
}
