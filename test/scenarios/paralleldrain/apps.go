// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package paralleldrain deletes twenty machines full of pods at once and watches that every
// budget and every order is kept, and that nothing else has to wait. Its tests are all there
// is to it.
package paralleldrain

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/pods"
)

const (
	apps     = 20
	replicas = 10
	machines = 20
)

// installStuck creates as many pods as there are machines, whose budget permits no eviction.
func installStuck(ctx context.Context, work client.Client, namespace string) error {
	return errors.Join(work.Create(ctx, pods.Deployment(namespace, "stuck", machines, tier("back"))), work.Create(ctx, pods.Budget(namespace, "stuck", 0)))
}

// install makes the apps, half of them front, with a budget each.
func install(ctx context.Context, work client.Client, namespace string) error {
	var errs []error
	for i := range apps {
		name, labels := fmt.Sprintf("app-%02d", i), tier("back")
		if i%2 == 0 {
			labels = tier("front")
		}
		errs = append(errs, work.Create(ctx, pods.Deployment(namespace, name, replicas, labels)), work.Create(ctx, pods.Budget(namespace, name, 1)))
	}
	return errors.Join(errs...)
}

func tier(name string) map[string]string { return map[string]string{"tier": name} }
