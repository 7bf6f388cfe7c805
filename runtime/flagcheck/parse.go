// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package flagcheck

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// Parse reads arguments into flags. Its error is [pflag.ErrHelp], or one line with the flag, the value and what it may be:
// pflag's own has the words of the functions that read values, and takes a name after a single dash for several letters.
func Parse(flags *pflag.FlagSet, args []string) error {
	for _, arg := range args {
		if arg == "--" {
			break
		}
		if name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "="); len(name) > 1 && strings.HasPrefix(arg, "-") && flags.Lookup(name) != nil {
			return fmt.Errorf("%s must have two dashes: --%s", arg, name)
		}
	}
	return describe(flags, flags.Parse(args))
}

func describe(flags *pflag.FlagSet, err error) error {
	if invalid, is := errors.AsType[*pflag.InvalidValueError](err); is {
		return fmt.Errorf("invalid value %q for --%s: %s", invalid.GetValue(), invalid.GetFlag().Name, allowed(invalid))
	}
	if unknown, is := errors.AsType[*pflag.NotExistError](err); is {
		return unknownFlag(flags, unknown)
	}
	if missing, is := errors.AsType[*pflag.ValueRequiredError](err); is {
		return fmt.Errorf("--%[1]s has no value: give it as --%[1]s=value", missing.GetFlag().Name)
	}
	if syntax, is := errors.AsType[*pflag.InvalidSyntaxError](err); is {
		return fmt.Errorf("%q is no flag: only flags may be given, each as --name=value", syntax.GetSpecifiedFlag())
	}
	return err
}

// allowed is what the value of a flag may be. Types of our own return it from Set.
func allowed(invalid *pflag.InvalidValueError) string {
	if errors.Is(invalid, strconv.ErrRange) {
		return "the number is out of range"
	}
	switch invalid.GetFlag().Value.Type() {
	case "bool":
		return "must be true or false"
	case "int":
		return "must be a whole number"
	case "float32":
		return "must be a number"
	case "duration":
		return "must be a duration with units, such as 30s, 5m or 1h30m"
	case "quantity":
		return "must be a quantity such as 128Mi or 1Gi"
	case "stringSlice":
		return `must be a list with commas, and each " in pairs`
	}
	return invalid.Unwrap().Error()
}

func unknownFlag(flags *pflag.FlagSet, unknown *pflag.NotExistError) error {
	if letters := unknown.GetSpecifiedShortnames(); letters != "" {
		return fmt.Errorf("-%s is no flag: --help lists the flags, which have two dashes", letters)
	}
	name := unknown.GetSpecifiedName()
	if meant := strings.ToLower(strings.ReplaceAll(name, "_", "-")); flags.Lookup(meant) != nil {
		return fmt.Errorf("--%s is no flag: it is spelt --%s", name, meant)
	}
	return fmt.Errorf("--%s is no flag: --help lists the flags", name)
}
