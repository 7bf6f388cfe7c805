// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/api/reason"
	"drover.io/runtime/kubeconfig"
)

// KubeconfigProblem is what is wrong with the kubeconfig Secret of a Cluster that is connected, as [kubeconfig.Read] has read it,
// and otherwise a note if a change of the Secret is noticed late. Machine-controller keeps a connection that works, whatever
// becomes of the Secret, so the Cluster reports neither. Both are empty for a Cluster that is not connected or is being deleted,
// and if the Secret may not be read.
func KubeconfigProblem(c *clusterv1.Cluster, read kubeconfig.Kubeconfig, err error) (found *Finding, note string) {
	probe := meta.FindStatusCondition(c.Status.Conditions, clusterv1.ClusterRemoteConnectionProbeCondition)
	if probe == nil || probe.Status != metav1.ConditionTrue || !c.DeletionTimestamp.IsZero() {
		return nil, ""
	}
	if err == nil {
		_, err = kubeconfig.Rules{AllowProxy: true, AllowInsecureTLS: true}.RESTConfig(read.Content)
	}
	problem, is := errors.AsType[*kubeconfig.Error](err)
	label := fmt.Sprintf("%s=%s", clusterv1.ClusterNameLabel, c.Name)
	switch {
	case is && problem.Problem == kubeconfig.Unreadable:
		return nil, ""
	case is:
		ref := referenceOfCluster(c)
		return &Finding{
			Object: ref, Actor: reason.Operator, Facts: []string{problem.Message},
			Meaning: "machine-controller is still connected with a kubeconfig that its Secret no longer has: after a restart or a broken connection it cannot connect again, and no new machine can join",
			Help:    fmt.Sprintf("put a kubeconfig into data.value of the Secret %s, with the label %s", kubeconfig.SecretKey(client.ObjectKeyFromObject(c)).Name, label),
			Command: command("kubectl get secret {cluster}-kubeconfig --namespace {namespace}", ref),
		}, ""
	case err == nil && read.ClusterLabel != c.Name:
		return nil, fmt.Sprintf("Secret %s lacks the label %s: machine-controller notices a change of the Secret only once the former credentials are refused",
			kubeconfig.SecretKey(client.ObjectKeyFromObject(c)).Name, label)
	}
	return nil, ""
}

// kubeconfig reads the kubeconfig Secret of a Cluster for [KubeconfigProblem].
func (f *Finder) kubeconfig(ctx context.Context, c *clusterv1.Cluster) (*Finding, string) {
	read, err := kubeconfig.Read(ctx, f.Client, client.ObjectKeyFromObject(c))
	return KubeconfigProblem(c, read, err)
}
