// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/machine-controller/internal/health"
)

// logWritten logs what has changed about the health of a Machine, once it was written: a request for its remediation
// above all, otherwise that it became unhealthy or healthy again.
func logWritten(ctx context.Context, before, after *clusterv1.Machine) {
	log := ctrl.LoggerFrom(ctx).WithValues("Machine", klog.KObj(after))
	was, is := conditions.Get(before, clusterv1.MachineHealthCheckSucceededCondition), conditions.Get(after, clusterv1.MachineHealthCheckSucceededCondition)
	unhealthy := is != nil && is.Status == metav1.ConditionFalse
	wasUnhealthy := was != nil && was.Status == metav1.ConditionFalse
	switch {
	case health.Marked(after) && !health.Marked(before) && unhealthy:
		log.Info("marked Machine for remediation", "reason", is.Reason, "message", is.Message)
	case health.Marked(after) && !health.Marked(before):
		log.Info("marked Machine for remediation")
	case health.Marked(before) && !health.Marked(after):
		log.Info("unmarked Machine")
	case unhealthy && !wasUnhealthy:
		log.Info("Machine became unhealthy", "reason", is.Reason, "message", is.Message)
	case wasUnhealthy && !unhealthy:
		log.Info("Machine became healthy")
	}
}

// logStatusWritten logs that remediation was restricted or allowed again, once it was written.
func logStatusWritten(ctx context.Context, before, after *clusterv1.MachineHealthCheck) {
	log := ctrl.LoggerFrom(ctx)
	was := conditions.Get(before, clusterv1.MachineHealthCheckRemediationAllowedCondition)
	is := conditions.Get(after, clusterv1.MachineHealthCheckRemediationAllowedCondition)
	switch {
	case is == nil || (was != nil && was.Status == is.Status && was.Reason == is.Reason):
	case is.Status == metav1.ConditionFalse:
		log.Info("restricted remediation", "reason", is.Reason, "message", is.Message)
	case was != nil && is.Status == metav1.ConditionTrue:
		log.Info("allowed remediation")
	}
}
