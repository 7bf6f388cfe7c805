// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Estimator estimates from the pace that it has observed how long a rollout takes.
type Estimator struct {
	begun time.Time
	first int32
}

// EstimateRemaining returns the estimate in words, after a look at a MachineDeployment; it is empty until a Machine has become available
// since the first look.
func (e *Estimator) EstimateRemaining(md *clusterv1.MachineDeployment, now time.Time) string {
	done, desired := min(ptr.Deref(md.Status.UpToDateReplicas, 0), ptr.Deref(md.Status.AvailableReplicas, 0)), ptr.Deref(md.Spec.Replicas, 0)
	if e.begun.IsZero() || done < e.first {
		e.begun, e.first = now, done
	}
	left := desired - done
	if done <= e.first || left <= 0 {
		return ""
	}
	each := now.Sub(e.begun) / time.Duration(done-e.first)
	return fmt.Sprintf("about %s left at this pace", duration.HumanDuration(each*time.Duration(left)))
}
