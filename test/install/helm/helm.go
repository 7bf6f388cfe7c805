// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package helm does what the commands of Helm do with the chart of a release. It waits for no Pod, since most control
// planes of the tests run none.
package helm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/action"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// commandTimeout bounds each command; no test measures time by it.
const commandTimeout = 10 * time.Minute

// MakeRelease writes the manifests and the chart of a release, without images, by the program of the checkout at root.
func MakeRelease(ctx context.Context, root, version, folder string, arguments ...string) error {
	arguments = append([]string{"run", ".", "all", "--images=false", "--version", version, "--out", folder}, arguments...)
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir, command.Env = filepath.Join(root, "release"), append(os.Environ(), "GOWORK=off")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("making release %s: %w\n%s", version, err, output)
	}
	return nil
}

// ChartFile is the path of the chart in the folder of a release of Drover.
func ChartFile(folder, version string) string {
	return filepath.Join(folder, "drover-"+strings.TrimPrefix(version, "v")+".tgz")
}

// Load reads the chart from the folder of a release of Drover.
func Load(folder, version string) (*chart.Chart, error) {
	return loader.Load(ChartFile(folder, version))
}

// Client is Helm for the releases of one namespace of a cluster.
type Client struct {
	configuration *action.Configuration
	namespace     string
}

// New returns a client for the cluster of a kubeconfig file.
func New(kubeconfig, namespace string) (*Client, error) {
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig, flags.Namespace = &kubeconfig, &namespace
	configuration := action.NewConfiguration()
	return &Client{configuration, namespace}, configuration.Init(flags, namespace, "secret")
}

// Install does what helm install --create-namespace does. With takeOwnership it adopts objects of another release.
func (c *Client) Install(ctx context.Context, name string, chart *chart.Chart, settings map[string]any, takeOwnership bool) error {
	install := action.NewInstall(c.configuration)
	install.ReleaseName, install.Namespace, install.CreateNamespace, install.TakeOwnership = name, c.namespace, true, takeOwnership
	install.WaitStrategy, install.Timeout = kube.HookOnlyStrategy, commandTimeout
	_, err := install.RunWithContext(ctx, chart, settings)
	return err
}

// Upgrade does what helm upgrade does.
func (c *Client) Upgrade(ctx context.Context, name string, chart *chart.Chart, settings map[string]any) error {
	upgrade := action.NewUpgrade(c.configuration)
	upgrade.Namespace, upgrade.WaitStrategy, upgrade.Timeout = c.namespace, kube.HookOnlyStrategy, commandTimeout
	_, err := upgrade.RunWithContext(ctx, name, chart, settings)
	return err
}

// Rollback does what helm rollback does.
func (c *Client) Rollback(name string, revision int) error {
	rollback := action.NewRollback(c.configuration)
	rollback.Version, rollback.WaitStrategy, rollback.Timeout, rollback.ServerSideApply = revision, kube.HookOnlyStrategy, commandTimeout, "auto"
	return rollback.Run(name)
}

// Uninstall does what helm uninstall does, and returns what it prints.
func (c *Client) Uninstall(name string) (string, error) {
	uninstall := action.NewUninstall(c.configuration)
	uninstall.WaitStrategy, uninstall.Timeout, uninstall.DeletionPropagation = kube.HookOnlyStrategy, commandTimeout, "background"
	answer, err := uninstall.Run(name)
	if err != nil {
		return "", err
	}
	return answer.Info, nil
}

// Notes are what helm install has printed.
func (c *Client) Notes(name string) (string, error) {
	got, err := action.NewGet(c.configuration).Run(name)
	if err != nil {
		return "", err
	}
	return got.(*release.Release).Info.Notes, nil
}
