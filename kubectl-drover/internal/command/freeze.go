// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/kubectl/pkg/util/templates"
	"sigs.k8s.io/controller-runtime/pkg/client"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/kubectl-drover/internal/object"
)

// fieldManager is under which name the plugin writes.
const fieldManager = "kubectl-drover"

func newFreeze(s *session) *cobra.Command {
	var p patcher
	cmd := &cobra.Command{
		Use:   "freeze machinedeployment/NAME",
		Short: "Create and replace no Machines of a deployment",
		Long: templates.LongDesc(`
			Sets the annotation drover.io/freeze, with which no Machine of a MachineDeployment, or of a MachineSet without one,
			is created or replaced. Health checks continue to evaluate Machines, and scaling down works.`),
		Example:           templates.Examples(`kubectl drover freeze machinedeployment/demo-workers`),
		ValidArgsFunction: completion.SpecifiedResourceTypeAndNameCompletionFunc(s.factory, []string{"machinedeployment", "machineset"}),
	}
	p.addTo(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return s.annotate(cmd.Context(), args, p, droverpolicyv1.FreezeAnnotation, new("true"), "frozen")
	}
	return cmd
}

func newThaw(s *session) *cobra.Command {
	var p patcher
	var override bool
	cmd := &cobra.Command{
		Use:   "thaw machinedeployment/NAME",
		Short: "End a freeze",
		Long: templates.LongDesc(`
			Removes the annotation drover.io/freeze. A freeze for too many Machines ends by itself once the surplus is gone;
			--override ends it sooner, and prevents another one until thaw is run again without it.`),
		Example: templates.Examples(`
			kubectl drover thaw machinedeployment/demo-workers
			kubectl drover thaw machinedeployment/demo-workers --override`),
		ValidArgsFunction: completion.SpecifiedResourceTypeAndNameCompletionFunc(s.factory, []string{"machinedeployment", "machineset"}),
	}
	p.addTo(cmd)
	cmd.Flags().BoolVar(&override, "override", false, "End a freeze for too many Machines too, by the annotation drover.io/freeze=false.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if override {
			return s.annotate(cmd.Context(), args, p, droverpolicyv1.FreezeAnnotation, new("false"), "thawed, and not frozen again for too many Machines")
		}
		return s.annotate(cmd.Context(), args, p, droverpolicyv1.FreezeAnnotation, nil, "thawed")
	}
	return cmd
}

// patcher writes one field.
type patcher struct{ dryRun string }

func (p *patcher) addTo(cmd *cobra.Command) {
	cmdutil.AddDryRunFlag(cmd)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		strategy, err := cmdutil.GetDryRunStrategy(cmd)
		switch strategy {
		case cmdutil.DryRunClient:
			p.dryRun = "client"
		case cmdutil.DryRunServer:
			p.dryRun = "server"
		}
		return err
	}
}

// patch merges a change into an object that was read; a nil value removes a field. Another object of its name is left alone. A
// dry run asks the server, or nobody.
func (p *patcher) patch(ctx context.Context, reader *object.Reader, kind object.Kind, o client.Object, change map[string]any) error {
	if p.dryRun == "client" {
		return nil
	}
	metadata, _ := change["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["uid"] = o.GetUID()
	change["metadata"] = metadata
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	target := &metav1.PartialObjectMetadata{}
	target.SetGroupVersionKind(kind.GroupVersionKind)
	target.Namespace, target.Name = o.GetNamespace(), o.GetName()
	options := []client.PatchOption{client.FieldOwner(fieldManager)}
	if p.dryRun == "server" {
		options = append(options, client.DryRunAll)
	}
	return reader.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, body), options...)
}

func (p *patcher) suffix() string {
	if p.dryRun == "" {
		return ""
	}
	return fmt.Sprintf(" (%s dry run)", p.dryRun)
}

// annotate sets or removes an annotation of a MachineDeployment, or of a MachineSet without one.
func (s *session) annotate(ctx context.Context, args []string, p patcher, annotation string, value *string, done string) error {
	reader, kind, key, err := s.subject(args, "machinedeployment")
	if err != nil {
		return err
	}
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(kind.GroupVersionKind)
	if !kind.Is(object.MachineDeployment) && !kind.Is(object.MachineSet) {
		return fmt.Errorf("%s cannot be frozen: name a machinedeployment, or a machineset without one", kind.Title())
	}
	if err := reader.Get(ctx, kind, key, found); err != nil {
		return err
	}
	if owner := metav1.GetControllerOfNoCopy(found); owner != nil && owner.Kind == object.MachineDeployment.Kind {
		return fmt.Errorf("MachineSet %s belongs to MachineDeployment %s: name that", key.Name, owner.Name)
	}
	if value == nil && !hasKey(found.Annotations, annotation) {
		_, err = fmt.Fprintf(s.env.Streams.Out, "%s %s has no annotation %s; a freeze for too many Machines ends once the surplus is gone, or with --override\n", kind.Kind, key.Name, annotation)
		return err
	}
	var written any
	if value != nil {
		written = *value
	}
	change := map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotation: written}}}
	if err := p.patch(ctx, reader, kind, found, change); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.env.Streams.Out, "%s %s %s%s\n", kind.Kind, key.Name, done, p.suffix())
	return err
}
