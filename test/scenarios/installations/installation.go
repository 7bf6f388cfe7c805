// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package installations runs two complete installations of Drover on one management cluster,
// divided by --watch-filter or by --namespace, and proves by the API servers' audit logs that
// neither writes anything that is the other's.
package installations

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/controlplane/binaries"
	"drover.io/test/framework"
	"drover.io/test/install/helm"
	"drover.io/test/process"
)

//go:embed side.yaml
var side string

//go:embed traps.yaml
var traps string

// installation is one of two: its managers and its objects, whose names all begin with its name.
type installation struct {
	stack *framework.Stack
	name  string
	// accounts is the namespace of its ServiceAccounts.
	accounts string
	// namespace is that of its objects.
	namespace string
	// labelled means that its objects have the watch-filter label, with its name. The permissions are then those of the
	// whole cluster.
	labelled bool

	managers []*framework.Manager
}

// programs are the managers and their ServiceAccounts.
var programs = map[string]string{
	"machine-controller": "drover-machine-controller", "bootstrap": "drover-bootstrap", "infra-sim": "drover-infra-sim",
}

// permit makes the ServiceAccounts and their permissions. An installation of one namespace has those of the chart, which
// hold in that namespace; the other one has the cluster roles of the manifests.
func (i *installation) permit(ctx context.Context) error {
	if !i.labelled {
		return i.installChart(ctx)
	}
	return i.copyRoles(ctx)
}

// installChart installs the chart for the namespace of the objects. Nothing runs its Pods here: the managers are started
// under its ServiceAccounts.
func (i *installation) installChart(ctx context.Context) error {
	root, err := binaries.Root()
	if err != nil {
		return err
	}
	folder := filepath.Join(i.stack.Dir, i.accounts+"-release")
	if err := helm.MakeRelease(ctx, root, "v0.1.0", folder); err != nil {
		return err
	}
	chart, err := helm.Load(folder, "v0.1.0")
	if err != nil {
		return err
	}
	h, err := helm.New(i.stack.Kubeconfig("management"), i.accounts)
	if err != nil {
		return err
	}
	return h.Install(ctx, "drover", chart, map[string]any{
		"watchNamespace": i.namespace,
		"infrastructure": map[string]any{"sim": nil},
		"crds":           map[string]any{"enabled": false}, // they are there
	}, false)
}

// copyRoles gives the ServiceAccounts what the shipped ones have: their cluster roles, and the roles of their own
// namespace in this one.
func (i *installation) copyRoles(ctx context.Context) error {
	c := i.stack.ManagementClient
	if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: i.accounts}}); err != nil {
		return err
	}
	for _, account := range programs {
		if err := c.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: i.accounts, Name: account}}); err != nil {
			return err
		}
	}
	shipped := &rbacv1.ClusterRoleBindingList{}
	if err := c.List(ctx, shipped); err != nil {
		return err
	}
	for _, binding := range shipped.Items {
		if len(binding.Subjects) != 1 || binding.Subjects[0].Namespace != framework.Namespace {
			continue
		}
		copied := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: i.accounts + "-" + binding.Name}, RoleRef: binding.RoleRef,
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: i.accounts, Name: binding.Subjects[0].Name}},
		}
		if err := c.Create(ctx, copied); err != nil {
			return err
		}
	}
	roles := &rbacv1.RoleList{}
	if err := c.List(ctx, roles, client.InNamespace(framework.Namespace)); err != nil {
		return err
	}
	bindings := &rbacv1.RoleBindingList{}
	if err := c.List(ctx, bindings, client.InNamespace(framework.Namespace)); err != nil {
		return err
	}
	for _, role := range roles.Items {
		if err := c.Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: i.accounts, Name: role.Name}, Rules: role.Rules}); err != nil {
			return err
		}
	}
	for _, binding := range bindings.Items {
		copied := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: i.accounts, Name: binding.Name}, RoleRef: binding.RoleRef}
		for _, subject := range binding.Subjects {
			copied.Subjects = append(copied.Subjects, rbacv1.Subject{Kind: subject.Kind, Namespace: i.accounts, Name: subject.Name})
		}
		if err := c.Create(ctx, copied); err != nil {
			return err
		}
	}
	return nil
}

