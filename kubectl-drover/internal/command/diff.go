// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/templates"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/kubectl-drover/internal/object"
	"drover.io/kubectl-drover/internal/rollout"
)

func newDiff(s *session) *cobra.Command {
	var o output
	var files resource.FilenameOptions
	var manager string
	cmd := &cobra.Command{
		Use:   "diff -f FILE",
		Short: "Which Machines a change would replace, and why",
		Long: templates.LongDesc(`
			Says of each MachineDeployment in the files how many of its Machines would be replaced if the files were applied, for
			which fields, and which fields would be changed on every Machine without a replacement. The API server computes the
			new object with a dry run of a server-side apply as --field-manager: a field that is not in the file is removed only if
			that manager has applied it before. A template that a MachineDeployment refers to cannot be changed: its
			changes come with another name, and so with another reference.

			The exit code is 0 if no Machine would be replaced, and 1 otherwise.`),
		Example: templates.Examples(`kubectl drover diff -f cluster.yaml`),
		Args:    cobra.NoArgs,
	}
	o.addTo(cmd)
	cmd.Flags().StringSliceVarP(&files.Filenames, "filename", "f", nil, "Files, folders, URLs, or - for standard input.")
	cmdutil.AddFieldManagerFlagVar(cmd, &manager, "kubectl")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(files.Filenames) == 0 {
			return errors.New("name a file with -f")
		}
		changes, err := s.changes(cmd.Context(), &files, manager)
		if err != nil {
			return err
		}
		replaces := false
		for _, c := range changes {
			replaces = replaces || c.Replaced > 0
		}
		if done, err := s.structured(o, changes); err != nil || done {
			return notWell(err, replaces)
		}
		for _, c := range changes {
			fmt.Fprint(s.env.Streams.Out, c.Text())
		}
		return notWell(nil, replaces)
	}
	return cmd
}

// changes are those of the MachineDeployments in files.
func (s *session) changes(ctx context.Context, files *resource.FilenameOptions, manager string) ([]rollout.Change, error) {
	reader, err := s.reader()
	if err != nil {
		return nil, err
	}
	namespace, err := s.namespace()
	if err != nil {
		return nil, err
	}
	builder := s.factory.NewBuilder().Unstructured().Local().NamespaceParam(namespace).DefaultNamespace().Flatten()
	if slices.Equal(files.Filenames, []string{"-"}) {
		builder = builder.Stream(s.env.Streams.In, "standard input")
	} else {
		builder = builder.FilenameParam(false, files)
	}
	infos, err := builder.Do().Infos()
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		info.Namespace = cmp.Or(info.Namespace, namespace)
	}
	var changes []rollout.Change
	for _, info := range infos {
		given, is := info.Object.(*unstructured.Unstructured)
		if !is || given.GroupVersionKind() != object.MachineDeployment.GroupVersionKind {
			continue
		}
		if given.GetNamespace() == "" {
			given.SetNamespace(namespace)
		}
		change, want, err := changeOf(ctx, reader, given, manager)
		if err != nil {
			return nil, err
		}
		if change.Missing, err = missingTemplates(ctx, reader, want, infos); err != nil {
			return nil, err
		}
		changes = append(changes, change)
	}
	if len(changes) == 0 {
		return nil, fmt.Errorf("there is no MachineDeployment of %s in the files", clusterv1.GroupVersion)
	}
	return changes, nil
}

// changeOf asks the API server what would become of a MachineDeployment, which is the second result.
func changeOf(ctx context.Context, reader *object.Reader, given *unstructured.Unstructured, manager string) (rollout.Change, *clusterv1.MachineDeployment, error) {
	is, want := &clusterv1.MachineDeployment{}, &clusterv1.MachineDeployment{}
	err := reader.Client.Get(ctx, client.ObjectKeyFromObject(given), is)
	switch {
	case apierrors.IsNotFound(err):
		is = nil
	case err != nil:
		return rollout.Change{}, nil, reader.Explain(err, object.MachineDeployment, given.GetNamespace())
	}
	unstructured.RemoveNestedField(given.Object, "status")
	given.SetManagedFields(nil)
	given.SetResourceVersion("")
	if err := reader.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(given), client.FieldOwner(manager), client.ForceOwnership, client.DryRunAll); err != nil {
		return rollout.Change{}, nil, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(given.Object, want); err != nil {
		return rollout.Change{}, nil, err
	}
	return rollout.Compare(is, want), want, nil
}

// missingTemplates are those that a MachineDeployment refers to and that neither exist nor are in the files. One that may not be
// read, or whose kind the API server does not serve, is not known to be missing.
func missingTemplates(ctx context.Context, reader *object.Reader, md *clusterv1.MachineDeployment, files []*resource.Info) ([]string, error) {
	var missing []string
	for _, ref := range []clusterv1.ContractVersionedObjectReference{md.Spec.Template.Spec.Bootstrap.ConfigRef, md.Spec.Template.Spec.InfrastructureRef} {
		if !ref.IsDefined() || given(files, md.Namespace, ref) {
			continue
		}
		_, err := reader.Referenced(ctx, md.Namespace, ref)
		switch {
		case err == nil, object.IsForbidden(err), object.IsMissingKind(err), meta.IsNoMatchError(err):
		case object.IsNotFound(err):
			missing = append(missing, err.Error())
		default:
			return nil, err
		}
	}
	return missing, nil
}

// given reports whether files have the object of a reference.
func given(files []*resource.Info, namespace string, ref clusterv1.ContractVersionedObjectReference) bool {
	return slices.ContainsFunc(files, func(info *resource.Info) bool {
		kind := info.Object.GetObjectKind().GroupVersionKind()
		return kind.Group == ref.APIGroup && kind.Kind == ref.Kind && info.Name == ref.Name && info.Namespace == namespace
	})
}
