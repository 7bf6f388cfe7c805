// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestLevelsThatLogSecretsAreRefused: beyond level 7 client-go logs the bodies of requests.
func TestLevelsThatLogSecretsAreRefused(t *testing.T) {
	t.Parallel()
	for argument, accepted := range map[string]bool{
		"-v=2": true, "-v7": true, "--v=3": true, "--vmodule=controller=4,a*=7": true,
		"-v=8": false, "--v=10": false, "--vmodule=controller=4,request=8": false, "-v=many": false, "-v=-1": false, "--vmodule=controller": false,
	} {
		_, err := Parse("program", []string{argument}, nil)
		if (err == nil) != accepted {
			t.Errorf("%s: the error is %v, want accepted = %t", argument, err, accepted)
		}
	}
}

func TestLogFormats(t *testing.T) {
	t.Parallel()
	write := func(arguments ...string) []string {
		o, err := Parse("program", arguments, nil)
		if err != nil {
			t.Fatal(err)
		}
		out := &bytes.Buffer{}
		logger := o.logging.logger(out).WithValues("Machine", "ns/m")
		logger.Info("created instance", "instance", "i-1")
		logger.V(1).Info("waiting")
		logger.V(2).Info("request")
		logger.Error(errors.New("no answer"), "listing instances")
		return strings.Split(strings.TrimSpace(out.String()), "\n")
	}
	text := write("-v=1")
	if len(text) != 3 || !strings.HasSuffix(text[0], `"created instance" Machine="ns/m" instance="i-1"`) || !strings.Contains(text[2], `err="no answer"`) {
		t.Errorf("text is %q", text)
	}
	lines := write("-v=1", "--log-format=json")
	if len(lines) != 3 {
		t.Fatalf("JSON is %q", lines)
	}
	var created, waiting, failed map[string]any
	for i, into := range []*map[string]any{&created, &waiting, &failed} {
		if err := json.Unmarshal([]byte(lines[i]), into); err != nil {
			t.Fatal(err)
		}
	}
	if created["msg"] != "created instance" || created["v"] != 0.0 || created["Machine"] != "ns/m" || created["instance"] != "i-1" || created["ts"] == nil {
		t.Errorf("the first line is %v", created)
	}
	if waiting["v"] != 1.0 || failed["err"] != "no answer" || failed["level"] != "ERROR" {
		t.Errorf("the others are %v and %v", waiting, failed)
	}
}

// TestLongLinesAreTruncated: a server or a Secret of a tenant may be quoted in a line, and the log is everybody's.
func TestLongLinesAreTruncated(t *testing.T) {
	t.Parallel()
	for _, format := range []string{textFormat, jsonFormat} {
		o, err := Parse("program", []string{"--log-format=" + format}, nil)
		if err != nil {
			t.Fatal(err)
		}
		out := &bytes.Buffer{}
		logger := o.logging.logger(out)
		logger.Info("created port", "port", strings.Repeat("\x01ä", 1<<20))
		logger.Error(errors.New(strings.Repeat("x", 1<<20)), "listing instances")
		logger.Info("created port", "port", "short")
		lines := strings.SplitAfter(out.String(), "\n")
		if len(lines) != 4 || !strings.Contains(lines[0], "created port") || !strings.Contains(lines[2], "short") || lines[3] != "" {
			t.Fatalf("%s: %d lines of %d bytes, want 3 and their messages", format, len(lines)-1, out.Len())
		}
		for _, line := range lines {
			if len(line) > maxLine+len("…\n") || !utf8.ValidString(line) {
				t.Errorf("%s: a line has %d bytes, or a part of a character", format, len(line))
			}
		}
	}
}
