// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/kubectl/pkg/util/templates"

	"drover.io/kubectl-drover/internal/check"
	droverversion "drover.io/runtime/version"
)

func newCheck(s *session) *cobra.Command {
	var o output
	var installed string
	var here bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Is this installation well",
		Long: templates.LongDesc(`
			Checks the API server and its kinds, the roles, managers and Leases of Drover, and, of all namespaces, the workload
			clusters, the certificates in their kubeconfigs, the credentials of the clouds, freezes and orphans.

			The exit code is 0 if nothing has failed, and 1 otherwise. Warnings, and what you may not read, do not count.`),
		Args: cobra.NoArgs,
	}
	o.addTo(cmd)
	cmd.Flags().StringVar(&installed, "installed-in", "drover-system", "The namespace of the managers.")
	cmd.Flags().BoolVar(&here, "this-namespace", false, "Check the Clusters of one namespace only, that of --namespace.")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		reader, err := s.reader()
		if err != nil {
			return err
		}
		namespace, err := s.scope(!here)
		if err != nil {
			return err
		}
		checker := &check.Checker{
			Reader: reader, Now: s.env.Now(), ManagerNamespace: installed, Namespace: namespace,
			Release: droverversion.Get().Version, Version: s.serverVersion,
		}
		results := checker.Run(cmd.Context())
		if done, err := s.structured(o, results); err != nil || done {
			return notWell(err, !check.NoneFailed(results))
		}
		fmt.Fprint(s.env.Streams.Out, check.Text(results))
		return notWell(nil, !check.NoneFailed(results))
	}
	return cmd
}

func (s *session) serverVersion() (*version.Info, error) {
	discovery, err := s.factory.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	return discovery.ServerVersion()
}
