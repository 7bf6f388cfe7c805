// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/kubectl/pkg/util/templates"

	"drover.io/kubectl-drover/internal/orphan"
)

func newOrphans(s *session) *cobra.Command {
	var o output
	var remove, yes, all bool
	cmd := &cobra.Command{
		Use:   "orphans",
		Short: "Objects of providers without a Machine, and what the collectors report",
		Long: templates.LongDesc(`
			Lists the BootstrapConfigs and infrastructure machines that no Machine owns, and the instances without an owner that
			the collectors of the providers have reported in events. Instances are seen and deleted by the providers only.

			--delete deletes the objects, after a question: the provider then deletes the instance of each that has one. An object
			that changes in the meantime is not deleted, nor is one that is paused, by itself or with its Cluster, or whose
			Cluster another management cluster has claimed.`),
		Args: cobra.NoArgs,
	}
	o.addTo(cmd)
	cmd.Flags().BoolVar(&remove, "delete", false, "Delete the objects that are listed.")
	cmd.Flags().BoolVar(&yes, "yes", false, "Do not ask before --delete.")
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "Look into all namespaces.")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if remove && o.format != "" {
			return errors.New("--delete prints what it deletes: use it without --output")
		}
		ctx := cmd.Context()
		reader, err := s.reader()
		if err != nil {
			return err
		}
		namespace, err := s.scope(all)
		if err != nil {
			return err
		}
		finder := &orphan.Finder{Reader: reader, Now: s.env.Now()}
		objects, err := finder.Objects(ctx, namespace)
		if err != nil {
			return err
		}
		reports, err := finder.Reports(ctx, namespace)
		if err != nil {
			return err
		}
		found := struct {
			Objects []orphan.Object `json:"objects"`
			Reports []orphan.Report `json:"reports"`
		}{objects, reports}
		if done, err := s.structured(o, found); err != nil || done {
			return err
		}
		s.printOrphans(objects, reports)
		objects = slices.DeleteFunc(objects, func(o orphan.Object) bool { return o.Kept != "" })
		if !remove || len(objects) == 0 {
			return nil
		}
		if err := s.confirm(yes, fmt.Sprintf("Delete %d objects, and their instances?", len(objects))); err != nil {
			return err
		}
		if objects, err = finder.Confirm(ctx, namespace, objects); err != nil {
			return err
		}
		return s.deleteOrphans(ctx, finder, objects)
	}
	return cmd
}

// scope is the namespace of the flags, or all.
func (s *session) scope(all bool) (string, error) {
	if all {
		return "", nil
	}
	return s.namespace()
}

func (s *session) printOrphans(objects []orphan.Object, reports []orphan.Report) {
	out := s.env.Streams.Out
	if len(objects)+len(reports) == 0 {
		fmt.Fprintln(out, "There are none")
	}
	for _, each := range objects {
		age := duration.HumanDuration(s.env.Now().Sub(each.Created.Time))
		why := each.Why
		if each.Kept != "" {
			why += "; it is not deleted: " + each.Kept
		}
		fmt.Fprintf(out, "%s %s in namespace %s, %s old: %s\n", each.Kind, each.Name, each.Namespace, age, why)
	}
	for _, each := range reports {
		age := duration.HumanDuration(s.env.Now().Sub(each.Last.Time))
		fmt.Fprintf(out, "Cluster %s in namespace %s, %s ago, %s: %s\n", each.Cluster, each.Namespace, age, each.Reason, each.Message)
	}
}

// confirm asks, and returns an error unless the answer is yes.
func (s *session) confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	fmt.Fprintf(s.env.Streams.Out, "%s [y/N] ", question)
	answer, err := bufio.NewReader(s.env.Streams.In).ReadString('\n')
	if strings.EqualFold(strings.TrimSpace(answer), "y") || strings.EqualFold(strings.TrimSpace(answer), "yes") {
		return nil
	}
	if err != nil {
		return errors.New("nothing was deleted: there is no terminal to ask; --yes deletes without a question")
	}
	return errors.New("nothing was deleted")
}

func (s *session) deleteOrphans(ctx context.Context, finder *orphan.Finder, objects []orphan.Object) error {
	var errs []error
	for _, each := range objects {
		if err := finder.Delete(ctx, each); err != nil {
			errs = append(errs, fmt.Errorf("deleting %s %s: %w", each.Kind, each.Name, err))
			continue
		}
		fmt.Fprintf(s.env.Streams.Out, "deleted %s %s\n", each.Kind, each.Name)
	}
	return errors.Join(errs...)
}
