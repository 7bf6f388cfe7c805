// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/machineset/creation"
)

// TestRefusedChildrenAreReported: a quota of the namespace has room for the Machines, and none for what they are made of.
func TestRefusedChildrenAreReported(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.templates()
	set := machineSet(w.namespace)
	set.Spec.Replicas = new(int32(1))
	m := creation.NewMachine(set, "m")
	conditions.Set(m, metav1.Condition{
		Type: clusterv1.MachineInfrastructureReadyCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineInfrastructureDoesNotExistReason,
	})
	full := interceptor.NewClient(nil, interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "thingmachines"}, o.GetName(), errors.New("exceeded quota: machines"))
		},
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return nil
		},
	})
	r := &repairer{&creation.Creator{Client: full, Templates: &contract.Templates{Resolver: &contract.Resolver{Reader: w.client}, Live: w.client}}}
	s := &state{set: set, cluster: &clusterv1.Cluster{}, machines: []*clusterv1.Machine{m}}
	if _, err := r.run(t.Context(), s); err == nil {
		t.Error("it is not tried again")
	}
	setScalingUp(s)
	if message := conditions.GetMessage(set, clusterv1.MachineSetScalingUpCondition); !strings.Contains(message, "exceeded quota") {
		t.Errorf("the message is %q", message)
	}
}
