// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

const (
	releaseName = "drover"
	// namespace is that of the managers.
	namespace = "drover-system"
)

// helm is Helm's client for the management cluster.
type helm struct{ configuration *action.Configuration }

func newHelm(kubeconfig string) (*helm, error) {
	flags := genericclioptions.NewConfigFlags(false)
	in := namespace
	flags.KubeConfig, flags.Namespace = &kubeconfig, &in
	configuration := action.NewConfiguration()
	return &helm{configuration}, configuration.Init(flags, namespace, "secret")
}

// simulated are those of an installation with simulated machines, whose state is on a PersistentVolume.
func simulated() map[string]any {
	return map[string]any{"infrastructure": map[string]any{"sim": map[string]any{"stateClaim": claimName}}}
}

// install does what helm install does.
func (h *helm) install(ctx context.Context, r *release, settings map[string]any) error {
	install := action.NewInstall(h.configuration)
	install.ReleaseName, install.Namespace = releaseName, namespace
	install.WaitStrategy, install.Timeout = kube.HookOnlyStrategy, patience
	_, err := install.RunWithContext(ctx, r.chart, settings)
	return err
}

// upgrade does what helm upgrade does.
func (h *helm) upgrade(ctx context.Context, r *release) error {
	upgrade := action.NewUpgrade(h.configuration)
	upgrade.Namespace, upgrade.WaitStrategy, upgrade.Timeout = namespace, kube.HookOnlyStrategy, patience
	_, err := upgrade.RunWithContext(ctx, releaseName, r.chart, simulated())
	return err
}

// uninstall does what helm uninstall does, and returns what it prints.
func (h *helm) uninstall() (string, error) {
	uninstall := action.NewUninstall(h.configuration)
	uninstall.WaitStrategy, uninstall.Timeout, uninstall.DeletionPropagation = kube.HookOnlyStrategy, patience, "background"
	answer, err := uninstall.Run(releaseName)
	if err != nil {
		return "", err
	}
	return answer.Info, nil
}

// notes are what helm install prints.
func (h *helm) notes() (string, error) {
	got, err := action.NewGet(h.configuration).Run(releaseName)
	if err != nil {
		return "", err
	}
	return got.(*releasev1.Release).Info.Notes, nil
}
