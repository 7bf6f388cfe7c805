// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func itoa(i int) string { return strconv.Itoa(i) }

// unprivileged is a user without rights: systemd tests no units as root.
const unprivileged = 65534

// load has systemd read units, start nothing, and print the arguments of their commands, by the name of the unit.
func load(t *testing.T, program, units, runtime string) map[string][]string {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, "--test", "--user", "--unit=all.target", "--no-pager")
	command.Env = []string{"HOME=" + runtime, "XDG_RUNTIME_DIR=" + runtime, "SYSTEMD_UNIT_PATH=" + units + ":", "PATH=" + os.Getenv("PATH")}
	if os.Geteuid() == 0 {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivileged, Gid: unprivileged}}
		if err := os.Chown(runtime, unprivileged, unprivileged); err != nil {
			t.Fatal(err)
		}
		for folder := units; len(folder) > len(os.TempDir()); folder = filepath.Dir(folder) {
			if err := os.Chmod(folder, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	out, err := command.Output()
	if err != nil {
		t.Skipf("systemd does not test units here: %v", err)
	}
	loaded := map[string][]string{}
	unit := ""
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if name, is := strings.CutPrefix(line, "-> Unit "); is {
			unit = strings.TrimSuffix(name, ":")
		}
		if args, is := strings.CutPrefix(line, "Command Line: "); is {
			loaded[unit] = append(loaded[unit], words(args)...)
		}
	}
	return loaded
}

// words takes the quotes off a command line as systemd writes it, and a dollar for the two of them that are none of a
// variable.
func words(line string) []string {
	var all []string
	for line != "" {
		if line[0] != '"' {
			word, rest, _ := strings.Cut(line, " ")
			all, line = append(all, strings.ReplaceAll(word, "$$", "$")), rest
			continue
		}
		end := 1
		for end < len(line) && line[end] != '"' {
			if line[end] == '\\' {
				end++
			}
			end++
		}
		word := strings.NewReplacer(`\$`, `$`, "\\`", "`").Replace(line[:min(end+1, len(line))])
		if plain, err := strconv.Unquote(word); err == nil {
			word = plain
		}
		all, line = append(all, strings.ReplaceAll(word, "$$", "$")), strings.TrimPrefix(line[min(end+1, len(line)):], " ")
	}
	return all
}
