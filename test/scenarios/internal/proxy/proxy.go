// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package proxy is the way to an API server on loopback: a port of its own that can be shut,
// so that the server cannot be reached, or left ajar, so that it never answers. Stories that
// share a workload cluster have a proxy each. It forwards bytes.
package proxy

import (
	"io"
	"net"
	"strconv"
	"sync"
)

// Proxy forwards connections to one address while it is open.
type Proxy struct {
	target, address string

	mu       sync.Mutex
	listener net.Listener
	hanging  bool
	through  map[net.Conn]bool
}

// New starts a proxy to the target on a free port.
func New(target string) (*Proxy, error) {
	p := &Proxy{target: target, address: "127.0.0.1:0", through: map[net.Conn]bool{}}
	return p, p.Open()
}

// Address is where the proxy listens; it stays the same when the proxy is opened again.
func (p *Proxy) Address() (host string, port int) {
	host, text, _ := net.SplitHostPort(p.address)
	port, _ = strconv.Atoi(text)
	return host, port
}

// Open accepts connections. It does nothing if the proxy is open.
func (p *Proxy) Open() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hanging = false
	p.drop()
	if p.listener != nil {
		return nil
	}
	listener, err := net.Listen("tcp", p.address)
	if err != nil {
		return err
	}
	p.listener, p.address = listener, listener.Addr().String()
	go p.serve(listener)
	return nil
}

// Close cuts every connection and refuses new ones.
func (p *Proxy) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	p.drop()
}

// Hang cuts every connection, and accepts new ones without ever answering.
func (p *Proxy) Hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hanging = true
	p.drop()
}

// drop cuts every connection; the caller holds the lock.
func (p *Proxy) drop() {
	for connection := range p.through {
		_ = connection.Close()
	}
	clear(p.through)
}

func (p *Proxy) serve(listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return // shut
		}
		go p.forward(connection)
	}
}

func (p *Proxy) forward(in net.Conn) {
	if p.add(in) {
		return // no answer until the proxy is opened or closed, which closes the connection
	}
	out, err := net.Dial("tcp", p.target)
	if err != nil {
		p.remove(in)
		return
	}
	p.add(out)
	go func() {
		_, _ = io.Copy(out, in)
		p.remove(out)
	}()
	_, _ = io.Copy(in, out)
	p.remove(in)
	p.remove(out)
}

// add records a connection, and reports whether it has to hang.
func (p *Proxy) add(connection net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil {
		_ = connection.Close()
		return p.hanging
	}
	p.through[connection] = true
	return p.hanging
}

func (p *Proxy) remove(connection net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.through, connection)
	_ = connection.Close()
}
