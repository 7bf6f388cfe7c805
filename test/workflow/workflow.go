// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package workflow has the main workflow in steps: machines join a cluster, scale, roll and are
// deleted, and nothing is left of them. The quickstart shows it, and the
// scenario tests run it while they cause failures. It uses the clusters as a user would,
// through the API alone, and waits by looking.
package workflow

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/test/framework"
)

// Kubernetes is the version of the workload cluster and its machines.
const Kubernetes = "v1.36.3"

// pollPeriod is how often the clusters are looked at while waiting.
const pollPeriod = 100 * time.Millisecond

//go:embed sample.yaml
var sample string

// Workflow is one Cluster with one MachineDeployment in a stack.
type Workflow struct {
	Stack              *framework.Stack
	Namespace, Cluster string
	// Server is where the managers find the workload API server, if not where it is.
	Server string
	// Host is the address of the workload API server for machines, on its own port, if not where it is.
	Host string
	// SharesWorkload is set if other Clusters have machines in the workload cluster at the same time. Their Nodes, which
	// have names of other MachineDeployments, and bootstrap tokens, which do not say whose they are, are ignored then.
	SharesWorkload bool
}

// Deployment is the name of the workflow's MachineDeployment.
func (w *Workflow) Deployment() string { return w.Cluster + "-workers" }

func (w *Workflow) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: w.Namespace, Name: name}
}

// Create creates the kubeconfig Secret, the Cluster, both templates and the MachineDeployment.
func (w *Workflow) Create(ctx context.Context, replicas int32) error {
	if err := w.CreateKubeconfig(ctx); err != nil {
		return err
	}
	documents, err := w.Sample(replicas)
	if err != nil {
		return err
	}
	return framework.Apply(ctx, w.Stack.ManagementClient, documents)
}

// CreateKubeconfig creates the kubeconfig Secret. Its user is a member of drover:managers in the workload cluster, no
// administrator.
func (w *Workflow) CreateKubeconfig(ctx context.Context) error {
	kubeconfig, err := w.Stack.Workload.Kubeconfig("drover", "drover:managers")
	if err != nil {
		return fmt.Errorf("making a kubeconfig: %w", err)
	}
	if w.Server != "" {
		if kubeconfig, err = framework.WithServer(kubeconfig, w.Server); err != nil {
			return err
		}
	}
	if err := w.Stack.ManagementClient.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Namespace, Name: w.Cluster + "-kubeconfig",
			Labels: map[string]string{clusterv1.ClusterNameLabel: w.Cluster},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{"value": kubeconfig},
	}); err != nil {
		return fmt.Errorf("creating the kubeconfig Secret: %w", err)
	}
	return nil
}

// Sample renders the YAML of the Cluster, its templates and its MachineDeployment.
func (w *Workflow) Sample(replicas int32) ([]byte, error) {
	parsed, err := template.New("sample.yaml").Parse(sample)
	if err != nil {
		return nil, err
	}
	host, port := w.Stack.Workload.Endpoint()
	host = cmp.Or(w.Host, host)
	var documents bytes.Buffer
	err = parsed.Execute(&documents, map[string]any{
		"Namespace": w.Namespace, "Cluster": w.Cluster, "Host": host, "Port": port, "Replicas": replicas, "Version": Kubernetes,
	})
	return documents.Bytes(), err
}

// Scale sets the number of machines.
func (w *Workflow) Scale(ctx context.Context, replicas int32) error {
	return w.patchDeployment(ctx, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = &replicas })
}

// Roll makes a template with another instance type and points the MachineDeployment at it.
func (w *Workflow) Roll(ctx context.Context, instanceType string) error {
	next := &infrav1.SimMachineTemplate{}
	if err := w.Stack.ManagementClient.Get(ctx, w.key(w.Cluster+"-small"), next); err != nil {
		return err
	}
	next.ObjectMeta = metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Cluster + "-" + instanceType}
	next.Spec.Template.Spec.InstanceType = instanceType
	if err := w.Stack.ManagementClient.Create(ctx, next); err != nil {
		return err
	}
	return w.patchDeployment(ctx, func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.InfrastructureRef.Name = next.Name })
}

// faulty is the name of the MachineDeployment that CreateFaulty creates, and of its template.
const faulty = "faulty"

