// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
)

// Rule is what the value of one annotation must be.
type Rule struct {
	// Key of the annotation.
	Key string
	// Understood reports whether a value means anything; all are the object's annotations.
	Understood func(value string, all map[string]string) bool
	// Allowed are the values to use, and Otherwise is what happens until one of them is used.
	Allowed, Otherwise string
}

// Freeze is the rule for drover.io/freeze.
var Freeze = Rule{
	Key: droverpolicyv1.FreezeAnnotation,
	Understood: func(_ string, all map[string]string) bool {
		return droverpolicyv1.FreezeSettingOf(all) != droverpolicyv1.FreezeInvalid
	},
	Allowed: `"true" or "false"`, Otherwise: "it freezes",
}

// sizeIgnored is what becomes of a size that is not understood.
const sizeIgnored = "spec.replicas has no default, and the cluster autoscaler may stop for all its groups"

// NodeGroupSizes are the rules for the sizes between which the cluster autoscaler scales.
var NodeGroupSizes = []Rule{
	{Key: clusterv1.AutoscalerMinSizeAnnotation, Understood: isCount, Allowed: "a number from 0", Otherwise: sizeIgnored},
	{Key: clusterv1.AutoscalerMaxSizeAnnotation, Understood: isMaxSize, Allowed: "a number that is no less than " + clusterv1.AutoscalerMinSizeAnnotation, Otherwise: sizeIgnored},
}

// SkipPreflightChecks is the rule for machineset.cluster.x-k8s.io/skip-preflight-checks.
var SkipPreflightChecks = Rule{
	Key: clusterv1.MachineSetSkipPreflightChecksAnnotation,
	Understood: func(value string, _ map[string]string) bool {
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.TrimSpace(name); name != "" && !slices.Contains(preflightChecks, name) {
				return false
			}
		}
		return true
	},
	Allowed: strings.Join(preflightChecks, ", ") + ", or several of them separated by commas", Otherwise: "other names skip no check",
}

// preflightChecks are the names that upstream accepts. ControlPlaneVersionSkew is for ClusterClasses, which Drover does not serve.
var preflightChecks = []string{
	string(clusterv1.MachineSetPreflightCheckAll), string(clusterv1.MachineSetPreflightCheckControlPlaneIsStable),
	string(clusterv1.MachineSetPreflightCheckControlPlaneVersionSkew), string(clusterv1.MachineSetPreflightCheckKubeadmVersionSkew),
	string(clusterv1.MachineSetPreflightCheckKubernetesVersionSkew),
}

// Count reads a number of Machines.
func Count(value string) (int32, bool) {
	n, err := strconv.ParseInt(value, 10, 32)
	return int32(n), err == nil && n >= 0
}

func isCount(value string, _ map[string]string) bool {
	_, ok := Count(value)
	return ok
}

func isMaxSize(value string, all map[string]string) bool {
	most, ok := Count(value)
	least, known := Count(all[clusterv1.AutoscalerMinSizeAnnotation])
	return ok && (!known || most >= least)
}

// Object is an object with annotations and conditions.
type Object interface {
	metav1.Object
	conditions.Setter
}

// Validate sets the condition AnnotationsValid to False while an annotation has a value that its rule does not
// understand, and removes it otherwise. It returns the message when that is new, for an event.
func Validate(object Object, rules ...Rule) (changed string) {
	var problems []string
	for _, rule := range rules {
		value, present := object.GetAnnotations()[rule.Key]
		if present && !rule.Understood(value, object.GetAnnotations()) {
			problems = append(problems, fmt.Sprintf("the annotation %s is %q: use %s; until then %s", rule.Key, value, rule.Allowed, rule.Otherwise))
		}
	}
	if len(problems) == 0 {
		conditions.Delete(object, droverpolicyv1.AnnotationsValidCondition)
		return ""
	}
	message := strings.Join(problems, "; ")
	if conditions.GetMessage(object, droverpolicyv1.AnnotationsValidCondition) != message {
		changed = message
	}
	conditions.Set(object, metav1.Condition{
		Type: droverpolicyv1.AnnotationsValidCondition, Status: metav1.ConditionFalse, Reason: droverpolicyv1.InvalidValueReason, Message: message,
	})
	return changed
}
