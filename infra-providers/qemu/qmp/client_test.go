// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package qmp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"drover.io/infra-providers/qemu/qmp"
)

// listen serves one connection by a script and returns its path.
func listen(t *testing.T, serve func(conn net.Conn, lines *bufio.Scanner)) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "qmp-")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close() //nolint:errcheck // the test is over
		serve(conn, bufio.NewScanner(conn))
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	return path
}

const greeting = `{"QMP":{"version":{},"capabilities":[]}}` + "\r\n"

// id reads a command and returns its id.
func id(lines *bufio.Scanner) string {
	var request struct{ Execute, ID string }
	if lines.Scan() {
		_ = json.Unmarshal(lines.Bytes(), &request)
	}
	return request.ID
}

// greet does what every server begins with.
func greet(conn net.Conn, lines *bufio.Scanner) {
	_, _ = conn.Write([]byte(greeting))
	_, _ = fmt.Fprintf(conn, `{"return":{},"id":%q}`+"\n", id(lines))
}

func TestAnswersAndEvents(t *testing.T) {
	t.Parallel()
	path := listen(t, func(conn net.Conn, lines *bufio.Scanner) {
		greet(conn, lines)
		first, second := id(lines), id(lines)
		_, _ = fmt.Fprintf(conn, `{"event":"STOP","data":{}}`+"\n")
		_, _ = fmt.Fprintf(conn, `{"return":%q,"id":%q}`+"\n", second, second)
		_, _ = fmt.Fprintf(conn, `{"error":{"class":"GenericError","desc":"no"},"id":%q}`+"\n", first)
		lines.Scan()
	})
	client, err := qmp.Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	var refused, answered int
	var mu sync.Mutex
	var callers sync.WaitGroup
	for range 2 {
		callers.Go(func() {
			raw, err := client.Execute(t.Context(), "query", nil)
			mu.Lock()
			defer mu.Unlock()
			if _, no := errors.AsType[*qmp.Error](err); no {
				refused++
			} else if err == nil && len(raw) > 0 {
				answered++
			}
		})
	}
	callers.Wait()
	if refused != 1 || answered != 1 {
		t.Errorf("%d refused and %d answered", refused, answered)
	}
	if event := <-client.Events(); event.Name != "STOP" {
		t.Errorf("got event %q", event.Name)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	<-client.Done()
}

func TestClosedConnectionEndsCommands(t *testing.T) {
	t.Parallel()
	path := listen(t, func(conn net.Conn, lines *bufio.Scanner) {
		greet(conn, lines)
		id(lines)
	})
	client, err := qmp.Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Execute(t.Context(), "quit", nil); !errors.Is(err, qmp.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
	<-client.Done()
}

func TestDialEndsWithItsContext(t *testing.T) {
	t.Parallel()
	path := listen(t, func(_ net.Conn, lines *bufio.Scanner) { lines.Scan() })
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() {
		_, err := qmp.Dial(ctx, path)
		result <- err
	}()
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

func TestDialFailsWithoutAListener(t *testing.T) {
	t.Parallel()
	if _, err := qmp.Dial(t.Context(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("got %v, want ENOENT", err)
	}
}
