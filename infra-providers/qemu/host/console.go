// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"encoding/json"
	"errors"

	"drover.io/infra-providers/internal/statedir"
	"drover.io/infra-providers/qemu/qmp"
	"drover.io/infra-providers/qemu/vm"
)

const (
	// consoleChunk is the size of one read.
	consoleChunk = 64 << 10
	// consoleLimit is the size at which the console's file starts again; one older part is kept.
	consoleLimit = 4 << 20
)

// drainConsole moves the output of the guest since the last call from QEMU's memory to the console's file. The output is
// bounded by two files and QEMU's buffer, with or without a provider; the oldest is lost.
func (s *supervisor) drainConsole(ctx context.Context, client *qmp.Client) error {
	for range vm.ConsoleBuffer / consoleChunk {
		content, err := readConsole(ctx, client)
		if refused, ok := errors.AsType[*qmp.Error](err); ok && refused.Class == "GenericError" {
			return nil // an older provider started it with a file as its console
		}
		if err != nil || len(content) == 0 {
			return err
		}
		// A lost part of the console, as on a full disk, must not make a running machine fail.
		_ = statedir.AppendBounded(s.path(consoleFile), content, consoleLimit)
	}
	return nil
}

func readConsole(ctx context.Context, client *qmp.Client) (content []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	raw, err := client.Execute(ctx, "ringbuf-read", map[string]any{"device": "console", "size": consoleChunk, "format": "base64"})
	if err != nil {
		return nil, err
	}
	return content, json.Unmarshal(raw, &content)
}
