// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"
)

// maxVerbosity is the highest level at which client-go does not write the bodies of requests, and with them Secrets,
// into the log.
const maxVerbosity = 7

const (
	textFormat = "text"
	jsonFormat = "json"
)

// maxLine is how many bytes of a line are written: it may quote what a server or a Secret of a tenant has.
const maxLine = 64 << 10

// truncatedLines writes the beginning of lines that are too long; in the JSON format the rest of such a line is missing too.
type truncatedLines struct{ out io.Writer }

// Write implements io.Writer. Both formats write each line by one call.
func (t truncatedLines) Write(line []byte) (int, error) {
	if len(line) <= maxLine {
		return t.out.Write(line)
	}
	_, err := t.out.Write(append(bytes.ToValidUTF8(line[:maxLine:maxLine], nil), "…\n"...))
	return len(line), err
}

// logging are the flags of the log.
type logging struct {
	verbosity int
	vmodule   string
	format    string
}

func (l *logging) addFlags(flags *pflag.FlagSet) {
	l.format = textFormat
	flags.Var((*format)(&l.format), "log-format", `format of the log: "text" or "json"`)
	flags.VarP((*level)(&l.verbosity), "v", "v", "level of the log: 0 is what changed, 1 also why nothing did, up to 7 for requests")
	flags.Var((*vmodule)(&l.vmodule), "vmodule", "levels of single files, as in \"approver=2,node*=4\"; with --log-format=text only")
}

// level is the value of -v.
type level int

func (l *level) String() string { return strconv.Itoa(int(*l)) }
func (*level) Type() string     { return "level" }

// Set implements pflag.Value.
func (l *level) Set(value string) error {
	parsed, err := parseLevel(value)
	*l = level(parsed)
	return err
}

func parseLevel(value string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(value))
	switch {
	case err != nil || n < 0:
		return 0, fmt.Errorf("must be a number from 0 to %d", maxVerbosity)
	case n > maxVerbosity:
		return 0, fmt.Errorf("must be at most %d: at %d the log would have the bodies of requests, and with them Secrets", maxVerbosity, n)
	}
	return n, nil
}

// vmodule is the value of --vmodule.
type vmodule string

func (v *vmodule) String() string { return string(*v) }
func (*vmodule) Type() string     { return "pattern=level,…" }

// Set implements pflag.Value.
func (v *vmodule) Set(value string) error {
	for setting := range strings.SplitSeq(value, ",") {
		pattern, number, found := strings.Cut(setting, "=")
		if !found || pattern == "" {
			return fmt.Errorf("%q must be a pattern and a level, as in approver=2", setting)
		}
		if _, err := parseLevel(number); err != nil {
			return fmt.Errorf("the level of %q %w", pattern, err)
		}
	}
	*v = vmodule(value)
	return nil
}

// format is the value of --log-format.
type format string

func (f *format) String() string { return string(*f) }
func (*format) Type() string     { return "format" }

// Set implements pflag.Value.
func (f *format) Set(value string) error {
	if value != textFormat && value != jsonFormat {
		return fmt.Errorf("must be %q or %q", textFormat, jsonFormat)
	}
	*f = format(value)
	return nil
}

// logger returns the logger that the flags describe.
func (l *logging) logger(out io.Writer) logr.Logger {
	out = truncatedLines{out}
	if l.format == jsonFormat {
		return logr.FromSlogHandler(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: slog.Level(-l.verbosity), ReplaceAttr: asKubernetes}))
	}
	config := textlogger.NewConfig(textlogger.Output(out), textlogger.Verbosity(l.verbosity))
	if l.vmodule != "" {
		// Set has checked it.
		_ = config.VModule().Set(l.vmodule)
	}
	return textlogger.NewLogger(config)
}

// asKubernetes gives the attributes that every line has the keys that Kubernetes' own components use: ts, v for the
// level of what is no error, and msg.
func asKubernetes(groups []string, attribute slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return attribute
	}
	switch attribute.Key {
	case slog.TimeKey:
		attribute.Key = "ts"
	case slog.LevelKey:
		if at, ok := attribute.Value.Any().(slog.Level); ok && at <= slog.LevelInfo {
			return slog.Int("v", -int(at))
		}
	}
	return attribute
}

// setUpLogging makes the log of the whole process, the client library's own lines included, what the flags describe.
func (o *Options) setUpLogging() {
	logger := o.logging.logger(os.Stderr)
	ctrl.SetLogger(logger)
	klog.SetLoggerWithOptions(logger, klog.ContextualLogger(true))
}
