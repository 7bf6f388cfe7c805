// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"regexp"
	"strings"
	"unicode"

	"drover.io/runtime/requesterror"
)

// States of a bootstrap, as its lines on the console name them: docs/contracts/console.md.
const (
	stateRunning   = "Running"
	stateRetrying  = "Retrying"
	stateFailed    = "Failed"
	stateSucceeded = "Succeeded"
	stateWaiting   = "Waiting"
)

const (
	// maxLines is how many lines of a console are quoted.
	maxLines = 3
	// maxLine is how many bytes of each are.
	maxLine = 300
)

// report is what a console says about the bootstrap of a host.
type report struct {
	// state and step are those of its last line about the bootstrap; empty without one.
	state, step string
	// lines are the last ones that belong to it, the oldest first.
	lines []string
}

// bootstrapLine is a line about the bootstrap.
var bootstrapLine = regexp.MustCompile(`drover-bootstrap: state=(Running|Retrying|Failed|Succeeded|Waiting) step=([A-Za-z]+(?:\[[0-9]+\])?)$`)

// The parts of a line that are left out: what a terminal does not show, the time of the kernel, the program as systemd names
// it, and the time of a log line of Kubernetes.
var (
	escapeSequence = regexp.MustCompile(`\x1b(?:\[[0-9;?]*[A-Za-z]|[()][A-Z0-9]|[=>])`)
	kernelTime     = regexp.MustCompile(`^\[ *[0-9]+\.[0-9]+\] *`)
	programName    = regexp.MustCompile(`^[A-Za-z0-9_.@-]+\[[0-9]+\]: `)
	logTime        = regexp.MustCompile(`^([EF])[0-9]{4} [0-9:.]+ +[0-9]+ `)
)

// parse reads a console. The lines before a failure are its reason; those after the begin of a step are what it does.
func parse(console []byte) report {
	var r report
	var recent []string
	for raw := range bytes.FieldsFuncSeq(console, func(c rune) bool { return c == '\n' || c == '\r' }) {
		line := clean(string(raw))
		if found := bootstrapLine.FindStringSubmatch(line); found != nil {
			r = report{state: found[1], step: found[2], lines: recent}
			recent = nil
			if r.state == stateRunning || r.state == stateSucceeded {
				r.lines = nil
			}
			continue
		}
		if line != "" {
			recent = append(recent, line)
			recent = recent[max(0, len(recent)-maxLines):]
		}
	}
	if r.state == "" || r.state == stateRunning {
		r.lines = recent
	}
	return r
}

// clean returns what a line says: printable characters, without its time and program.
func clean(line string) string {
	line = escapeSequence.ReplaceAllString(line, "")
	line = strings.Map(func(c rune) rune {
		switch {
		case c == '\t':
			return ' '
		case c == unicode.ReplacementChar || !unicode.IsPrint(c):
			return -1
		}
		return c
	}, line)
	line = kernelTime.ReplaceAllString(strings.TrimSpace(line), "")
	line = programName.ReplaceAllString(line, "")
	return strings.TrimSpace(logTime.ReplaceAllString(line, "$1 "))
}

// truncate shortens a line.
func truncate(line string) string {
	return requesterror.TruncateTo(line, maxLine)
}
