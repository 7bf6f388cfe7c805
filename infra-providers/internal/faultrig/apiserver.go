// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package faultrig

import (
	"context"
	"errors"
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/infra-providers/driver"
)

var errKilled = errors.New("killed")

// apiserver is a client of a reconciler that dies around its writes, and whose cache of machines is behind.
type apiserver[M driver.Machine] struct {
	dice *Dice
	// cache is never newer than the API server and never goes back.
	cache map[client.ObjectKey]M
}

func (a *apiserver[M]) wrap(direct client.WithWatch) client.WithWatch {
	return interceptor.NewClient(direct, interceptor.Funcs{
		Get: a.get,
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			return a.write(func() error { return c.Patch(ctx, object, patch, options...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			return a.write(func() error { return c.SubResource(sub).Patch(ctx, object, patch, options...) })
		},
	})
}

// write dies before the write arrived, or after, when only its answer is lost.
func (a *apiserver[M]) write(do func() error) error {
	if a.dice.happens(8, "write died") {
		return errKilled
	}
	err := do()
	if a.dice.happens(8, "write lost") {
		return errors.Join(err, errKilled)
	}
	return err
}

func (a *apiserver[M]) get(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	machine, ok := object.(M)
	if !ok {
		return c.Get(ctx, key, object, options...)
	}
	if known, ok := a.cache[key]; ok && a.dice.happens(20, "cache behind") {
		copyInto(machine, known)
		return nil
	}
	if err := c.Get(ctx, key, object, options...); err != nil {
		delete(a.cache, key)
		return err
	}
	a.cache[key] = machine.DeepCopyObject().(M)
	return nil
}

func copyInto[M driver.Machine](to, from M) {
	reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from.DeepCopyObject()).Elem())
}
