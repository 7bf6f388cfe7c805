// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/contract"
)

// templateRetry is how often a template that does not exist is looked for.
const templateRetry = 30 * time.Second

// requester creates and deletes the objects by which a controller outside is asked to mend
// Machines: one for each, under the Machine's name and owned by it.
type requester struct {
	client client.Client
	live   client.Reader
	check  *clusterv1.MachineHealthCheck
	// template is read once, when the first request is to be made.
	template *contract.Template
	err      error
}

// errTemplateMissing says that the template, or its kind, does not exist.
var errTemplateMissing = errors.New("it does not exist")

func isTemplateMissing(err error) bool { return errors.Is(err, errTemplateMissing) }

// ensure creates the request for a Machine unless it exists.
func (q *requester) ensure(ctx context.Context, m *clusterv1.Machine) error {
	existing := q.named(m)
	err := q.live.Get(ctx, client.ObjectKeyFromObject(existing), existing)
	if err == nil {
		return nil
	}
	if !absent(err) {
		return fmt.Errorf("reading %s %q: %w", existing.GetKind(), existing.GetName(), err)
	}
	template, err := q.read(ctx)
	if err != nil {
		return err
	}
	request, err := template.Object(contract.Birth{
		Name:        m.Name,
		ClusterName: m.Spec.ClusterName,
		Owner:       metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: m.Name, UID: m.UID},
	})
	if err != nil {
		return err
	}
	if err := q.client.Create(ctx, request); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating %s %q: %w", request.GetKind(), request.GetName(), err)
	}
	return nil
}

// withdraw deletes the request for a Machine that is healthy again.
func (q *requester) withdraw(ctx context.Context, m *clusterv1.Machine) error {
	if !q.check.Spec.Remediation.TemplateRef.IsDefined() || !conditions.Has(m, clusterv1.MachineExternallyRemediatedCondition) {
		return nil
	}
	request := q.named(m)
	if err := q.client.Delete(ctx, request); err != nil && !absent(err) {
		return fmt.Errorf("deleting %s %q: %w", request.GetKind(), request.GetName(), err)
	}
	return nil
}

// named is the request for a Machine, by kind and name alone.
func (q *requester) named(m *clusterv1.Machine) *unstructured.Unstructured {
	gvk := q.check.Spec.Remediation.TemplateRef.GroupVersionKind()
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "Template")
	request := &unstructured.Unstructured{}
	request.SetGroupVersionKind(gvk)
	request.SetNamespace(m.Namespace)
	request.SetName(m.Name)
	return request
}

func (q *requester) read(ctx context.Context) (*contract.Template, error) {
	if q.template != nil || q.err != nil {
		return q.template, q.err
	}
	ref := q.check.Spec.Remediation.TemplateRef
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(ref.GroupVersionKind())
	err := q.live.Get(ctx, client.ObjectKey{Namespace: q.check.Namespace, Name: ref.Name}, object)
	switch {
	case absent(err):
		q.err = fmt.Errorf("spec.remediation.templateRef: %s %q: %w", ref.Kind, ref.Name, errTemplateMissing)
	case err != nil:
		q.err = fmt.Errorf("reading %s %q: %w", ref.Kind, ref.Name, err)
	default:
		q.template = &contract.Template{Unstructured: object}
	}
	return q.template, q.err
}

// absent reports whether an object, or its whole kind, does not exist.
func absent(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }
