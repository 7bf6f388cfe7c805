// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestInvalidFlags(t *testing.T) {
	t.Parallel()
	if o, err := Parse("infra-test", nil, nil); err != nil || o.WorkerCount != 20 {
		t.Fatalf("the defaults are refused: %v", err)
	}
	for flag, value := range map[string]string{
		"--worker-count": "-4", "--inventory-interval": "-1m",
		"--machine-safety-orphan-vms-period": "-1s", "--machine-safety-orphan-vms-grace": "0s", "--machine-safety-orphan-vms-max": "-1", "--no-such-flag": "x",
		"--own-credentials-namespaces": "a,team=b",
	} {
		_, err := Parse("infra-test", []string{flag + "=" + value}, nil)
		if err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(flag, "--")) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s=%s: error is %v, want one line that names the flag", flag, value, err)
		}
	}
}

func TestFlagsOfOneProvider(t *testing.T) {
	t.Parallel()
	own := ""
	if _, err := Parse("infra-test", []string{"--own=x"}, func(flags *pflag.FlagSet) { flags.StringVar(&own, "own", "", "") }); err != nil || own != "x" {
		t.Errorf("it is %q (%v)", own, err)
	}
}
