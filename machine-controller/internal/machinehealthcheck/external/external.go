// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package external creates and deletes remediation requests: the objects by which a MachineHealthCheck hands a Machine
// to an external remediation controller, made from the template that the check refers to. The machinehealthcheck
// controller decides for which Machines.
package external

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/contract"
	"drover.io/runtime/predicates"
)

// Requests creates and deletes the remediation requests of one MachineHealthCheck: one for each Machine, with the
// Machine's name and owned by it.
type Requests struct {
	client client.Client
	live   client.Reader
	check  *clusterv1.MachineHealthCheck
	// template is read once, when the first request is created.
	template *contract.Template
	err      error
}

// NewRequests returns the requests of a check. Templates and requests are read live: they are not cached.
func NewRequests(c client.Client, live client.Reader, check *clusterv1.MachineHealthCheck) *Requests {
	return &Requests{client: c, live: live, check: check}
}

// errTemplateMissing means that the template, or its kind, does not exist.
var errTemplateMissing = errors.New("it does not exist")

// IsTemplateMissing reports whether a request cannot be made because its template does not exist.
func IsTemplateMissing(err error) bool { return errors.Is(err, errTemplateMissing) }

// errForeignRequest means that an object has a request's kind and name and is not the request for the
// Machine.
var errForeignRequest = errors.New("it is not a remediation request for this Machine: delete or rename it")

// errDeleting means that the request for the Machine is being deleted: its finalizers keep it.
var errDeleting = errors.New("it is being deleted, and is made again once it is gone")

// NeedsCorrection reports whether a request cannot be made until a user corrects something, or another controller has
// removed its finalizer.
func NeedsCorrection(err error) bool {
	return IsTemplateMissing(err) || errors.Is(err, errForeignRequest) || errors.Is(err, errDeleting) || contract.IsInvalidReference(err)
}

// Ensure creates the request for a Machine unless it exists.
func (q *Requests) Ensure(ctx context.Context, m *clusterv1.Machine) error {
	if err := q.checkReference(); err != nil {
		return err
	}
	existing := q.request(m)
	if err := q.checkKind(existing); err != nil {
		return err
	}
	err := q.live.Get(ctx, client.ObjectKeyFromObject(existing), existing)
	if err == nil {
		if err := q.checkRequest(m, existing); err != nil || existing.GetDeletionTimestamp() == nil {
			return err
		}
		return fmt.Errorf("%s %q exists: %w", existing.GetKind(), existing.GetName(), errDeleting)
	}
	if !notFound(err) {
		return fmt.Errorf("reading %s %q: %w", existing.GetKind(), existing.GetName(), err)
	}
	template, err := q.read(ctx)
	if err != nil {
		return err
	}
	request, err := template.Object(contract.Metadata{
		Name:        m.Name,
		ClusterName: m.Spec.ClusterName,
		Labels:      predicates.Inherit(nil, m),
		Owner:       *metav1.NewControllerRef(m, clusterv1.GroupVersion.WithKind("Machine")),
	})
	if err != nil {
		return err
	}
	if err := q.client.Create(ctx, request); err != nil {
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return fmt.Errorf("creating %s %q: %w", request.GetKind(), request.GetName(), err)
	}
	ctrl.LoggerFrom(ctx).Info("created remediation request", "Machine", klog.KObj(m), request.GetKind(), klog.KObj(request))
	return nil
}

// Delete deletes the request for a Machine that is healthy again, or exempt. An object that is not the
// request stays, and so does a request whose owner has changed since it was read.
func (q *Requests) Delete(ctx context.Context, m *clusterv1.Machine) error {
	if !conditions.Has(m, clusterv1.MachineExternallyRemediatedCondition) {
		return nil
	}
	return q.DeleteEarlier(ctx, m)
}

