// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/paging"
	"drover.io/runtime/drainplan"
)

// observe reads all that the decisions need: the Pods of the Node, their DaemonSets, and their Namespaces if a rule selects by them.
func (d *Drainer) observe(ctx context.Context, req Request) ([]*corev1.Pod, drainplan.Input, error) {
	view := drainplan.Input{Now: req.Now, Unreachable: drainplan.Unreachable(req.Node), ForceDeadline: req.ForceDeadline}
	var err error
	if view.Rules, err = drainplan.RulesFor(req.Subject, req.Rules); err != nil {
		return nil, view, err
	}
	pods, err := d.pods(ctx, req.Client, req.Node.Name)
	if err != nil {
		return nil, view, err
	}
	return pods, view, view.Observe(ctx, req.Client, pods)
}

// pods lists by the index that the API server keeps for kubelets.
func (d *Drainer) pods(ctx context.Context, c client.Reader, node string) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	budget := paging.Budget{}
	err := paging.Read(d.pageSize(), func(size int64, token string) (string, error) {
		page := &corev1.PodList{}
		if err := c.List(ctx, page, client.MatchingFields{"spec.nodeName": node}, client.Limit(size), client.Continue(token)); err != nil {
			return "", err
		}
		for i := range page.Items {
			if err := budget.Keep(&page.Items[i]); err != nil {
				return "", err
			}
			pods = append(pods, &page.Items[i])
		}
		return page.Continue, nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing Pods of Node %q: %w", node, err)
	}
	return pods, nil
}
