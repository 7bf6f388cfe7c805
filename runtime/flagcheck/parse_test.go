// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package flagcheck

import (
	"errors"
	"io"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
)

// positive is a value whose Set says itself what is allowed.
type positive string

func (*positive) String() string   { return "" }
func (*positive) Type() string     { return "positive" }
func (*positive) Set(string) error { return errors.New("must be positive") }

func flagsOfEveryType() *pflag.FlagSet {
	flags := pflag.NewFlagSet("program", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Bool("enabled", false, "")
	flags.Int("worker-count", 0, "")
	flags.Float32("qps", 0, "")
	flags.Duration("period", 0, "")
	flags.StringSlice("names", nil, "")
	flags.String("host", "", "")
	flags.Var(&resource.QuantityValue{}, "memory", "")
	flags.VarP(new(positive), "v", "v", "")
	return flags
}

func TestParseRefusesInOneLineThatHelps(t *testing.T) {
	t.Parallel()
	for argument, want := range map[string]string{
		"--enabled=maybe":                     `invalid value "maybe" for --enabled: must be true or false`,
		"--worker-count=many":                 `invalid value "many" for --worker-count: must be a whole number`,
		"--worker-count=1.5":                  `invalid value "1.5" for --worker-count: must be a whole number`,
		"--worker-count=99999999999999999999": `invalid value "99999999999999999999" for --worker-count: the number is out of range`,
		"--qps=fast":                          `invalid value "fast" for --qps: must be a number`,
		"--qps=1e99":                          `invalid value "1e99" for --qps: the number is out of range`,
		"--period=10":                         `invalid value "10" for --period: must be a duration with units, such as 30s, 5m or 1h30m`,
		"--period=soon\nor later":             `invalid value "soon\nor later" for --period: must be a duration with units, such as 30s, 5m or 1h30m`,
		"--memory=lots":                       `invalid value "lots" for --memory: must be a quantity such as 128Mi or 1Gi`,
		`--names="a`:                          `invalid value "\"a" for --names: must be a list with commas, and each " in pairs`,
		"-v=x":                                `invalid value "x" for --v: must be positive`,
		"-host=x":                             "-host=x must have two dashes: --host",
		"-host":                               "-host must have two dashes: --host",
		"-x":                                  "-x is no flag: --help lists the flags, which have two dashes",
		"--no-host":                           "--no-host is no flag: --help lists the flags",
		"--Worker_count=3":                    "--Worker_count is no flag: it is spelt --worker-count",
		"--host":                              "--host has no value: give it as --host=value",
		"-v":                                  "--v has no value: give it as --v=value",
		"---host":                             `"---host" is no flag: only flags may be given, each as --name=value`,
	} {
		if err := Parse(flagsOfEveryType(), []string{argument}); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", argument, err, want)
		}
	}
}

func TestParseAcceptsWhatPflagAccepts(t *testing.T) {
	t.Parallel()
	flags := flagsOfEveryType()
	if err := Parse(flags, []string{"--enabled", "--host", "a", "--names=a,b", "--", "-host"}); err != nil {
		t.Fatal(err)
	}
	if host, _ := flags.GetString("host"); host != "a" || flags.Arg(0) != "-host" {
		t.Errorf("got host %q, argument %q", host, flags.Arg(0))
	}
	for _, help := range []string{"--help", "-h"} {
		if err := Parse(flagsOfEveryType(), []string{help}); !errors.Is(err, pflag.ErrHelp) {
			t.Errorf("%s: got %v", help, err)
		}
	}
}
