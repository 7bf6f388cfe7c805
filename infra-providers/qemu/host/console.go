// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"drover.io/infra-providers/qemu/qmp"
)

const (
	// consoleRing is how much of the console QEMU keeps in memory until it is read: the last of what the guest writes
	// while no provider runs. It must be a power of two.
	consoleRing = 1 << 20
	// consoleChunk is how much is read at a time.
	consoleChunk = 64 << 10
	// consoleLimit is the size at which the console's file starts over; one older part is kept.
	consoleLimit = 4 << 20
	// olderConsole ends the name of that part.
	olderConsole = ".1"
)

// drainConsole moves what the guest wrote since the last time from QEMU's memory to the console's file. A guest that
// writes without end gets the room of two files and one ring, whether a provider runs or not, and loses the oldest.
func (s *supervisor) drainConsole(ctx context.Context, client *qmp.Client) error {
	for range consoleRing / consoleChunk {
		content, err := readConsole(ctx, client)
		if refused, ok := errors.AsType[*qmp.Error](err); ok && refused.Class == "GenericError" {
			return nil // an older provider started it, with a file for its console
		}
		if err != nil || len(content) == 0 {
			return err
		}
		// A console that loses something, as on a full disk, is no reason to call a machine broken that runs.
		_ = appendBounded(s.path(consoleFile), content, consoleLimit)
	}
	return nil
}

func readConsole(ctx context.Context, client *qmp.Client) (content []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	raw, err := client.Execute(ctx, "ringbuf-read", map[string]any{"device": "console", "size": consoleChunk, "format": "base64"})
	if err != nil {
		return nil, err
	}
	return content, json.Unmarshal(raw, &content)
}

// appendBounded appends to a file, which starts over where it would grow beyond the limit.
func appendBounded(path string, content []byte, limit int64) error {
	if info, err := os.Stat(path); err == nil && info.Size()+int64(len(content)) > limit {
		if err := os.Rename(path, path+olderConsole); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}
