// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinetemplate

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/errorreason"
)

// replaceAdvice is for an error in the spec: a template is immutable.
const replaceAdvice = "make a template of another name and refer to it"

// mismatchError means that the instance type cannot run the image.
type mismatchError struct{ machineProperties }

func (e *mismatchError) Error() string {
	kind := "the instance type"
	if e.instanceType != "" {
		kind += fmt.Sprintf(" %q", e.instanceType)
	}
	return fmt.Sprintf("the image %q is for %s and %s is %s", e.image.ID, e.image.Architecture, kind, e.size.Architecture)
}

// problemOf is what an error means for a template.
func problemOf(err error) errorreason.Problem {
	if _, ok := errors.AsType[*mismatchError](err); ok {
		return errorreason.Problem{
			Reason:   infrav1.ArchitectureMismatchReason,
			Advice:   "; choose an image and an instance type of one architecture: " + replaceAdvice,
			Terminal: true,
		}
	}
	problem := errorreason.Classify(err)
	if problem.Reason == infrav1.InvalidConfigurationReason {
		problem.Advice = "; " + replaceAdvice + ", or give the cloud what is missing"
	}
	return problem
}

// setValid sets that machines can be created, and from which image where that is known.
func setValid[M driver.Machine](template driver.Template[M], found machineProperties) {
	message := ""
	if found.image.ID != "" {
		message = fmt.Sprintf("the image is %q", found.image.ID)
	}
	if found.image.Warning != "" {
		message += ": " + found.image.Warning
	}
	setReady(template, metav1.ConditionTrue, infrav1.ValidReason, message)
}

// setInvalid sets why no machines can be created. A failure that may pass by itself does not change the condition of a
// template that was inspected before.
func setInvalid[M driver.Machine](template driver.Template[M], problem errorreason.Problem, cause error) {
	message := describe(cause) + problem.Advice
	switch known := ready(template.GetStatus()); {
	case !problem.Transient:
		setReady(template, metav1.ConditionFalse, problem.Reason, message)
	case known.Status == "" || known.Status == metav1.ConditionUnknown || known.ObservedGeneration != template.GetGeneration():
		setReady(template, metav1.ConditionUnknown, problem.Reason, message)
	}
}

// describe names the field as it is called in a template.
func describe(cause error) string {
	invalid, ok := errors.AsType[*driver.InvalidConfigurationError](cause)
	if !ok || !strings.HasPrefix(invalid.Field, "spec") {
		return cause.Error()
	}
	return fmt.Sprintf("spec.template.%s: %v", invalid.Field, invalid.Err)
}

// ready returns the Ready condition, empty without one.
func ready(status *infrav1.MachineTemplateStatus) metav1.Condition {
	if known := meta.FindStatusCondition(status.Conditions, clusterv1.ReadyCondition); known != nil {
		return *known
	}
	return metav1.Condition{}
}

func setReady[M driver.Machine](template driver.Template[M], status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&template.GetStatus().Conditions, metav1.Condition{
		Type:               clusterv1.ReadyCondition,
		Status:             status,
		Reason:             reason,
		Message:            errorreason.Truncate(message),
		ObservedGeneration: template.GetGeneration(),
	})
}
