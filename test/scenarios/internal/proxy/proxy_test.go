// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"testing"
	"time"
)

// echo returns the bytes of every connection.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(connection, connection) }()
		}
	}()
	return listener.Addr().String()
}

func request(p *Proxy) (net.Conn, error) {
	host, port := p.Address()
	return net.Dial("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
}

// answers sends a word and returns the reaction of the proxy.
func answers(connection net.Conn) error {
	if _, err := connection.Write([]byte("hi")); err != nil {
		return err
	}
	_, err := io.ReadFull(connection, make([]byte, 2))
	return err
}

func TestProxy(t *testing.T) {
	t.Parallel()
	p, err := New(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	first, err := request(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := answers(first); err != nil {
		t.Errorf("an open proxy: %v", err)
	}
	p.Close()
	if answers(first) == nil {
		t.Error("a closed proxy keeps open connections")
	}
	if _, err := request(p); err == nil {
		t.Error("a closed proxy accepts connections")
	}
	if err := p.Open(); err != nil {
		t.Fatal(err)
	}
	p.Hang()
	unreachable, err := request(p)
	if err != nil {
		t.Fatalf("a hanging proxy refuses connections: %v", err)
	}
	if err := unreachable.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if err := answers(unreachable); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a hanging proxy answers: %v", err)
	}
	if err := p.Open(); err != nil {
		t.Fatal(err)
	}
	last, err := request(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := answers(last); err != nil {
		t.Errorf("a proxy that was opened again: %v", err)
	}
}
