// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func TestWatchEndsWithARollout(t *testing.T) {
	t.Parallel()
	key := pool(t, "watch")
	md := deploymentOf(t, key)
	md.Status.ObservedGeneration = md.Generation
	md.Status.Replicas, md.Status.UpToDateReplicas, md.Status.AvailableReplicas, md.Status.Conditions = new(int32(6)), new(int32(6)), new(int32(6)), nil
	writeStatus(t, md)
	kubeconfig := admin(t, management)
	if got := run(t, kubeconfig, "watch", "md/web", "--namespace", "watch"); got.code != ExitOK || got.out != "MachineDeployment web is rolled out: 6 of 6 Machines are up to date, 6 available\n" {
		t.Errorf("exit code %d, output %q, error %q", got.code, got.out, got.err)
	}
	if got := run(t, kubeconfig, "watch", "machine/alone", "--namespace", "watch"); got.code != ExitOK || got.out != "Machine alone is well\n" {
		t.Errorf("a Machine that is well: exit code %d, output %q, error %q", got.code, got.out, got.err)
	}
	late := run(t, kubeconfig, "watch", "machine/web-new-0", "--namespace", "watch", "--timeout=1s")
	if late.code != ExitProblem || !strings.HasPrefix(late.out, `Machine web-new-0, Provisioning: no capacity for "large"`) || !strings.HasSuffix(late.out, "Gave up waiting\n") || strings.Count(late.out, "\n") != 2 {
		t.Errorf("a Machine that waits: exit code %d, output %q, error %q", late.code, late.out, late.err)
	}
	if got := run(t, kubeconfig, "watch", "machine/none", "--namespace", "watch"); got.code != ExitError || !strings.Contains(got.err, `there is no Machine "none"`) {
		t.Errorf("no Machine: exit code %d, output %q, error %q", got.code, got.out, got.err)
	}
}

// TestWatchOnATerminalReplacesItsLine has three looks, of which two differ, with a text that would do something there.
func TestWatchOnATerminalReplacesItsLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := &session{env: Environment{Streams: genericiooptions.IOStreams{Out: &out}}, raw: &out, terminal: true}
	looks := []observation{{line: "one\x1b[2J"}, {line: "one\x1b[2J"}, {line: "two", done: true}}
	err := s.watch(t.Context(), func(context.Context) (observation, error) {
		next := looks[0]
		looks = looks[1:]
		return next, nil
	})
	if want := "\r\x1b[Kone\\u001b[2J\r\x1b[Ktwo\n"; err != nil || out.String() != want {
		t.Errorf("error %v, output %q, want %q", err, out.String(), want)
	}
}

func TestShortened(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text  string
		width int
		want  string
	}{{"Nœud", 0, "Nœud"}, {"Nœud", 5, "Nœud"}, {"Nœud", 4, "Nœ…"}, {"", 2, ""}, {"ab", 2, "…"}} {
		if got := shortened(test.text, test.width); got != test.want {
			t.Errorf("%q in %d: got %q, want %q", test.text, test.width, got, test.want)
		}
	}
}
