// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/kubectl-drover/internal/object"
	"drover.io/kubectl-drover/internal/orphan"
	"drover.io/kubectl-drover/internal/why"
	"drover.io/runtime/kubeconfig"
	"drover.io/runtime/quantity"
)

// eachCluster visits all Clusters.
func (c *Checker) eachCluster(ctx context.Context, visit func(*clusterv1.Cluster)) error {
	return object.Each(ctx, c.Reader, object.Cluster, &clusterv1.ClusterList{}, func(page *clusterv1.ClusterList) error {
		for i := range page.Items {
			visit(&page.Items[i])
		}
		return nil
	}, client.InNamespace(c.Namespace))
}

// clusters checks every workload cluster, as the Cluster reports it.
func (c *Checker) clusters(ctx context.Context) []Result {
	var results []Result
	n := 0
	err := c.eachCluster(ctx, func(cluster *clusterv1.Cluster) {
		n++
		found := why.ClusterProblem(cluster)
		if found == nil {
			return
		}
		help := fmt.Sprintf("kubectl drover why cluster/%s --namespace %s", cluster.Name, cluster.Namespace)
		if found.Condition.Reason == clusterv1.PausedReason {
			results = append(results, warning("workload clusters", help, "Cluster %s/%s is paused", cluster.Namespace, cluster.Name))
			return
		}
		results = append(results, failed("workload clusters", help, "Cluster %s/%s: %s", cluster.Namespace, cluster.Name, found.Meaning))
	})
	switch {
	case err != nil:
		return unread("workload clusters", err)
	case len(results) > 0:
		return results
	}
	return ok("workload clusters", "%d %s connected", n, quantity.Verb(n, "is", "are"))
}

// soon is how long before the end of a certificate it is reported.
const soon = 30 * 24 * time.Hour

// kubeconfigs checks the Secrets with the kubeconfigs of the Clusters, and the certificates in them.
func (c *Checker) kubeconfigs(ctx context.Context) []Result {
	var secrets, results []Result
	read, refused := 0, 0
	err := c.eachCluster(ctx, func(cluster *clusterv1.Cluster) {
		key := client.ObjectKeyFromObject(cluster)
		content, err := kubeconfig.Read(ctx, c.Client, key)
		secrets = append(secrets, kubeconfigSecret(cluster, content, err)...)
		if problem, is := errors.AsType[*kubeconfig.Error](err); is {
			if problem.Problem == kubeconfig.Unreadable {
				refused++
			}
			return
		}
		config, err := kubeconfig.Rules{}.RESTConfig(content.Content)
		if err != nil {
			return
		}
		read++
		results = append(results, c.expiring(key, config)...)
	})
	switch {
	case err != nil:
		return unread("certificates", err)
	case refused > 0:
		results = append(results, Result{"certificates", Unknown, fmt.Sprintf("you may not read the kubeconfig Secrets of %s", quantity.Of(refused, "Cluster")), ""})
	}
	if len(results) == 0 {
		results = ok("certificates", "none of %s expires within %d days", quantity.Of(read, "kubeconfig"), int(soon.Hours()/24))
	}
	return append(secrets, results...)
}

// kubeconfigSecret is what a Cluster that is connected does not report about its Secret.
func kubeconfigSecret(cluster *clusterv1.Cluster, read kubeconfig.Kubeconfig, err error) []Result {
	found, note := why.KubeconfigProblem(cluster, read, err)
	switch {
	case found != nil:
		return []Result{failed("kubeconfigs", fmt.Sprintf("kubectl drover why cluster/%s --namespace %s", cluster.Name, cluster.Namespace),
			"Cluster %s/%s: %s", cluster.Namespace, cluster.Name, strings.Join(append(found.Facts, found.Meaning), ": "))}
	case note != "":
		return []Result{warning("kubeconfigs", fmt.Sprintf("kubectl label secret %s --namespace %s --overwrite %s=%s", kubeconfig.SecretKey(client.ObjectKeyFromObject(cluster)).Name, cluster.Namespace, clusterv1.ClusterNameLabel, cluster.Name),
			"Cluster %s/%s: %s", cluster.Namespace, cluster.Name, note)}
	}
	return nil
}

