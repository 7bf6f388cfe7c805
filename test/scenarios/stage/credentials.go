// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"cmp"
	"context"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"drover.io/test/kit"
	"drover.io/test/scenarios/script"
)

// managers is the group that the shipped permissions of a workload cluster are for.
const managers = "drover:managers"

// giveKubeconfig writes the kubeconfig Secret of a Cluster, with credentials that are new, for a
// member of the group. It leads through the door to the workload cluster, or straight to the
// management cluster.
func (s *Stage) giveKubeconfig(ctx context.Context, d script.Document) error {
	reached := s.Stack.Workload
	host, port := s.door.Address()
	if d.In == script.Management {
		reached = s.Stack.Management
		host, port = s.management()
	}
	raw, err := reached.Kubeconfig("drover", cmp.Or(d.Group, managers))
	if err != nil {
		return err
	}
	if raw, err = kit.At(raw, "https://"+net.JoinHostPort(host, strconv.Itoa(port))); err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: d.Name + "-kubeconfig"}, Type: clusterv1.ClusterSecretType}
	_, err = controllerutil.CreateOrPatch(ctx, s.Stack.Manage, secret, func() error {
		secret.Labels = map[string]string{clusterv1.ClusterNameLabel: d.Name}
		secret.Data = map[string][]byte{"value": raw}
		return nil
	})
	return err
}

// management is where the management cluster answers.
func (s *Stage) management() (host string, port int) {
	host, at := s.Stack.Management.Endpoint()
	return host, int(at)
}
