// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package account

import (
	"context"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// logAccount logs what happened to an account, with the Secret that has its credentials.
func logAccount(ctx context.Context, k key, message string, values ...any) {
	log := ctrl.LoggerFrom(ctx)
	if k.SecretName != "" {
		log = log.WithValues("Secret", klog.KRef(k.namespace, k.SecretName))
	}
	if k.Region != "" {
		log = log.WithValues("region", k.Region)
	}
	if k.Endpoint != "" {
		log = log.WithValues("endpoint", k.Endpoint)
	}
	log.Info(message, values...)
}
