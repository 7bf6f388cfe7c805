// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"text/template"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drover.io/test/framework"
)

//go:embed idle.yaml
var idleObjects string

// idle is the name of a MachineDeployment without Machines, and of its templates.
const idle = cluster + "-idle"

var idleTemplates = []schema.GroupVersionKind{
	{Group: "infrastructure.drover.io", Version: "v1alpha1", Kind: "SimMachineTemplate"},
	{Group: "bootstrap.drover.io", Version: "v1alpha1", Kind: "BootstrapConfigTemplate"},
}

// createIdle creates the MachineDeployment, and waits until its templates have an owner.
func (w *Environment) createIdle(ctx context.Context) error {
	parsed, err := template.New("idle.yaml").Parse(idleObjects)
	if err != nil {
		return err
	}
	var documents bytes.Buffer
	if err := parsed.Execute(&documents, map[string]any{"Namespace": namespace, "Cluster": cluster, "Version": version}); err != nil {
		return err
	}
	if err := framework.Apply(ctx, w.Stack.ManagementClient, documents.Bytes()); err != nil {
		return err
	}
	return w.await(ctx, "the templates of "+idle+" to have an owner", func(ctx context.Context) (string, error) {
		for _, kind := range idleTemplates {
			template, err := w.idleTemplate(ctx, kind)
			if err != nil || len(template.OwnerReferences) == 0 {
				return kind.Kind + " has none", err
			}
		}
		return "", nil
	})
}

// idleMoved checks whether the target has the templates, and the first management cluster does not.
func (w *Environment) idleMoved(source *Environment) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, kind := range idleTemplates {
			if _, err := w.idleTemplate(ctx, kind); err != nil {
				return fmt.Errorf("%s %s was not moved: %w", kind.Kind, idle, err)
			}
			switch _, err := source.idleTemplate(ctx, kind); {
			case err == nil:
				return fmt.Errorf("%s %s is left in the first management cluster", kind.Kind, idle)
			case !apierrors.IsNotFound(err):
				return err
			}
		}
		return nil
	}
}

func (w *Environment) idleTemplate(ctx context.Context, kind schema.GroupVersionKind) (*metav1.PartialObjectMetadata, error) {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(kind)
	return found, w.Stack.ManagementClient.Get(ctx, key(idle), found)
}
