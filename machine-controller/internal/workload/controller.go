// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"drover.io/runtime/kubeconfig"
)

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch

// reconciler passes to Connections which Clusters there are and which version of
// its kubeconfig Secret each has. It does not connect, which is the connector's
// task: a worker is never busy for longer than two reads of a cache.
type reconciler struct {
	connections *Connections
	clusters    client.Reader
	secrets     client.Reader
}

// Register makes the connections follow the Clusters of the manager's cache.
// Secrets are watched by metadata only, and of that just name and version are
// kept, for those that carry the label cluster.x-k8s.io/cluster-name. A
// kubeconfig Secret without that label works too, but a rotation is only
// detected once the old credentials are refused.
func (c *Connections) Register(mgr ctrl.Manager) error {
	if c.options.Reader == nil {
		c.options.Reader = mgr.GetAPIReader()
	}
	if c.options.Registerer == nil {
		c.options.Registerer = ctrlmetrics.Registry
	}
	if err := c.options.Registerer.Register(c.metrics); err != nil {
		return fmt.Errorf("registering workload metrics: %w", err)
	}
	secrets, err := c.secretCache(mgr)
	if err != nil {
		return fmt.Errorf("creating cache of Secret metadata: %w", err)
	}
	if err := mgr.Add(secrets); err != nil {
		return fmt.Errorf("adding cache of Secret metadata: %w", err)
	}
	if err := mgr.Add(c); err != nil {
		return fmt.Errorf("adding workload connections: %w", err)
	}
	r := &reconciler{connections: c, clusters: mgr.GetClient(), secrets: secrets}
	return ctrl.NewControllerManagedBy(mgr).
		Named("workload").
		For(&clusterv1.Cluster{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		WatchesRawSource(source.Kind(secrets, secretMetadata(), handler.TypedEnqueueRequestsFromMapFunc(toCluster))).
		Complete(r)
}

// Reconcile keeps the connection of a Cluster that exists, also while it is
// being deleted, and drops that of one that is gone or filtered out.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	key := request.NamespacedName
	cluster := &clusterv1.Cluster{}
	err := r.clusters.Get(ctx, key, cluster)
	if apierrors.IsNotFound(err) || (err == nil && !r.connections.options.Watch.Matches(cluster)) {
		r.connections.drop(key)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading Cluster: %w", err)
	}
	secret := secretMetadata()
	if err := r.secrets.Get(ctx, kubeconfig.SecretKey(key), secret); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("reading kubeconfig Secret's metadata: %w", err)
	}
	r.connections.keep(ctrl.Log.WithName("workload").WithValues("Cluster", klog.KRef(key.Namespace, key.Name)), key, cluster.UID, secret.ResourceVersion)
	return reconcile.Result{}, nil
}

// secretCache is a cache of its own, so that what the manager's cache keeps of
// Secrets, if anything, is not decided here.
func (c *Connections) secretCache(mgr ctrl.Manager) (cache.Cache, error) {
	labelled, err := labels.NewRequirement(clusterv1.ClusterNameLabel, selection.Exists, nil)
	if err != nil {
		return nil, err
	}
	options := cache.Options{
		HTTPClient:           mgr.GetHTTPClient(),
		Scheme:               mgr.GetScheme(),
		Mapper:               mgr.GetRESTMapper(),
		DefaultLabelSelector: labels.NewSelector().Add(*labelled),
		DefaultTransform:     slimSecretMetadata,
	}
	if c.options.Namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{c.options.Namespace: {}}
	}
	return cache.New(mgr.GetConfig(), options)
}

func secretMetadata() *metav1.PartialObjectMetadata {
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return metadata
}

func slimSecretMetadata(obj any) (any, error) {
	full, isMetadata := obj.(*metav1.PartialObjectMetadata)
	if !isMetadata {
		return obj, nil
	}
	return &metav1.PartialObjectMetadata{
		TypeMeta: full.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Namespace: full.Namespace, Name: full.Name, UID: full.UID, ResourceVersion: full.ResourceVersion,
		},
	}, nil
}

func toCluster(_ context.Context, secret *metav1.PartialObjectMetadata) []reconcile.Request {
	cluster, found := kubeconfig.ClusterKey(client.ObjectKeyFromObject(secret))
	if !found {
		return nil
	}
	return []reconcile.Request{{NamespacedName: cluster}}
}
