// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command fakecloud is one of the simulated clouds as a process of its own, for tests that run the providers as processes
// too. It serves the cloud's API on loopback, and on another port the number of calls and what is left: GET /calls and
// GET /left. The first line of its output has both addresses.
//
// As qemu it serves nothing: it fills a folder with doubles of QEMU's programs, and with an image.
package main

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"drover.io/infra-providers/qemu/qemufake"
)

func main() {
	qemufake.Main()
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "fakecloud:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "qemu":
		return writeFakeQEMU(args[1])
	case len(args) == 1 && clouds[args[0]] != nil:
		return serve(args[0])
	default:
		return fmt.Errorf("got %q, want alibaba, anexia, aws, azure, digitalocean, google, hetzner, kubevirt, metalstack, nutanix, openstack, vcd, vsphere, yandex, or qemu and a folder", args)
	}
}

// writeFakeQEMU makes a folder with the programs and the image of a host.
func writeFakeQEMU(folder string) error {
	if err := qemufake.Programs(folder); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "empty.raw"), make([]byte, 1<<20), 0o600)
}

// stops end the processes that clouds have started.
var stops []func() error

// serve runs a cloud until SIGTERM.
func serve(name string) error {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	open := clouds[name]
	calls := &callCounter{}
	front := httptest.NewUnstartedServer(calls)
	front.Config.Protocols = &http.Protocols{}
	front.Config.Protocols.SetHTTP1(true)
	front.Config.Protocols.SetHTTP2(true)
	front.Config.Protocols.SetUnencryptedHTTP2(true) // for gRPC
	if withTLS[name] {
		front.StartTLS()
	} else {
		front.Start()
	}
	opened, err := open(front.URL)
	if err != nil {
		return err
	}
	calls.forwardTo(opened.handler)
	inspection := http.NewServeMux()
	for path, answer := range map[string]func() any{
		"GET /calls": func() any { return calls.counts() },
		"GET /left":  func() any { return append([]string{}, opened.left()...) },
		// The certificate of a cloud with TLS, in PEM.
		"GET /certificate": func() any { return certificateOf(front) },
	} {
		inspection.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(answer()) // the caller may have closed the connection
		})
	}
	inspector := httptest.NewServer(inspection)
	where, err := json.Marshal(map[string]string{"api": front.URL, "control": inspector.URL})
	if err != nil {
		return err
	}
	fmt.Println(string(where))
	<-ended
	var errs []error
	for _, stop := range stops {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

// withTLS are the clouds whose clients accept only HTTPS.
var withTLS = map[string]bool{"azure": true, "nutanix": true}

func certificateOf(front *httptest.Server) string {
	if front.Certificate() == nil {
		return ""
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw}))
}
