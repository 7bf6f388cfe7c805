// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/workload"
)

// checkKubeadm checks that the ConfigMaps exist that kubeadm join reads, so that no machine is created that cannot join.
func checkKubeadm(ctx context.Context, s *state, connection *workload.Connection) error {
	if s.config.Spec.Join.Method != bootstrapv1.JoinKubeadm {
		return nil
	}
	for _, name := range []string{"kubeadm-config", "kubelet-config"} {
		_, err := connection.Core.ConfigMaps(metav1.NamespaceSystem).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return notMadeByKubeadm(name)
		}
		if err != nil {
			return toWaiting(connection, err)
		}
	}
	return nil
}
