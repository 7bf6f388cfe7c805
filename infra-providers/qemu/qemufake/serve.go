// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package qemufake

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// lifetime is longer than any test.
const lifetime = 20 * time.Minute

// serve is the daemon. It writes to the pipe that it is ready, or the error.
func serve(m machine) error {
	ready := os.NewFile(4, "ready")
	listener, err := m.open()
	if err != nil {
		_, _ = ready.WriteString(err.Error())
		return err
	}
	if _, err := ready.WriteString("ready"); err != nil {
		return err
	}
	_ = ready.Close()
	time.AfterFunc(lifetime, func() { os.Exit(1) }) // a test that is killed leaves no process forever
	status := "running"
	m.console = []byte("no bootable device\n")
	if strings.Contains(m.append, FullConsole) {
		m.console = bytes.Repeat([]byte(Line), ring/len(Line))
	}
	switch {
	case strings.Contains(m.append, PoweredOff):
		status = "shutdown"
	case strings.Contains(m.append, InternalError):
		status = "internal-error"
	}
	for {
		conn, err := listener.Accept() // one at a time, as QEMU does
		if err != nil {
			return err
		}
		if strings.Contains(m.append, Unresponsive) {
			continue // and keeps the connection
		}
		if m.serveConnection(conn, &status) {
			return errors.Join(listener.Close(), os.Remove(m.pid))
		}
		_ = conn.Close()
	}
}

// open opens the files and the socket of a machine.
func (m machine) open() (net.Listener, error) {
	for _, path := range m.files {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("could not open %s", path)
		}
		_ = file.Close()
	}
	listener, err := net.Listen("unix", m.socket)
	if err != nil {
		return nil, err
	}
	return listener, os.WriteFile(m.pid, fmt.Appendf(nil, "%d\n", os.Getpid()), 0o600)
}

// serveConnection serves one connection and returns true after the command quit.
func (m *machine) serveConnection(conn net.Conn, status *string) (quit bool) {
	send := func(message any) {
		line, err := json.Marshal(message)
		if err == nil {
			_, _ = conn.Write(append(line, '\r', '\n'))
		}
	}
	event := func(name string) { send(map[string]any{"event": name, "data": map[string]any{}}) }
	send(map[string]any{"QMP": map[string]any{"version": map[string]any{}, "capabilities": []string{}}})
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		var command struct {
			Execute, ID string
			Arguments   struct{ Size int }
		}
		if err := json.Unmarshal(lines.Bytes(), &command); err != nil {
			return false
		}
		answer := any(map[string]any{})
		switch command.Execute {
		case "qmp_capabilities", "quit", "system_powerdown", "system_reset":
		case "query-status":
			answer = map[string]any{"status": *status, "running": *status == "running"}
		case "ringbuf-read":
			n := min(command.Arguments.Size, len(m.console))
			answer = m.console[:n] // which JSON has in base64
			m.console = m.console[n:]
		default:
			send(map[string]any{"id": command.ID, "error": map[string]any{"class": "CommandNotFound", "desc": "no such command"}})
			continue
		}
		if command.Execute == "system_powerdown" {
			event("POWERDOWN")
		}
		if command.Execute == "system_reset" {
			// The output of a guest that boots again.
			m.console = append(m.console, Booted...)
			event("RESET")
		}
		send(map[string]any{"id": command.ID, "return": answer})
		switch {
		case command.Execute == "quit":
			return true
		case command.Execute == "system_powerdown" && !strings.Contains(m.append, IgnoresPowerButton):
			*status = "shutdown"
			event("SHUTDOWN")
		}
	}
	return false
}
