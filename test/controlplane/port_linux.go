// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import "syscall"

// claim is a socket that is bound and never listens.
type claim struct {
	socket int
}

// claimPort claims a port. It binds twice: first exclusively, which fails if
// any process has the port, listening or not; then in a way that permits the program
// of the port to bind and listen beside the claim. No other process that binds
// exclusively gets the port meanwhile.
func claimPort(number int) (*claim, error) {
	exclusive, err := bind(number, false)
	if err != nil {
		return nil, err
	}
	if err := syscall.Close(exclusive); err != nil {
		return nil, err
	}
	shared, err := bind(number, true)
	if err != nil {
		return nil, err
	}
	return &claim{socket: shared}, nil
}

// release drops the claim. A nil claim has nothing to drop.
func (c *claim) release() {
	if c != nil {
		_ = syscall.Close(c.socket) // nothing was sent that could be lost
	}
}

// bind returns a socket bound to the port on loopback.
func bind(number int, shared bool) (int, error) {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	if shared {
		err = syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	}
	if err == nil {
		err = syscall.Bind(socket, &syscall.SockaddrInet4{Port: number, Addr: [4]byte{127, 0, 0, 1}})
	}
	if err != nil {
		_ = syscall.Close(socket)
		return 0, err
	}
	return socket, nil
}
