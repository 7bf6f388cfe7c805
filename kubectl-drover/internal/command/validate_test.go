// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// offline runs a command without a kubeconfig, with something on standard input.
func offline(t *testing.T, typed string, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	code := Run(t.Context(), Environment{
		Streams: genericiooptions.IOStreams{In: strings.NewReader(typed), Out: &out, ErrOut: &errOut},
		Now:     func() time.Time { return noon },
	}, append([]string{"--kubeconfig", "/nonexistent"}, args...))
	return result{out.String(), errOut.String(), code}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"right", "wrong"} {
		got := offline(t, "", "validate", "-f", "testdata/validate/"+name+".yaml")
		golden(t, "testdata/validate/"+name+".txt", fmt.Sprintf("%s%sexit code %d\n", got.out, got.err, got.code))
		if strings.Contains(got.out, "very-secret") {
			t.Errorf("the output has what is in a Secret: %s", got.out)
		}
	}
	right, err := os.ReadFile("testdata/validate/right.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got := offline(t, string(right), "validate", "-f", "-"); got.code != ExitOK || got.out != "2 objects checked, 0 problems, 0 objects of other projects skipped\n" {
		t.Errorf("standard input: exit code %d, output %q, error %q", got.code, got.out, got.err)
	}
	if got := offline(t, "", "validate", "-f", "testdata/validate"); got.code != ExitProblem || !strings.Contains(got.out, "7 objects checked") {
		t.Errorf("a folder: exit code %d, output %q, error %q", got.code, got.out, got.err)
	}
}

func TestValidateNeedsAFile(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no file":                  {[]string{"validate"}, "name a file with -f"},
		"a file that is not there": {[]string{"validate", "-f", "testdata/none.yaml"}, "no such file"},
		"a folder without any":     {[]string{"validate", "-f", ".."}, "has no .yaml, .yml or .json files"},
	} {
		if got := offline(t, "", test.args...); got.code != ExitError || !strings.Contains(got.err, test.want) || strings.Count(got.err, "\n") != 1 {
			t.Errorf("%s: exit code %d, output %q, error %q", name, got.code, got.out, got.err)
		}
	}
}
