// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Secrets reads Secrets that all have the same data, whatever their name. It has no other object, and does not list.
type Secrets struct {
	client.Reader
	Data map[string][]byte
}

// Get implements client.Reader.
func (s Secrets) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	object.(*corev1.Secret).Data = s.Data
	return nil
}