// launch starts the managers.
func (i *installation) launch(ctx context.Context, args ...string) error {
	root, err := binaries.Root()
	if err != nil {
		return err
	}
	for program, account := range programs {
		name := i.accounts + "-" + program
		kubeconfig, err := i.stack.ServiceAccountKubeconfig(ctx, name, i.accounts, account)
		if err != nil {
			return err
		}
		all := append([]string{"--kubeconfig=" + kubeconfig, "--metrics-bind-address=0", "--health-probe-bind-address=0", "--leader-elect=false", "--leader-election-namespace=" + i.accounts}, args...)
		if program == "infra-sim" {
			all = append(all, "--state-dir="+filepath.Join(i.stack.Dir, i.accounts+"-hosts"))
		}
		m, err := i.stack.Launch(name, process.Command{Path: filepath.Join(root, "bin", program), Args: all})
		if err != nil {
			return err
		}
		i.managers = append(i.managers, m)
	}
	return nil
}

// begin creates the objects of the installation, none of which has the label below its metadata.
func (i *installation) begin(ctx context.Context) error {
	kubeconfig, err := i.stack.Workload.Kubeconfig(i.accounts, "drover:managers")
	if err != nil {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: i.name + "-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: i.name}},
		Type:       clusterv1.ClusterSecretType, Data: map[string][]byte{"value": kubeconfig},
	}
	if err := i.stack.ManagementClient.Create(ctx, secret); err != nil {
		return err
	}
	parsed, err := template.New("side").Parse(side)
	if err != nil {
		return err
	}
	host, port := i.stack.Workload.Endpoint()
	var documents bytes.Buffer
	if err := parsed.Execute(&documents, map[string]any{"Name": i.name, "Host": host, "Port": port}); err != nil {
		return err
	}
	return i.create(ctx, documents.Bytes())
}

// create creates the documents in the namespace of the installation, labelled if its objects are.
func (i *installation) create(ctx context.Context, documents []byte) error {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(documents), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		object.SetNamespace(i.namespace)
		if labels := object.GetLabels(); i.labelled {
			if labels == nil {
				labels = map[string]string{}
			}
			labels[clusterv1.WatchLabel] = i.name
			object.SetLabels(labels)
		}
		if err := i.stack.ManagementClient.Create(ctx, object); err != nil {
			return fmt.Errorf("creating %s %q: %w", object.GetKind(), object.GetName(), err)
		}
	}
}

// running describes what the installation lacks to have three machines with Nodes; nothing once it has.
func (i *installation) running(ctx context.Context) (string, error) {
	list := &clusterv1.MachineList{}
	err := i.stack.ManagementClient.List(ctx, list, client.InNamespace(i.namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: i.name})
	if err != nil {
		return "", err
	}
	joined := 0
	for _, m := range list.Items {
		_, of := m.Labels["pool"]
		if of && m.DeletionTimestamp.IsZero() && m.Status.Phase == string(clusterv1.MachinePhaseRunning) {
			joined++
		}
	}
	md := &clusterv1.MachineDeployment{}
	if err := i.stack.ManagementClient.Get(ctx, client.ObjectKey{Namespace: i.namespace, Name: i.name + "-workers"}, md); err != nil {
		return "", err
	}
	status := md.Status
	if joined != 3 || status.ObservedGeneration != md.Generation || status.UpToDateReplicas == nil || *status.UpToDateReplicas != 2 || *status.Replicas != 2 {
		return fmt.Sprintf("%s: %d machines run", i.name, joined), nil
	}
	return "", nil
}

// roll points the MachineDeployment at another template.
func (i *installation) roll(ctx context.Context) error {
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: i.name + "-workers"}}
	patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"infrastructureRef":{"name":"%s-medium"}}}}}`, i.name)
	return i.stack.ManagementClient.Patch(ctx, md, client.RawPatch("application/merge-patch+json", []byte(patch)))
}
