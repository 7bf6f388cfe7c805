// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package faulttest

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/infra-providers/driver"
)

var errKilled = errors.New("killed")

// apiserver is the API server for one process of a reconciler: a client whose writes fail, and a cache of machines that is
// behind. The test is the only other writer, so that the cache is filled from its own objects and from the answers of
// writes instead of by reads: a lifecycle would need a hundred of them.
type apiserver[M driver.Machine] struct {
	rand *Rand
	// latest returns a machine as it is; false when it is gone.
	latest func(client.ObjectKey) (M, bool)
	// shown is what the cache returned last. It is never newer than the API server and never older than before.
	shown map[client.ObjectKey]M
	// belongings are the Clusters and Machines, which do not change.
	belongings map[string]client.Object
	// answer is the machine as the last write left it; nothing before a write.
	answer *M
	// unsure is true once a write failed, so that only a read can show its result.
	unsure bool
}

// reset drops the answer of the last write.
func (a *apiserver[M]) reset() {
	a.answer, a.unsure = nil, false
}

func (a *apiserver[M]) wrap(direct client.WithWatch) client.WithWatch {
	return interceptor.NewClient(direct, interceptor.Funcs{
		Get: a.get,
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			return a.write(object, func() error { return c.Patch(ctx, object, patch, options...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			return a.write(object, func() error { return c.SubResource(sub).Patch(ctx, object, patch, options...) })
		},
	})
}

// write fails before the write, or after it, when only its answer is lost.
func (a *apiserver[M]) write(object client.Object, do func() error) error {
	if a.rand.happens(8, "process was killed before the write") {
		return errKilled
	}
	err := do()
	if machine, ok := object.(M); ok && err == nil {
		copied := machine.DeepCopyObject().(M)
		a.answer = &copied
	} else {
		a.unsure = true
	}
	if a.rand.happens(8, "write lost") {
		return errors.Join(err, errKilled)
	}
	return err
}

func (a *apiserver[M]) get(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	machine, ok := object.(M)
	if !ok {
		return a.belonging(ctx, c, key, object, options...)
	}
	known, ok := a.shown[key]
	if !ok || !a.rand.happens(20, "cache behind") {
		if known, ok = a.latest(key); !ok {
			delete(a.shown, key)
			return apierrors.NewNotFound(schema.GroupResource{Resource: "machines"}, key.Name)
		}
		a.shown[key] = known.DeepCopyObject().(M)
	}
	copyInto(machine, known)
	return nil
}

func (a *apiserver[M]) belonging(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	name := fmt.Sprintf("%T %s", object, key)
	if known, ok := a.belongings[name]; ok {
		copyInto(object, known)
		return nil
	}
	if err := c.Get(ctx, key, object, options...); err != nil {
		return err
	}
	a.belongings[name] = object.DeepCopyObject().(client.Object)
	return nil
}

func copyInto[O client.Object](to, from O) {
	reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from.DeepCopyObject()).Elem())
}
