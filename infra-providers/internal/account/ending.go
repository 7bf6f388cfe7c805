// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package account

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// isEnding reports whether a namespace is being deleted. That deletes its Secrets and its machines at the same time, and no
// Secret can be created there again. So what is connected stays connected: instances can be deleted with it. An error means
// that it is not known.
func isEnding(ctx context.Context, namespaces client.Reader, name string) (bool, error) {
	if namespaces == nil {
		return false, nil
	}
	object, err := readNamespace(ctx, namespaces, name)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading namespace %q: %w", name, err)
	}
	return !object.DeletionTimestamp.IsZero(), nil
}
