// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"cmp"
	"context"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"drover.io/test/framework"
	"drover.io/test/scenarios/internal/parser"
)

// managers is the group that the shipped permissions of a workload cluster are for.
const managers = "drover:managers"

// writeKubeconfig writes the kubeconfig Secret of a Cluster, with credentials that are new, for a
// member of the group. Its server is the proxy of the workload cluster, or the
// management cluster.
func (r *Runner) writeKubeconfig(ctx context.Context, d parser.Document) error {
	reached := r.Stack.Workload
	host, port := r.proxy.Address()
	if d.In == parser.Management {
		reached = r.Stack.Management
		host, port = r.management()
	}
	raw, err := reached.Kubeconfig("drover", cmp.Or(d.Group, managers))
	if err != nil {
		return err
	}
	if raw, err = framework.WithServer(raw, "https://"+net.JoinHostPort(host, strconv.Itoa(port))); err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: d.Name + "-kubeconfig"}, Type: clusterv1.ClusterSecretType}
	_, err = controllerutil.CreateOrPatch(ctx, r.Stack.ManagementClient, secret, func() error {
		secret.Labels = map[string]string{clusterv1.ClusterNameLabel: d.Name}
		secret.Data = map[string][]byte{"value": raw}
		return nil
	})
	return err
}

// management is where the management cluster answers.
func (r *Runner) management() (host string, port int) {
	host, at := r.Stack.Management.Endpoint()
	return host, int(at)
}