// CreateFaulty creates a MachineDeployment of one Machine whose simulated instance has faults.
func (w *Workflow) CreateFaulty(ctx context.Context, faults infrav1.SimFaults) error {
	template := &infrav1.SimMachineTemplate{}
	if err := w.Stack.ManagementClient.Get(ctx, w.key(w.Cluster+"-small"), template); err != nil {
		return err
	}
	template.ObjectMeta = metav1.ObjectMeta{Namespace: w.Namespace, Name: faulty}
	template.Spec.Template.Spec.Faults = faults
	if err := w.Stack.ManagementClient.Create(ctx, template); err != nil {
		return err
	}
	md := w.MachineDeployment()
	if err := w.Stack.ManagementClient.Get(ctx, client.ObjectKeyFromObject(md), md); err != nil {
		return err
	}
	spec := clusterv1.MachineDeploymentSpec{ClusterName: w.Cluster, Replicas: ptr.To(int32(1)), Template: md.Spec.Template}
	spec.Template.Spec.InfrastructureRef.Name = faulty
	md = &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: faulty}, Spec: spec}
	return w.Stack.ManagementClient.Create(ctx, md)
}

// DeleteFaulty deletes what CreateFaulty created.
func (w *Workflow) DeleteFaulty(ctx context.Context) error {
	meta := metav1.ObjectMeta{Namespace: w.Namespace, Name: faulty}
	return errors.Join(
		w.Stack.ManagementClient.Delete(ctx, &clusterv1.MachineDeployment{ObjectMeta: meta}),
		w.Stack.ManagementClient.Delete(ctx, &infrav1.SimMachineTemplate{ObjectMeta: meta}),
	)
}

// Freeze sets the annotation with which an operator freezes the MachineDeployment. Thaw removes it.
func (w *Workflow) Freeze(ctx context.Context) error {
	return w.annotate(ctx, droverpolicyv1.FreezeAnnotation, "true")
}

// Thaw removes what Freeze sets.
func (w *Workflow) Thaw(ctx context.Context) error {
	return w.annotate(ctx, droverpolicyv1.FreezeAnnotation, "")
}

// annotate sets an annotation of the MachineDeployment. An empty value removes it.
func (w *Workflow) annotate(ctx context.Context, name, value string) error {
	return w.patchDeployment(ctx, func(md *clusterv1.MachineDeployment) {
		if value == "" {
			delete(md.Annotations, name)
			return
		}
		metav1.SetMetaDataAnnotation(&md.ObjectMeta, name, value)
	})
}

func (w *Workflow) patchDeployment(ctx context.Context, do func(*clusterv1.MachineDeployment)) error {
	md := &clusterv1.MachineDeployment{}
	if err := w.Stack.ManagementClient.Get(ctx, w.key(w.Deployment()), md); err != nil {
		return err
	}
	before := md.DeepCopy()
	do(md)
	return w.Stack.ManagementClient.Patch(ctx, md, client.MergeFrom(before))
}

// Delete deletes the Cluster, waits until it is gone with everything that it owns, and deletes
// what the user brought: templates and kubeconfig.
func (w *Workflow) Delete(ctx context.Context) error {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Cluster}}
	if err := w.Stack.ManagementClient.Delete(ctx, cluster); client.IgnoreNotFound(err) != nil {
		return err
	}
	if err := w.await(ctx, "the Cluster to be gone", func(ctx context.Context) (string, error) {
		err := w.Stack.ManagementClient.Get(ctx, client.ObjectKeyFromObject(cluster), &clusterv1.Cluster{})
		if err != nil {
			return "", client.IgnoreNotFound(err)
		}
		return "it is still there", nil
	}); err != nil {
		return err
	}
	for _, kind := range []client.Object{&infrav1.SimMachineTemplate{}, &bootstrapv1.BootstrapConfigTemplate{}} {
		if err := w.Stack.ManagementClient.DeleteAllOf(ctx, kind, client.InNamespace(w.Namespace)); err != nil {
			return err
		}
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Cluster + "-kubeconfig"}}
	return client.IgnoreNotFound(w.Stack.ManagementClient.Delete(ctx, secret))
}

// await looks until what is awaited has come, which an empty answer means, or ctx is over;
// the error then has the last state. Errors of the API server only delay.
func (w *Workflow) await(ctx context.Context, what string, missing func(context.Context) (string, error)) error {
	var last string
	err := wait.PollUntilContextCancel(ctx, pollPeriod, true, func(ctx context.Context) (bool, error) {
		for _, m := range w.Stack.Managers() {
			if err := m.Err(); err != nil && !m.ExitAllowed() {
				return false, err
			}
		}
		seen, err := missing(ctx)
		if err != nil {
			last = err.Error()
			return false, nil //nolint:nilerr // an API server that does not answer is looked at again
		}
		last = seen
		return seen == "", nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w (%s)", what, err, last)
	}
	return nil
}