func (c *Checker) expiring(cluster client.ObjectKey, config *rest.Config) []Result {
	var results []Result
	for _, each := range []struct {
		what string
		data []byte
	}{{"client certificate", config.CertData}, {"CA certificate", config.CAData}} {
		end, found := earliestEnd(each.data)
		if !found {
			continue
		}
		help := fmt.Sprintf("renew it in the Secret %s", kubeconfig.SecretKey(cluster))
		switch left := end.Sub(c.Now); {
		case left <= 0:
			results = append(results, failed("certificates", help, "the %s in the kubeconfig of Cluster %s expired %s ago", each.what, cluster, duration.HumanDuration(-left)))
		case left < soon:
			results = append(results, warning("certificates", help, "the %s in the kubeconfig of Cluster %s expires in %s", each.what, cluster, duration.HumanDuration(left)))
		}
	}
	return results
}

// earliestEnd is when the first of some certificates ends.
func earliestEnd(data []byte) (end time.Time, found bool) {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return end, found
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err == nil && (!found || certificate.NotAfter.Before(end)) {
			end, found = certificate.NotAfter, true
		}
	}
}

// credentialReasons are those of an account that the cloud does not accept.
var credentialReasons = map[string]bool{infrav1.UnauthorizedReason: true, infrav1.AccountMismatchReason: true}

// credentials checks the accounts of the clouds by what the providers report about Machines.
func (c *Checker) credentials(ctx context.Context) []Result {
	bad := map[string]int{}
	first := map[string]string{}
	n := 0
	err := c.Machines(ctx, c.Namespace, "", func(page []clusterv1.Machine) error {
		for i := range page {
			m := &page[i]
			n++
			condition := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineInfrastructureReadyCondition)
			if condition == nil || !credentialReasons[condition.Reason] {
				continue
			}
			key := m.Namespace + " " + m.Spec.InfrastructureRef.Kind + " " + condition.Reason
			if bad[key] == 0 {
				first[key] = m.Name
			}
			bad[key]++
		}
		return nil
	})
	if err != nil {
		return unread("credentials", err)
	}
	if len(bad) == 0 {
		return ok("credentials", "no cloud refuses those of any of %s", quantity.Of(n, "Machine"))
	}
	var results []Result
	for key, count := range bad {
		namespace, rest, _ := strings.Cut(key, " ")
		results = append(results, failed("credentials", fmt.Sprintf("kubectl drover why machine/%s --namespace %s", first[key], namespace), "%s in namespace %s: %s", quantity.Of(count, "Machine"), namespace, rest))
	}
	return sorted(results)
}

// frozen checks that no MachineDeployment is frozen or paused.
func (c *Checker) frozen(ctx context.Context) []Result {
	var results []Result
	n := 0
	err := object.Each(ctx, c.Reader, object.MachineDeployment, &clusterv1.MachineDeploymentList{}, func(page *clusterv1.MachineDeploymentList) error {
		for i := range page.Items {
			md := &page.Items[i]
			n++
			frozen := meta.FindStatusCondition(md.Status.Conditions, droverpolicyv1.FrozenCondition)
			if frozen == nil || frozen.Status != metav1.ConditionTrue {
				continue
			}
			results = append(results, warning("freezes", fmt.Sprintf("kubectl drover why machinedeployment/%s --namespace %s", md.Name, md.Namespace),
				"MachineDeployment %s/%s is frozen for %s: %s", md.Namespace, md.Name, duration.HumanDuration(c.Now.Sub(frozen.LastTransitionTime.Time)), frozen.Reason))
		}
		return nil
	}, client.InNamespace(c.Namespace))
	switch {
	case err != nil:
		return unread("freezes", err)
	case len(results) > 0:
		return results
	}
	return ok("freezes", "none of %s is frozen", quantity.Of(n, "MachineDeployment"))
}

// orphans checks that every object of a provider has its Machine.
func (c *Checker) orphans(ctx context.Context) []Result {
	found, err := (&orphan.Finder{Reader: c.Reader, Now: c.Now}).Objects(ctx, c.Namespace)
	switch {
	case err != nil:
		return unread("orphans", err)
	case len(found) > 0:
		namespaces := "--namespace " + c.Namespace
		if c.Namespace == "" {
			namespaces = "--all-namespaces"
		}
		return []Result{warning("orphans", "kubectl drover orphans "+namespaces, "%s of providers %s no Machine, as %s %s/%s", quantity.Of(len(found), "object"), quantity.Verb(len(found), "has", "have"), found[0].Kind, found[0].Namespace, found[0].Name)}
	}
	return ok("orphans", "every object of a provider has its Machine")
}
