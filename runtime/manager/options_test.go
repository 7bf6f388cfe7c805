// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/util/cert"
)

func TestParse(t *testing.T) {
	t.Parallel()
	o, err := Parse("program", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Options{
		MetricsBindAddress: ":8085", HealthProbeBindAddress: ":9440", PprofBindAddress: "0", LeaderElect: true, WorkerCount: 20, SyncPeriod: 10 * time.Minute,
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		KubeAPIQPS: -1, KubeAPIBurst: 200, logging: logging{format: "text"}, tracing: tracingOptions{samplingRate: 1_000_000},
	}
	if *o != want {
		t.Errorf("defaults are %+v", o)
	}
	own := ""
	o, err = Parse("program", []string{"--worker-count=3", "--namespace=ns", "--leader-elect=false", "-v=2", "--log-format=json", "--own=x"},
		func(flags *pflag.FlagSet) { flags.StringVar(&own, "own", "", "") })
	if err != nil {
		t.Fatal(err)
	}
	if o.WorkerCount != 3 || o.Namespace != "ns" || o.LeaderElect || o.logging != (logging{verbosity: 2, format: "json"}) || own != "x" {
		t.Errorf("options are %+v, and the program's own is %q", o, own)
	}
}

func TestParseNamesInvalidFlags(t *testing.T) {
	t.Parallel()
	for flag, value := range map[string]string{
		"--namespace": "Bad_NS", "--watch-filter": "a,b", "--leader-election-namespace": "a.b", "--kube-api-qps": "0", "--kube-api-burst": "0",
		"--metrics-bind-address": "", "--health-probe-bind-address": "9440", "--pprof-bind-address": ":port", "--worker-count": "0",
		"--sync-period": "soon", "--no-such-flag": "x", "--leader-elect-lease-duration": "10s", "--leader-elect-renew-deadline": "2s",
		"--leader-elect-retry-period": "0s", "--log-format": "xml",
	} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			_, err := Parse("program", []string{flag + "=" + value}, nil)
			if err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(flag, "--")) || strings.Contains(err.Error(), "\n") {
				t.Errorf("the error is %v, want one line that names %s", err, flag)
			}
		})
	}
	for flag, value := range map[string]string{"--sync-period": "-5s", "--worker-count": "-4"} {
		if _, err := Parse("program", []string{flag + "=" + value}, nil); err == nil || !strings.HasPrefix(err.Error(), flag+" must be at least 1") || !strings.HasSuffix(err.Error(), "not "+value) {
			t.Errorf("%s=%s: the error is %v", flag, value, err)
		}
	}
	for want, args := range map[string][]string{
		"--worker-count must be at most 10000, not 10001":                                                                                           {"--worker-count=10001"},
		"--leader-elect-lease-duration must be at least 1s, not 500ms":                                                                              {"--leader-elect-lease-duration=500ms", "--leader-elect-renew-deadline=300ms", "--leader-elect-retry-period=100ms"},
		"--metrics-secure has no effect with --metrics-bind-address=0":                                                                              {"--metrics-secure", "--metrics-bind-address=0"},
		"--vmodule has no effect with --log-format=json":                                                                                            {"--vmodule=approver=2", "--log-format=json"},
		"--metrics-cert-dir has no effect without --metrics-secure":                                                                                 {"--metrics-cert-dir=/tmp"},
		"--metrics-bind-address and --health-probe-bind-address must differ, and both are :9440":                                                    {"--metrics-bind-address=:9440"},
		`--health-probe-bind-address must be an address such as ":8080" or "127.0.0.1:8080" with a port up to 65535, or "0" to turn it off, not ""`: {"--health-probe-bind-address="},
		`invalid value "maybe" for --leader-elect: must be true or false`:                                                                           {"--leader-elect=maybe"},
		"-namespace=x must have two dashes: --namespace":                                                                                            {"-namespace=x"},
		"-version must have two dashes: --version":                                                                                                  {"-version"},
		"-health-probe-bind-address=0 must have two dashes: --health-probe-bind-address":                                                            {"-health-probe-bind-address=0"},
	} {
		if _, err := Parse("program", args, nil); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", args, err, want)
		}
	}
	if _, err := Parse("program", []string{"extra"}, nil); err == nil || !strings.Contains(err.Error(), `"extra" is no flag`) {
		t.Errorf("with an argument that is no flag the error is %v", err)
	}
}

func TestParsePrintsVersionAndHelp(t *testing.T) {
	t.Parallel()
	for argument, want := range map[string]string{"--version": "program unreleased (revision ", "--help": "--worker-count"} {
		out := &bytes.Buffer{}
		if _, err := parse(out, "program", []string{argument}, nil); !errors.Is(err, ErrDone) || !strings.Contains(out.String(), want) {
			t.Errorf("%s: printed %q, error %v", argument, out, err)
		}
	}
}

func TestFolderWithoutACertificateIsRefused(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	args := []string{"--metrics-secure", "--metrics-cert-dir=" + folder}
	if _, err := Parse("program", args, nil); err == nil || !strings.Contains(err.Error(), "--metrics-cert-dir must be a folder with tls.crt and tls.key") {
		t.Errorf("got %v, want a refusal", err)
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, files := range []struct {
		certificate, key []byte
		good             bool
	}{{nil, nil, false}, {certificate, []byte("x"), false}, {certificate, key, true}} {
		for name, content := range map[string][]byte{"tls.crt": files.certificate, "tls.key": files.key} {
			if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Parse("program", args, nil); (err == nil) != files.good || err != nil && !strings.HasPrefix(err.Error(), "--metrics-cert-dir must be a folder with") {
			t.Errorf("got %v, good: %v", err, files.good)
		}
	}
}
