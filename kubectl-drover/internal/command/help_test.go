// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"drover.io/api/reason"
)

// rootForParsing is the command tree, whose commands are not run.
func rootForParsing() *cobra.Command {
	return newRoot(Environment{Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard}, Now: atNoon}, io.Discard)
}

// parsed is why the words of a command line, after kubectl drover, are not a command with flags that it has.
func parsed(words []string) error {
	cmd, rest, err := rootForParsing().Find(words)
	if err != nil {
		return err
	}
	return cmd.ParseFlags(rest)
}

// TestCommandsOfTheTableOfReasonsExist parses each command that an answer offers.
func TestCommandsOfTheTableOfReasonsExist(t *testing.T) {
	t.Parallel()
	n := 0
	names := strings.NewReplacer("{name}", "x", "{namespace}", "n", "{cluster}", "c")
	for _, entry := range reason.All() {
		line, is := strings.CutPrefix(entry.Command, "kubectl drover ")
		if !is {
			continue
		}
		n++
		if err := parsed(strings.Fields(names.Replace(line))); err != nil {
			t.Errorf("%s %s %s: %q: %v", entry.Kind, entry.Condition, entry.Reason, entry.Command, err)
		}
		if strings.Contains(line, "{name}") && !strings.Contains(line, "--namespace {namespace}") {
			t.Errorf("%s %s %s: %q is about the namespace of the reader's context", entry.Kind, entry.Condition, entry.Reason, entry.Command)
		}
	}
	if n < 20 {
		t.Errorf("%d commands were parsed", n)
	}
}

var (
	commandInPage = regexp.MustCompile("(?m)(?:^|[(|`&] ?|! |if )kubectl drover ([^\n|&`#;)]*)")
	substitution  = regexp.MustCompile(`\$\([^)]*\)|\$\{[^}]*\}|\$[A-Za-z_]+|"\$@"`)
)

// TestCommandsOfThePagesExist parses each command line of the documentation.
func TestCommandsOfThePagesExist(t *testing.T) {
	t.Parallel()
	n := 0
	err := filepath.WalkDir("../../../docs", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text := substitution.ReplaceAllString(string(content), "machine/x")
		for _, match := range commandInPage.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(match[1])
			if len(words) == 0 || words[0] == cobra.ShellCompRequestCmd || strings.Contains(match[1], "…") {
				continue
			}
			n++
			if err := parsed(words); err != nil {
				t.Errorf("%s: kubectl drover %s: %v", path, match[1], err)
			}
		}
		return nil
	})
	if err != nil || n < 30 {
		t.Errorf("%d commands were parsed, error %v", n, err)
	}
}

// walk visits a command and those below it.
func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, child := range cmd.Commands() {
		walk(child, visit)
	}
}

// TestHelpOfEachCommand is printed without an API server, with exit code 0, and its examples are commands.
func TestHelpOfEachCommand(t *testing.T) {
	t.Parallel()
	walk(rootForParsing(), func(cmd *cobra.Command) {
		words := strings.Fields(strings.TrimPrefix(cmd.CommandPath(), "kubectl drover"))
		got := offline(t, "", append(words, "--help")...)
		if got.code != ExitOK || got.err != "" || !strings.Contains(got.out, cmd.Short) && cmd.Long == "" && cmd.Name() != "options" {
			t.Errorf("%s: exit code %d, output %.200q, error %q", cmd.CommandPath(), got.code, got.out, got.err)
		}
		for line := range strings.Lines(cmd.Example) {
			example := strings.TrimSpace(line)
			if i := strings.Index(example, "kubectl drover "); i >= 0 {
				if err := parsed(strings.Fields(example[i+len("kubectl drover "):])); err != nil {
					t.Errorf("the example %q: %v", example, err)
				}
			}
		}
	})
}

// TestWithoutACommand prints the help, and --version what was built.
func TestWithoutACommand(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		code int
		want string
	}{
		"nothing":               {nil, ExitOK, "Exit codes: 0 if everything is well or was done, 1 if"},
		"a group":               {[]string{"rollout"}, ExitOK, "undo"},
		"the version":           {[]string{"--version"}, ExitOK, "kubectl drover version unreleased\n"},
		"the options":           {[]string{"options"}, ExitOK, "--context"},
		"a misspelled command":  {[]string{"descibe", "cluster", "c"}, ExitError, `error: unknown command "descibe" for "kubectl drover"; did you mean describe?` + "\n"},
		"a misspelled action":   {[]string{"rollout", "undoo", "web"}, ExitError, `error: unknown command "undoo" for "kubectl drover rollout"; did you mean undo?` + "\n"},
		"a flag of another":     {[]string{"logs", "m", "--to-revision=1"}, ExitError, "unknown flag: --to-revision"},
		"a flag without value":  {[]string{"why", "machine/m", "--output"}, ExitError, "flag needs an argument: --output"},
		"arguments of check":    {[]string{"check", "x"}, ExitError, `unknown command "x" for "kubectl drover check"`},
		"arguments of orphans":  {[]string{"orphans", "x"}, ExitError, `unknown command "x" for "kubectl drover orphans"`},
		"arguments of validate": {[]string{"validate", "x.yaml"}, ExitError, `unknown command "x.yaml" for "kubectl drover validate"`},
		"arguments of diff":     {[]string{"diff", "x.yaml"}, ExitError, `unknown command "x.yaml" for "kubectl drover diff"`},
		"a timeout of no unit":  {[]string{"watch", "web", "--timeout=5"}, ExitError, `missing unit in duration`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := offline(t, "", test.args...)
			if got.code != test.code || !strings.Contains(got.out+got.err, test.want) || test.code == ExitError && (got.out != "" || strings.Count(got.err, "\n") != 1) {
				t.Errorf("exit code %d, output %.300q, error %q", got.code, got.out, got.err)
			}
		})
	}
}

// TestFormatsAreThoseOfTheCommand has each value of -o with each command that has the flag: wide is of describe alone.
func TestFormatsAreThoseOfTheCommand(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"why": {"why", "machine/m"}, "describe": {"describe", "machine", "m"}, "check": {"check"}, "orphans": {"orphans"}, "drain": {"drain", "--dry-run", "m"},
		"validate": {"validate", "-f", "testdata/validate/right.yaml"}, "diff": {"diff", "-f", "testdata/tree.yaml"}, "history": {"rollout", "history", "web"},
	} {
		for _, format := range []string{"wide", "name", "JSON", "jsonpath={.x}"} {
			got := offline(t, "", append(args, "-o", format)...)
			refused := strings.Contains(got.err, `--output is "`+format+`"; it is one of json, yaml`)
			if permitted := name == "describe" && format == "wide"; got.code != ExitError || got.out != "" || refused == permitted {
				t.Errorf("%s -o %s: exit code %d, output %q, error %q", name, format, got.code, got.out, got.err)
			}
		}
	}
}

// TestErrorsAreOneLineOfTheirStream has an error with line breaks and what a terminal obeys.
func TestErrorsAreOneLineOfTheirStream(t *testing.T) {
	t.Parallel()
	var out, errOut bytes.Buffer
	code := Run(t.Context(), Environment{Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut}, Now: atNoon}, []string{"x\n\x1b[2J\ny"})
	if code != ExitError || out.Len() != 0 || strings.Count(errOut.String(), "\n") != 1 || strings.Contains(errOut.String(), "\x1b") {
		t.Errorf("exit code %d, output %q, error %q", code, out.String(), errOut.String())
	}
}
