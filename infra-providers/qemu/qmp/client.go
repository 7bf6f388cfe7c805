// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package qmp is a client of the QEMU Machine Protocol over a unix socket: one JSON object per line, commands with their
// answers, and events in between. It has no specific commands; package host calls it. Existing libraries depend on
// libvirt.
package qmp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"
)

// ErrClosed means that QEMU closed the connection: the process has ended or is ending.
var ErrClosed = errors.New("QEMU closed the connection")

// Error is QEMU's refusal of a command.
type Error struct {
	Class string `json:"class"`
	Desc  string `json:"desc"`
}

func (e *Error) Error() string { return e.Desc }

// Event is an event of the machine.
type Event struct {
	Name string          `json:"event"`
	Data json.RawMessage `json:"data"`
}

// Client is a connection. QEMU serves one at a time per socket; others wait for their greeting.
type Client struct {
	conn   net.Conn
	events chan Event
	done   chan struct{}

	mu      sync.Mutex
	next    int
	waiting map[string]chan message
}

// message is any line from QEMU.
type message struct {
	Greeting *json.RawMessage `json:"QMP"`
	Event
	ID     string          `json:"id"`
	Return json.RawMessage `json:"return"`
	Error  *Error          `json:"error"`
}

// Dial connects and negotiates. It fails with a system error when no process listens.
func Dial(ctx context.Context, path string) (*Client, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	c := &Client{conn: conn, events: make(chan Event, 64), done: make(chan struct{}), waiting: map[string]chan message{}}
	if err := c.negotiate(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// negotiate reads the greeting, which QEMU sends once it serves the connection, and leaves the negotiation mode.
func (c *Client) negotiate(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
	reader := bufio.NewReader(c.conn)
	line, err := reader.ReadBytes('\n')
	if !stop() {
		return ctx.Err()
	}
	var hello message
	if err == nil {
		err = json.Unmarshal(line, &hello)
	}
	if err != nil || hello.Greeting == nil {
		return fmt.Errorf("waiting for QEMU's greeting: %w", errors.Join(ErrClosed, err))
	}
	go c.read(reader)
	_, err = c.Execute(ctx, "qmp_capabilities", nil)
	return err
}

// Execute runs a command and returns its answer.
func (c *Client) Execute(ctx context.Context, command string, arguments any) (json.RawMessage, error) {
	answer := make(chan message, 1)
	c.mu.Lock()
	c.next++
	id := strconv.Itoa(c.next)
	c.waiting[id] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
	}()
	request := map[string]any{"execute": command, "id": id}
	if arguments != nil {
		request["arguments"] = arguments
	}
	line, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	if _, err := c.conn.Write(append(line, '\n')); err != nil {
		return nil, fmt.Errorf("executing %s: %w", command, ErrClosed)
	}
	select {
	case got := <-answer:
		if got.Error != nil {
			return nil, fmt.Errorf("executing %s: %w", command, got.Error)
		}
		return got.Return, nil
	case <-c.done:
		return nil, fmt.Errorf("executing %s: %w", command, ErrClosed)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Events are the events of the machine until the connection ends. A reader that is 64 events behind misses some, so it
// must also query the status from time to time.
func (c *Client) Events() <-chan Event { return c.events }

// Done is closed once the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// Close closes the connection. The machine keeps running.
func (c *Client) Close() error { return c.conn.Close() }

func (c *Client) read(reader *bufio.Reader) {
	defer close(c.done)
	for {
		line, err := reader.ReadBytes('\n')
		if err != nil {
			return
		}
		var got message
		if err := json.Unmarshal(line, &got); err != nil {
			return
		}
		c.deliver(got)
	}
}

func (c *Client) deliver(got message) {
	if got.Name != "" {
		select {
		case c.events <- got.Event:
		default:
		}
		return
	}
	c.mu.Lock()
	answer := c.waiting[got.ID]
	c.mu.Unlock()
	if answer != nil {
		answer <- got
	}
}
