// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// everywhere is the namespace of a query in all namespaces.
const everywhere = ""

// A query is a value of an index of a kind.
type query struct {
	kind                    client.Object
	field, namespace, value string
}

func (q query) options() []client.ListOption {
	return []client.ListOption{client.InNamespace(q.namespace), client.MatchingFields{q.field: q.value}, client.UnsafeDisableDeepCopy}
}

// key is the key of the query in the index of an informer; no namespace and no value has a line break.
func (q query) key() string { return q.namespace + "\n" + q.value }

// indexed is a client whose cache can be read without copies.
type indexed struct {
	client.Client
	informers cache.Informers
}

// NewClient makes the client of a manager whose cache this package has indexed. It differs from any other in
// that the functions of this package take pointers from it, where a list copies every struct: a controller of
// 1,000 Machines that counts them once a second would make a megabyte of garbage each time.
func NewClient(config *rest.Config, options client.Options) (client.Client, error) {
	c, err := client.New(config, options)
	if err != nil || options.Cache == nil {
		return c, err
	}
	if informers, ok := options.Cache.Reader.(cache.Informers); ok {
		return &indexed{Client: c, informers: informers}, nil
	}
	return c, nil
}

// add adds one index: as a field, which every reader of the cache can select by, and to the informer itself, if
// there is one informer for the kind.
func add(ctx context.Context, indexer client.FieldIndexer, object client.Object, field string, extract client.IndexerFunc) error {
	if err := indexer.IndexField(ctx, object, field, extract); err != nil {
		return err
	}
	informers, ok := indexer.(cache.Informers)
	if !ok {
		return nil
	}
	informer, err := informers.GetInformer(ctx, object)
	if err != nil {
		return err
	}
	if _, ok := informer.(toolscache.SharedIndexInformer); !ok {
		return nil
	}
	return informer.AddIndexers(toolscache.Indexers{field: func(object any) ([]string, error) {
		return keys(object.(client.Object), field, extract), nil
	}})
}

// keys are those under which the object is found. providerIDs are looked up in all namespaces, all else in one.
func keys(object client.Object, field string, extract client.IndexerFunc) []string {
	values, namespace := extract(object), object.GetNamespace()
	if field == byProviderID {
		namespace = everywhere
	}
	for i, value := range values {
		values[i] = query{object, field, namespace, value}.key()
	}
	return values
}

// shared is the indexer of all objects of the kind; nil if there is no single informer.
func shared(ctx context.Context, c client.Reader, kind client.Object) toolscache.Indexer {
	indexed, ok := c.(*indexed)
	if !ok {
		return nil
	}
	informer, err := indexed.informers.GetInformer(ctx, kind)
	if err != nil {
		return nil // the list that is used instead returns the error
	}
	if shared, ok := informer.(toolscache.SharedIndexInformer); ok {
		return shared.GetIndexer()
	}
	return nil
}

// lookUp returns the objects of the index, which must not be changed.
func lookUp[T client.Object](indexer toolscache.Indexer, q query) ([]T, error) {
	found, err := indexer.ByIndex(q.field, q.key())
	if err != nil {
		return nil, fmt.Errorf("looking up %s: %w", q.field, err)
	}
	all := make([]T, len(found))
	for i := range found {
		all[i] = found[i].(T)
	}
	return all, nil
}

// find answers from the index of the informer, or else by a list, whose items are at items.
func find[T any, P interface {
	*T
	client.Object
}](ctx context.Context, c client.Reader, q query, list client.ObjectList, items *[]T) ([]P, error) {
	if indexer := shared(ctx, c, q.kind); indexer != nil {
		return lookUp[P](indexer, q)
	}
	if err := c.List(ctx, list, q.options()...); err != nil {
		return nil, fmt.Errorf("listing %ss: %w", reflect.TypeFor[T]().Name(), err)
	}
	all := make([]P, len(*items))
	for i := range *items {
		all[i] = &(*items)[i]
	}
	return all, nil
}
