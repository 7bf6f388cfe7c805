// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package quote

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

// hostile are strings that mean something to some language on the way to a host.
var hostile = []string{
	"", " ", "a b", "'", `"`, `\`, "`id`", "$(id)", "${IFS}", "$HOME", "*", "?", "~", "!!", "#", "a;id", "a&id", "a|id", "a>b", "(id)", "{a,b}", "[a]",
	"\n", "a\nid", "\r\n", "\t", "--help", "-n", "%s", "%%", "{{ ds.x }}", "{% raw %}", "é", "\u202e", "\ufeff", "\x7f", "'\\''", `'"'"'`, "v1.36.3'; curl x |bash; '",
	"http://user:p&w@proxy:3128", "http://user:p`id`@proxy:3128",
}

// arrives returns what bash makes of a word.
func arrives(t testing.TB, word string) string {
	t.Helper()
	out, err := exec.Command("bash", "-c", "printf %s "+word).Output()
	if err != nil {
		t.Fatalf("bash refuses %s: %v", word, err)
	}
	return string(out)
}

func TestShell(t *testing.T) {
	t.Parallel()
	for _, s := range hostile {
		if got := arrives(t, Shell(s)); got != s {
			t.Errorf("%q arrives as %q", s, got)
		}
	}
}

func FuzzShell(f *testing.F) {
	for _, s := range hostile {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ReplaceAll(s, "\x00", "")
		if got := arrives(t, Shell(s)); got != s {
			t.Errorf("%q arrives as %q", s, got)
		}
	})
}

// TestEnvironment sources each line in a real shell. What Environment refuses must name the character.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	refused := 0
	for _, s := range hostile {
		line, err := Environment("X", s)
		if err != nil {
			refused++
			continue
		}
		file := filepath.Join(t.TempDir(), "env")
		if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("bash", "-euc", "set -a; . "+Shell(file)+"; set +a; printenv X").Output()
		if err != nil || strings.TrimSuffix(string(out), "\n") != s {
			t.Errorf("%q arrives as %q, %v", s, out, err)
		}
	}
	if want := 10; refused < want {
		t.Errorf("%d strings were refused, want at least %d", refused, want)
	}
}

// TestTOML reads each string with the parser that containerd has.
func TestTOML(t *testing.T) {
	t.Parallel()
	for _, s := range hostile {
		text, err := TOML(s)
		if err != nil {
			t.Errorf("%q: %v", s, err)
		}
		var table struct{ Key string }
		if err := toml.Unmarshal([]byte("key = "+text+"\n"), &table); err != nil || table.Key != s {
			t.Errorf("%q arrives as %q, %v", s, table.Key, err)
		}
		var keys map[string]map[string]int
		if err := toml.Unmarshal([]byte("["+text+"]\nx = 1\n"), &keys); err != nil || keys[s]["x"] != 1 {
			t.Errorf("%q arrives as a key of %v, %v", s, keys, err)
		}
	}
	if _, err := TOML("\xff"); err == nil {
		t.Error("what is not UTF-8 is written")
	}
}

// TestSystemd writes what systemd's manual documents; package render has systemd itself read what is in a unit.
func TestSystemd(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"--v=2": "--v=2", "--a=50%": "--a=50%%", "--a=b c": `"--a=b c"`, `--a="b\c"`: `"--a=\"b\\c\""`, "": `""`, ";": `";"`, "a'b": `"a'b"`,
		"$HOME": "$$HOME", "${X}": "$${X}", "a\tb": `"a\x09b"`, "a\nb": `"a\x0ab"`, "é": "é",
	} {
		if got, err := Systemd(s); got != want || err != nil {
			t.Errorf("%q is written %s, want %s (%v)", s, got, want, err)
		}
	}
	for _, s := range []string{"\xff", "a\x00"} {
		if _, err := Systemd(s); err == nil {
			t.Errorf("%q is written", s)
		}
	}
}

func TestJinja(t *testing.T) {
	t.Parallel()
	const brace = "{% raw %}{{% endraw %}"
	for s, want := range map[string]string{
		"": "", "a{b}": "a{b}", "{": "{", "a{": "a{", "{{ x }}": brace + "{ x }}", "{%": brace + "%", "a{#b": "a" + brace + "#b",
		"{{{": brace + brace + "{", "{{{{": brace + brace + brace + "{", "{\n{": "{\n{",
	} {
		if got := Jinja(s); got != want {
			t.Errorf("%q is written %q, want %q", s, got, want)
		}
	}
}
