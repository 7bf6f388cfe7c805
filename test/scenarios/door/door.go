// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package door is the way to an API server on loopback: a port of its own that can be shut,
// so that the server cannot be reached, or left ajar, so that it never answers. Stories that
// share a workload cluster have a door each. It sees no more of a connection than its bytes.
package door

import (
	"io"
	"net"
	"strconv"
	"sync"
)

// Door forwards connections to one address while it is open.
type Door struct {
	target, address string

	mu       sync.Mutex
	listener net.Listener
	hanging  bool
	through  map[net.Conn]bool
}

// New opens a door to the target on a free port.
func New(target string) (*Door, error) {
	d := &Door{target: target, address: "127.0.0.1:0", through: map[net.Conn]bool{}}
	return d, d.Open()
}

// Address is where to knock; it stays the same when the door is opened again.
func (d *Door) Address() (host string, port int) {
	host, text, _ := net.SplitHostPort(d.address)
	port, _ = strconv.Atoi(text)
	return host, port
}

// Open lets connections through. It does nothing if the door is open.
func (d *Door) Open() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hanging = false
	d.drop()
	if d.listener != nil {
		return nil
	}
	listener, err := net.Listen("tcp", d.address)
	if err != nil {
		return err
	}
	d.listener, d.address = listener, listener.Addr().String()
	go d.serve(listener)
	return nil
}

// Shut cuts every connection and refuses new ones.
func (d *Door) Shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listener != nil {
		_ = d.listener.Close()
		d.listener = nil
	}
	d.drop()
}

// Hang cuts every connection, and accepts new ones without ever answering.
func (d *Door) Hang() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hanging = true
	d.drop()
}

// drop cuts every connection; the caller holds the lock.
func (d *Door) drop() {
	for connection := range d.through {
		_ = connection.Close()
	}
	clear(d.through)
}

func (d *Door) serve(listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return // shut
		}
		go d.forward(connection)
	}
}

func (d *Door) forward(in net.Conn) {
	if d.admit(in) {
		return // nobody will answer until the door is opened or shut, which cuts it
	}
	out, err := net.Dial("tcp", d.target)
	if err != nil {
		d.leave(in)
		return
	}
	d.admit(out)
	go func() {
		_, _ = io.Copy(out, in)
		d.leave(out)
	}()
	_, _ = io.Copy(in, out)
	d.leave(in)
	d.leave(out)
}

// admit remembers a connection, and says whether it has to hang.
func (d *Door) admit(connection net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listener == nil {
		_ = connection.Close()
		return d.hanging
	}
	d.through[connection] = true
	return d.hanging
}

func (d *Door) leave(connection net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.through, connection)
	_ = connection.Close()
}
