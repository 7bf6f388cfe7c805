// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workflow

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ObjectWithConditions is an object that reports conditions.
type ObjectWithConditions interface {
	client.Object
	conditions.Getter
}

// MachineDeployment is the workflow's MachineDeployment, to be read.
func (w *Workflow) MachineDeployment() *clusterv1.MachineDeployment {
	return &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Deployment()}}
}

// ClusterObject is the workflow's Cluster, to be read.
func (w *Workflow) ClusterObject() *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Cluster}}
}

// AwaitCondition waits until a condition of the object has the status, if one is given, and
// a message that contains the words.
func (w *Workflow) AwaitCondition(ctx context.Context, object ObjectWithConditions, kind string, status metav1.ConditionStatus, words string) error {
	what := fmt.Sprintf("condition %s of %s to be %s with %q in the message", kind, object.GetName(), status, words)
	return w.await(ctx, what, func(ctx context.Context) (string, error) {
		if err := w.Stack.ManagementClient.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return "", err
		}
		condition := conditions.Get(object, kind)
		switch {
		case condition == nil:
			return "no such condition yet", nil
		case (status != "" && condition.Status != status) || !strings.Contains(condition.Message, words):
			return fmt.Sprintf("it is %s: %s", condition.Status, condition.Message), nil
		}
		return "", nil
	})
}
