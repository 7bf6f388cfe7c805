// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/framework"
)

//go:embed objects.yaml
var objects string

// create makes the Secrets that the user brings and every object of the cell.
func (w *Environment) create(ctx context.Context) error {
	if w.Infrastructure == InMemory {
		return w.createInMemory(ctx)
	}
	kubeconfig := w.Stack.Workload.AdminKubeconfig()
	if err := w.provideUserObjects(ctx, "kubeconfig", map[string][]byte{"value": kubeconfig}); err != nil {
		return err
	}
	if w.Bootstrap == Kubeadm {
		// Upstream's kubeadm bootstrap requires a key beside the authority's certificate, and
		// makes no use of it for workers.
		authority := map[string][]byte{corev1.TLSCertKey: w.Stack.Workload.CA(), corev1.TLSPrivateKeyKey: []byte("not given away")}
		if err := w.provideUserObjects(ctx, "ca", authority); err != nil {
			return err
		}
	}
	if err := w.reach(kubeconfig); err != nil {
		return err
	}
	return w.apply(ctx)
}

// createInMemory brings the authorities that the fake API server and etcd are to use, and the
// kubeconfig once it is known where that API server is. Upstream's core writes one itself.
func (w *Environment) createInMemory(ctx context.Context) error {
	api, err := newAuthority("kubernetes")
	if err != nil {
		return err
	}
	etcd, err := newAuthority("etcd-ca")
	if err != nil {
		return err
	}
	for name, of := range map[string]*authority{"ca": api, "etcd": etcd} {
		if err := w.provideUserObjects(ctx, name, map[string][]byte{corev1.TLSCertKey: of.certificate, corev1.TLSPrivateKeyKey: of.key}); err != nil {
			return err
		}
	}
	if err := w.apply(ctx); err != nil {
		return err
	}
	var at clusterv1.APIEndpoint
	if err := w.await(ctx, "the Cluster to get the endpoint of its DevCluster", func(ctx context.Context) (string, error) {
		c := &clusterv1.Cluster{}
		err := w.Stack.ManagementClient.Get(ctx, key(cluster), c)
		if at = c.Spec.ControlPlaneEndpoint; err != nil || at.Host == "" {
			return "it has none", err
		}
		return "", nil
	}); err != nil {
		return err
	}
	kubeconfig, err := api.kubeconfig(fmt.Sprintf("https://%s:%d", at.Host, at.Port))
	if err != nil {
		return err
	}
	if w.Core == Drover {
		if err := w.provideUserObjects(ctx, "kubeconfig", map[string][]byte{"value": kubeconfig}); err != nil {
			return err
		}
	}
	return w.reach(kubeconfig)
}

// provideUserObjects creates one of the Cluster's Secrets.
func (w *Environment) provideUserObjects(ctx context.Context, suffix string, data map[string][]byte) error {
	return w.Stack.ManagementClient.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: cluster + "-" + suffix,
			Labels: map[string]string{clusterv1.ClusterNameLabel: cluster},
		},
		Type: clusterv1.ClusterSecretType,
		Data: data,
	})
}

func (w *Environment) apply(ctx context.Context) error {
	parsed, err := template.New("objects.yaml").Parse(objects)
	if err != nil {
		return err
	}
	host, port := w.Stack.Workload.Endpoint()
	var documents bytes.Buffer
	err = parsed.Execute(&documents, map[string]any{
		"Namespace": namespace, "Cluster": cluster, "Version": version, "Host": host, "Port": port,
		"Infrastructure": w.Infrastructure, "Bootstrap": w.Bootstrap,
		// Upstream's core takes a Cluster without a control plane for unfinished.
		"Stub":  w.Core == Upstream && w.Infrastructure == Sim,
		"Sizes": []string{"small", "medium"},
	})
	if err != nil {
		return err
	}
	return framework.Apply(ctx, w.Stack.ManagementClient, documents.Bytes())
}

func key(name string) client.ObjectKey { return client.ObjectKey{Namespace: namespace, Name: name} }
