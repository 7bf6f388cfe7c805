// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	_ "embed"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/kit"
)

//go:embed gaps.yaml
var gaps string

// fillGaps adds what our own manifests lack for upstream's programs.
func fillGaps(ctx context.Context, stack *kit.Stack) error {
	if err := kit.Apply(ctx, stack.Manage, []byte(gaps)); err != nil {
		return err
	}
	list := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := stack.Manage.List(ctx, list); err != nil {
		return err
	}
	for i := range list.Items {
		crd := &list.Items[i]
		before := crd.DeepCopy()
		crd.Labels["clusterctl.cluster.x-k8s.io"] = ""
		if err := stack.Manage.Patch(ctx, crd, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	return nil
}
