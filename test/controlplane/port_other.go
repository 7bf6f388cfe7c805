// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package controlplane

import (
	"net"
	"strconv"
)

// claim is empty: on this system a port cannot be kept for another program.
// A caller that loses the race for it tries another.
type claim struct{}

// claimPort checks that a port is free.
func claimPort(number int) (*claim, error) {
	l, err := net.Listen("tcp4", net.JoinHostPort(loopback, strconv.Itoa(number)))
	if err != nil {
		return nil, err
	}
	return &claim{}, l.Close()
}

// release does nothing.
func (c *claim) release() {}