// DeleteEarlier deletes the request for a Machine whatever its conditions are, as Delete does. It is for one that an
// earlier check has left: no check that is deleted, or selects the Machine no more, deletes its requests.
func (q *Requests) DeleteEarlier(ctx context.Context, m *clusterv1.Machine) error {
	if !q.check.Spec.Remediation.TemplateRef.IsDefined() || q.checkReference() != nil {
		return nil //nolint:nilerr // only requests of this check are deleted; Ensure reports the error
	}
	request := q.request(m)
	if q.checkKind(request) != nil {
		return nil //nolint:nilerr // no request of such a kind is made; Ensure reports the error
	}
	if err := q.live.Get(ctx, client.ObjectKeyFromObject(request), request); err != nil {
		if notFound(err) {
			return nil
		}
		return fmt.Errorf("reading %s %q: %w", request.GetKind(), request.GetName(), err)
	}
	if q.checkRequest(m, request) != nil || request.GetDeletionTimestamp() != nil {
		return nil //nolint:nilerr // only the request of the Machine is deleted
	}
	as := client.Preconditions{UID: new(request.GetUID()), ResourceVersion: new(request.GetResourceVersion())}
	if err := q.client.Delete(ctx, request, as); err != nil {
		if notFound(err) {
			return nil
		}
		return fmt.Errorf("deleting %s %q: %w", request.GetKind(), request.GetName(), err)
	}
	ctrl.LoggerFrom(ctx).Info("deleted remediation request", "Machine", klog.KObj(m), request.GetKind(), klog.KObj(request))
	return nil
}

// checkReference refuses a template from which no request can be made.
func (q *Requests) checkReference() error {
	if err := contract.CheckRemediationTemplate(q.check.Spec.Remediation.TemplateRef.GroupVersionKind().GroupKind()); err != nil {
		return fmt.Errorf("spec.remediation.templateRef: %w", err)
	}
	return nil
}

// checkKind refuses requests of a kind that belongs to no namespace. A kind that does not exist is reported where it is read.
func (q *Requests) checkKind(request *unstructured.Unstructured) error {
	namespaced, err := q.client.IsObjectNamespaced(request)
	if err == nil && !namespaced {
		return fmt.Errorf("spec.remediation.templateRef: %w", contract.CheckScope(request.GroupVersionKind().GroupKind(), &unstructured.Unstructured{}))
	}
	if err != nil && !notFound(err) {
		return fmt.Errorf("reading the kind %s: %w", request.GetKind(), err)
	}
	return nil
}

// checkRequest refuses an object that was not made from a template of this kind for the
// Machine, by the UID in its owner references. Upstream's requests have an owner that is no
// controller; ours, and no others, may have the Machine as their controller.
func (q *Requests) checkRequest(m *clusterv1.Machine, request *unstructured.Unstructured) error {
	of := q.check.Spec.Remediation.TemplateRef.GroupVersionKind().GroupKind().String()
	controller := metav1.GetControllerOfNoCopy(request)
	if !contract.HasOwner(request, m.UID) || (controller != nil && controller.UID != m.UID) || request.GetAnnotations()[clusterv1.TemplateClonedFromGroupKindAnnotation] != of {
		return fmt.Errorf("%s %q exists: %w", request.GetKind(), request.GetName(), errForeignRequest)
	}
	return nil
}

// request is the request for a Machine, with its kind and name alone.
func (q *Requests) request(m *clusterv1.Machine) *unstructured.Unstructured {
	gvk := q.check.Spec.Remediation.TemplateRef.GroupVersionKind()
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "Template")
	request := &unstructured.Unstructured{}
	request.SetGroupVersionKind(gvk)
	request.SetNamespace(m.Namespace)
	request.SetName(m.Name)
	return request
}

func (q *Requests) read(ctx context.Context) (*contract.Template, error) {
	if q.template != nil || q.err != nil {
		return q.template, q.err
	}
	ref := q.check.Spec.Remediation.TemplateRef
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(ref.GroupVersionKind())
	err := q.live.Get(ctx, client.ObjectKey{Namespace: q.check.Namespace, Name: ref.Name}, object)
	switch {
	case notFound(err):
		q.err = fmt.Errorf("spec.remediation.templateRef: %s %q: %w", ref.Kind, ref.Name, errTemplateMissing)
	case err != nil:
		q.err = fmt.Errorf("reading %s %q: %w", ref.Kind, ref.Name, err)
	default:
		q.template = &contract.Template{Unstructured: object}
		if err := contract.CheckScope(ref.GroupVersionKind().GroupKind(), object); err != nil {
			q.err = fmt.Errorf("spec.remediation.templateRef: %w", err)
		}
	}
	return q.template, q.err
}

// notFound reports whether an object, or its whole kind, does not exist.
func notFound(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }
