// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"drover.io/test/controlplane/binaries"
)

func TestPortsAreDistinct(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for range 500 {
		p := claimedPort(t)
		if seen[p.number] {
			t.Fatalf("port %d was chosen twice", p.number)
		}
		seen[p.number] = true
	}
}

func TestPortRefusesConnectionsUntilItIsServed(t *testing.T) {
	t.Parallel()
	p := claimedPort(t)
	if _, err := net.Dial("tcp", p.address()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("without a listener: got %v, want %v", err, syscall.ECONNREFUSED)
	}
	listener, err := net.Listen("tcp", p.address())
	if err != nil {
		t.Fatalf("the program that the port is for: %v", err)
	}
	defer listener.Close() //nolint:errcheck // nothing is written
	if _, err := net.Dial("tcp", p.address()); err != nil {
		t.Errorf("with a listener: %v", err)
	}
}

func TestProgramMovesOffAPortThatWasTaken(t *testing.T) {
	t.Parallel()
	c, err := prepare(Options{Name: "moves"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	etcd, err := c.newEtcd()
	if err != nil {
		t.Fatal(err)
	}
	c.components = append(c.components, etcd)
	taken := etcd.port.number
	intruder, err := net.Listen("tcp", etcd.port.address())
	if err != nil {
		t.Fatal(err)
	}
	defer intruder.Close() //nolint:errcheck // nothing is written

	if err := etcd.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if etcd.port.number == taken {
		t.Errorf("it serves on port %d, which was taken", taken)
	}
}

func TestRestartKeepsPort(t *testing.T) {
	t.Parallel()
	c := startCluster(t, Options{Name: "keeps"})
	if err := c.StopAPIServer(); err != nil {
		t.Fatal(err)
	}
	intruder, err := net.Listen("tcp", c.apiServer.port.address())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.StartAPIServer(t.Context()); !errors.Is(err, errPortTaken) {
		t.Errorf("while the port is taken: got %v, want %v", err, errPortTaken)
	}
	if err := intruder.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.StartAPIServer(t.Context()); err != nil {
		t.Errorf("when the port is free again: %v", err)
	}
	if got := c.Processes()[1].Name; got != binaries.APIServer {
		t.Errorf("the second process is %q", got)
	}
}

// claimedPort returns a port for one test.
func claimedPort(t *testing.T) *port {
	t.Helper()
	p, err := newPort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.release)
	return p
}
