// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/scenarios/internal/parser"
)

// ask asks kubectl drover, as an operator would, and compares its answer and exit code with the file of the scenario.
func (r *Runner) ask(ctx context.Context, d parser.Document) (string, error) {
	got, err := r.answer(ctx, d.Why)
	if err != nil {
		return "", err
	}
	if r.Update {
		return "", os.WriteFile(d.Answer, []byte(got), 0o644) //nolint:gosec // a golden file is for everyone
	}
	want, err := os.ReadFile(d.Answer)
	if err != nil {
		return "", err
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		return fmt.Sprintf("why %s (-want +got):\n%s", d.Why, diff), nil
	}
	return "", nil
}

// answer is the command, its output and its exit code, without what differs from run to run.
func (r *Runner) answer(ctx context.Context, subject string) (string, error) {
	home := filepath.Join(r.Stack.Dir, "plugin")
	kubeconfig := filepath.Join(home, r.Namespace+".kubeconfig") // not of another scenario, which may be reading it while it is written
	content, err := r.Stack.Management.Kubeconfig("operator", "system:masters")
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.MkdirAll(home, 0o700), os.WriteFile(kubeconfig, content, 0o600)); err != nil {
		return "", err
	}
	var out bytes.Buffer
	run := exec.CommandContext(ctx, r.Plugin, "why", subject, "--namespace", r.Namespace)
	run.Env = append(os.Environ(), "HOME="+home, "KUBECONFIG="+kubeconfig)
	run.Stdout, run.Stderr = &out, &out
	if err := run.Run(); err != nil {
		if _, ended := errors.AsType[*exec.ExitError](err); !ended {
			return "", err
		}
	}
	text, err := r.general(ctx, out.String())
	return fmt.Sprintf("$ kubectl drover why %s\n%s\nexit code %d\n", subject, text, run.ProcessState.ExitCode()), err
}

var (
	age     = regexp.MustCompile(`\bfor (\d+[smhd])+\b`)
	address = regexp.MustCompile(`127\.0\.0\.1:\d+|\[::1\]:\d+`)
	quota   = regexp.MustCompile(`(count/[a-z.0-9-]+)=\d+`)
	created = regexp.MustCompile(`MACHINESET-[a-z0-9]{5}`)
	uid     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	now     = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
)

// general replaces generated names, addresses and times.
func (r *Runner) general(ctx context.Context, text string) (string, error) {
	machines, sets := &clusterv1.MachineList{}, &clusterv1.MachineSetList{}
	err := errors.Join(r.Stack.ManagementClient.List(ctx, machines, client.InNamespace(r.Namespace)),
		r.Stack.ManagementClient.List(ctx, sets, client.InNamespace(r.Namespace)))
	if err != nil {
		return "", err
	}
	names := map[string]string{}
	for _, m := range machines.Items {
		if metav1.GetControllerOfNoCopy(&m) != nil {
			names[m.Name] = "MACHINE"
		}
	}
	for _, set := range sets.Items {
		if metav1.GetControllerOfNoCopy(&set) != nil {
			names[set.Name] = "MACHINESET"
		}
	}
	known := make([]string, 0, len(names))
	for name := range names {
		known = append(known, name)
	}
	// The name of a MachineSet is the beginning of those of its Machines.
	slices.SortFunc(known, func(a, b string) int { return len(b) - len(a) })
	for _, name := range known {
		text = strings.ReplaceAll(text, name, names[name])
	}
	text = age.ReplaceAllString(text, "for AGE")
	text = address.ReplaceAllString(text, "ADDRESS")
	text = now.ReplaceAllString(text, "TIME")
	text = quota.ReplaceAllString(text, "$1=N")
	text = created.ReplaceAllString(text, "MACHINE") // of a Machine that could not be created
	return uid.ReplaceAllString(text, "UID"), nil
}
