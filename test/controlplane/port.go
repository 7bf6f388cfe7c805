// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"syscall"
)

// Ports come from below the range from which systems take the source ports of
// outgoing connections. A port from inside that range could be taken by any
// client while an API server is down, even by one that connects to itself.
const (
	firstPort = 20000
	lastPort  = 29999
)

// loopback is where everything listens.
const loopback = "127.0.0.1"

// errPortTaken means that a program did not start because its port was taken.
var errPortTaken = errors.New("port is taken")

// port is a TCP port on loopback that is ours until released. While no program
// listens on it, connections to it are refused and other clusters, of this
// process or another, do not choose it.
type port struct {
	number int
	claim  *claim
}

// newPort chooses a port.
func newPort() (*port, error) {
	p := &port{}
	return p, p.move()
}

// move changes to another port.
func (p *port) move() error {
	p.release()
	for range lastPort - firstPort {
		number := firstPort + rand.IntN(lastPort-firstPort+1)
		claim, err := claimPort(number)
		if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EACCES) {
			continue
		}
		if err != nil {
			return fmt.Errorf("choosing a port: %w", err)
		}
		p.number, p.claim = number, claim
		return nil
	}
	return fmt.Errorf("choosing a port: none free on %s from %d to %d", loopback, firstPort, lastPort)
}

// release gives the port up.
func (p *port) release() {
	if p != nil {
		p.claim.release()
		p.claim = nil
	}
}

// address returns host and port.
func (p *port) address() string {
	return net.JoinHostPort(loopback, strconv.Itoa(p.number))
}

// isPortTaken recognises in the log of a program that its port was taken.
// The programs pass on the text of the operating system.
func isPortTaken(log string) bool {
	return strings.Contains(log, syscall.EADDRINUSE.Error())
}
