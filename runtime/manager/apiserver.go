// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	apiversion "k8s.io/apimachinery/pkg/version"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/runtime/requesterror"
)

// answerTimeout is how long a manager waits for an API server that starts at the same time. The caches would wait for two
// minutes, and write a line a second.
const answerTimeout = 10 * time.Second

// findCluster returns how to connect to the management cluster.
func (o *Options) findCluster() (*rest.Config, error) {
	config, err := ctrl.GetConfig()
	if err == nil {
		return config, nil
	}
	if clientcmd.IsEmptyConfig(err) {
		err = errors.New("no kubeconfig has a cluster in its current context")
		if _, pod := rest.InClusterConfig(); pod != nil && !errors.Is(pod, rest.ErrNotInCluster) {
			err = fmt.Errorf("reading the ServiceAccount of the pod: %w", pod)
		} else if path := cmp.Or(o.kubeconfig, os.Getenv(clientcmd.RecommendedConfigPathEnvVar)); path != "" {
			err = fmt.Errorf("%q has no cluster in its current context", path)
		}
	}
	return nil, fmt.Errorf("finding the management cluster: %w; name a kubeconfig with --kubeconfig or the environment variable KUBECONFIG", err)
}

// checkCluster waits until the API server of the management cluster answers and has the kinds of the scheme that Drover
// installs, and checks that Leases can be kept in it.
func (o *Options) checkCluster(ctx context.Context, name string, config *rest.Config, scheme *runtime.Scheme) error {
	unlimited := rest.CopyConfig(config)
	unlimited.QPS = -1 // a low --kube-api-qps would delay the start
	clients, err := coordinationclient.NewForConfig(unlimited)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of the management cluster: %w", err)
	}
	waiting, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	for _, ask := range []func(context.Context, rest.Interface) error{askVersion, kindsOf(scheme).ask} {
		if err := await(waiting, clients.RESTClient(), ask); err != nil {
			return fmt.Errorf("the API server of the management cluster, %s, %w", config.Host, err)
		}
	}
	if !o.LeaderElect && o.LeaderElectionNamespace == "" {
		return nil
	}
	return o.checkLeases(waiting, clients.Leases(o.OwnNamespace()), name)
}

// await asks an API server until it gives the answer that is needed, or until ctx is done.
func await(ctx context.Context, client rest.Interface, ask func(context.Context, rest.Interface) error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, 500*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		err := ask(ctx, client)
		if apierrors.IsUnauthorized(err) {
			return false, fmt.Errorf("does not accept the credentials of the kubeconfig or of the pod's ServiceAccount: %w", err)
		}
		if err != nil && last == nil {
			ctrl.Log.Info("waiting for the API server of the management cluster", "message", err.Error())
		}
		if last == nil || ctx.Err() == nil { // the end of ctx is no reason
			last = err
		}
		return err == nil, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

func askVersion(ctx context.Context, client rest.Interface) error {
	body, err := client.Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return unanswered(err)
	}
	answer := apiversion.Info{}
	if json.Unmarshal(body, &answer) != nil || answer.GitVersion == "" {
		return errors.New("is no API server of Kubernetes; check the server in the kubeconfig")
	}
	return nil
}

// unanswered describes the error of a request. A user who may not make it has an answer.
func unanswered(err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return nil
	case apierrors.IsUnauthorized(err):
		return err
	}
	return fmt.Errorf("does not answer: %s; check that it runs, and the server in the kubeconfig", requesterror.Describe(err))
}

// kindsOf are the versions of groups in a scheme that Drover installs.
func kindsOf(scheme *runtime.Scheme) requiredGroupVersions {
	return slices.DeleteFunc(scheme.PrioritizedVersionsAllGroups(), func(v schema.GroupVersion) bool {
		return v.Group != clusterv1.GroupVersion.Group && !strings.HasSuffix(v.Group, ".drover.io")
	})
}

type requiredGroupVersions []schema.GroupVersion

// ask asks an API server for each version: the caches would wait for two minutes for kinds that are not installed.
func (r requiredGroupVersions) ask(ctx context.Context, client rest.Interface) error {
	for _, version := range r {
		err := client.Get().AbsPath("/apis", version.Group, version.Version).Do(ctx).Error()
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("has no kinds of %s: apply the manifests of a release, which have the CustomResourceDefinitions", version)
		}
		if err != nil && unanswered(err) != nil {
			return unanswered(err)
		}
	}
	return nil
}

// checkLeases creates a Lease in a dry run, which shows whether the namespace exists and the manager may. Only reasons that
// do not go away by themselves are errors.
func (o *Options) checkLeases(ctx context.Context, leases coordinationclient.LeaseInterface, name string) error {
	_, err := leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("--leader-election-namespace must be a namespace that exists, not %q: create it, or name another", o.OwnNamespace())
	case apierrors.IsForbidden(err) && o.LeaderElect:
		if _, existing := leases.Get(ctx, name, metav1.GetOptions{}); apierrors.IsForbidden(existing) || apierrors.IsNotFound(existing) {
			return fmt.Errorf("--leader-election-namespace must be a namespace in which the manager may create Leases, not %q: %w", o.OwnNamespace(), err)
		}
	}
	return nil
}
