// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"drover.io/infra-providers/driver"
)

// Namespace creates a namespace with a name that starts with prefix.
func (c *Cluster) Namespace(ctx context.Context, prefix string) (string, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-"}}
	err := c.Client.Create(ctx, namespace)
	return namespace.Name, err
}

// Cluster creates a worker-only Cluster whose infrastructure counts as provisioned.
func (c *Cluster) Cluster(ctx context.Context, namespace, name string) (*clusterv1.Cluster, error) {
	cluster := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       clusterv1.ClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 6443}},
	}
	if err := c.Client.Create(ctx, cluster); err != nil {
		return nil, err
	}
	cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	return cluster, c.Client.Status().Update(ctx, cluster)
}

// Machine creates a Machine with its bootstrap Secret and, owned by it, its infrastructure machine, all
// of one name, as the core would. The changes are made to the Machine before it is created.
func (c *Cluster) Machine(ctx context.Context, cluster *clusterv1.Cluster, infra driver.Machine, userData []byte, changes ...func(*clusterv1.Machine)) (*clusterv1.Machine, error) {
	kind, err := apiutil.GVKForObject(infra, c.Client.Scheme())
	if err != nil {
		return nil, err
	}
	name, labels := infra.GetName(), map[string]string{clusterv1.ClusterNameLabel: cluster.Name}
	machine := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: name, Labels: labels},
		Spec: clusterv1.MachineSpec{
			ClusterName:       cluster.Name,
			Bootstrap:         clusterv1.Bootstrap{DataSecretName: &name},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: kind.Group, Kind: kind.Kind, Name: name},
		},
	}
	for _, change := range changes {
		change(machine)
	}
	if err := c.Client.Create(ctx, machine); err != nil {
		return nil, fmt.Errorf("creating machine: %w", err)
	}
	infra.SetNamespace(cluster.Namespace)
	infra.SetLabels(labels)
	infra.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(machine, clusterv1.GroupVersion.WithKind("Machine"))})
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: name, Labels: labels},
		Data:       map[string][]byte{"value": userData, "format": []byte("cloud-config")},
	}
	if err := c.Client.Create(ctx, secret); err != nil {
		return nil, fmt.Errorf("creating bootstrap secret: %w", err)
	}
	if err := c.Client.Create(ctx, infra); err != nil {
		return nil, fmt.Errorf("creating infrastructure machine: %w", err)
	}
	return machine, nil
}

// As returns a configuration that acts as a ServiceAccount of drover-system with the role in a file.
func (c *Cluster) As(ctx context.Context, account, roleFile string) (*rest.Config, error) {
	content, err := os.ReadFile(roleFile)
	if err != nil {
		return nil, err
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.Unmarshal(content, role); err != nil {
		return nil, err
	}
	user := "system:serviceaccount:drover-system:" + account
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := c.Client.Create(ctx, object); err != nil {
			return nil, err
		}
	}
	return c.ca.AddUser(envtest.User{Name: user}, c.Config)
}

// BootstrapSecret is the Secret that Machine created for a Machine.
func BootstrapSecret(machine *clusterv1.Machine) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: *machine.Spec.Bootstrap.DataSecretName}}
}
