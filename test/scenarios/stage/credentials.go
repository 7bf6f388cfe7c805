// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// managers is the group that the shipped permissions of a workload cluster are for.
const managers = "drover:managers"

// giveKubeconfig writes the kubeconfig Secret of a Cluster, with credentials that are new and
// lead through the door, for a member of the group.
func (s *Stage) giveKubeconfig(ctx context.Context, cluster, group string) error {
	raw, err := s.Stack.Workload.Kubeconfig("drover", cmp.Or(group, managers))
	if err != nil {
		return err
	}
	config, err := clientcmd.Load(raw)
	if err != nil {
		return fmt.Errorf("reading a kubeconfig: %w", err)
	}
	host, port := s.door.Address()
	for _, entry := range config.Clusters {
		entry.Server = "https://" + net.JoinHostPort(host, strconv.Itoa(port))
	}
	if raw, err = clientcmd.Write(*config); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: cluster + "-kubeconfig"}, Type: clusterv1.ClusterSecretType}
	_, err = controllerutil.CreateOrPatch(ctx, s.Stack.Manage, secret, func() error {
		secret.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster}
		secret.Data = map[string][]byte{"value": raw}
		return nil
	})
	return err
}
