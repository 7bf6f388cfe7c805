// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// TestWrongArgumentsAreRefusedBeforeHelp is what make relies on: it adds --help to check the arguments.
func TestWrongArgumentsAreRefusedBeforeHelp(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]string{
		"--wrong": "--wrong is no flag", "-once": "-once must have two dashes", "extra": `"extra" is no flag`,
		"--once=maybe": "must be true or false", "--timeout=0s": "--timeout must be at least 1s",
	} {
		var out bytes.Buffer
		if _, _, err := parse([]string{arguments, "--help"}, &out); err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("%s: got %v and %q, want %s", arguments, err, out.String(), want)
		}
	}
	var out bytes.Buffer
	if _, _, err := parse([]string{"--once", "--help"}, &out); !errors.Is(err, pflag.ErrHelp) || !strings.Contains(out.String(), "--timeout") {
		t.Errorf("got %v and %q, want the help", err, out.String())
	}
	if once, timeout, err := parse([]string{"--once", "--timeout=1m"}, &out); !once || timeout != time.Minute || err != nil {
		t.Errorf("got %v, %v, %v", once, timeout, err)
	}
}
