// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/util/templates"

	"drover.io/kubectl-drover/internal/escape"
	"drover.io/kubectl-drover/internal/validate"
	"drover.io/runtime/quantity"
)

func newValidate(s *session) *cobra.Command {
	var o output
	var paths []string
	cmd := &cobra.Command{
		Use:   "validate -f FILE",
		Short: "Check manifests without a cluster",
		Long: templates.LongDesc(`
			Checks manifests with the schemas and rules of the kinds of this release, as the API server does when an object is
			created, and in the same words. It needs no cluster, and sees no other objects, policies, quotas or permissions:
			kubectl apply --dry-run=server does.

			The exit code is 0 if there are no problems, 1 if there are, and 2 if there is nothing to check.`),
		Example: templates.Examples(`
			kubectl drover validate -f cluster.yaml
			kustomize build . | kubectl drover validate -f -`),
		Args: cobra.NoArgs,
	}
	o.addTo(cmd)
	cmd.Flags().StringSliceVarP(&paths, "filename", "f", nil, "Files, folders of .yaml, .yml and .json files, or - for standard input.")
	cmd.RunE = func(*cobra.Command, []string) error {
		if len(paths) == 0 {
			return errors.New("name a file with -f")
		}
		results, err := s.validate(paths)
		if err != nil {
			return err
		}
		if len(results) == 0 {
			return errors.New("what is named with -f has no object: nothing was checked")
		}
		wrong := false
		for _, r := range results {
			wrong = wrong || len(r.Problems) > 0
		}
		if done, err := s.structured(o, results); err != nil || done {
			return notWell(err, wrong)
		}
		s.printResults(results)
		return notWell(nil, wrong)
	}
	return cmd
}

func (s *session) validate(paths []string) ([]validate.Result, error) {
	validator, err := validate.New()
	if err != nil {
		return nil, err
	}
	results := []validate.Result{}
	for _, path := range paths {
		if path == "-" {
			found, err := validator.Check("standard input", s.env.Streams.In)
			if err != nil {
				return nil, err
			}
			results = append(results, found...)
			continue
		}
		files, err := validate.Files(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			found, err := validateFile(validator, file)
			if err != nil {
				return nil, err
			}
			results = append(results, found...)
		}
	}
	return results, nil
}

func validateFile(validator *validate.Validator, file string) ([]validate.Result, error) {
	content, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer content.Close() //nolint:errcheck // it was only read
	return validator.Check(file, content)
}

func (s *session) printResults(results []validate.Result) {
	out := s.env.Streams.Out
	checked, skipped, problems := 0, 0, 0
	for _, r := range results {
		if r.Skipped {
			skipped++
			continue
		}
		checked++
		problems += len(r.Problems)
		for _, problem := range r.Problems {
			where := fmt.Sprintf("%s, document %d", r.File, r.Document)
			if r.Object != "" {
				where += ", " + r.Object
			}
			fmt.Fprintf(out, "%s: %s\n", where, escape.Line(problem))
		}
	}
	fmt.Fprintf(out, "%s checked, %s, %s of other projects skipped\n", quantity.Of(checked, "object"), quantity.Of(problems, "problem"), quantity.Of(skipped, "object"))
}
