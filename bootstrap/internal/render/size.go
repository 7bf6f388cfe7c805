// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"slices"

	"drover.io/bootstrap/node"
)

const (
	// MaxContent is how many bytes all files may have before they are compressed, and all values from Secrets: four times what a Secret may have.
	MaxContent = 4 << 20
	// compressFrom is the size from which both formats have a file compressed and in base64.
	compressFrom = 1024
	// chunk is how many bytes are compressed before the size is compared with the limit.
	chunk = 64 << 10
)

// checkFiles refuses files that do not fit, before they are written in memory with all of their encodings.
func checkFiles(n *node.Node, limit int) error {
	files, content := n.AllFiles(), 0
	for _, f := range files {
		content += len(f.Content)
	}
	if content > MaxContent {
		return tooLarge("its files have %d bytes, more than the %d allowed before they are compressed: put less into them", content, MaxContent)
	}
	plain, compressed := 0, counter(0)
	size := func() int { return plain + base64.StdEncoding.EncodedLen(int(compressed)) }
	compressor, _ := gzip.NewWriterLevel(&compressed, gzip.BestCompression) // the level is valid
	for _, f := range files {
		if f.Jinja || len(f.Content) < compressFrom {
			plain += len(f.Content)
			continue
		}
		compressor.Reset(&compressed)
		for part := range slices.Chunk(f.Content, chunk) {
			if size() <= limit {
				_, _ = compressor.Write(part) // a counter does not fail
			}
		}
		_ = compressor.Close()
	}
	if size() > limit {
		return tooLarge("the bootstrap data has %d bytes or more, and %d are allowed: put less into files and commands, or allow more if the cloud takes it", size(), limit)
	}
	return nil
}

func tooLarge(format string, args ...any) error {
	return &node.InvalidError{Field: "spec.maxSizeBytes", Detail: fmt.Sprintf(format, args...)}
}

// counter counts what is written.
type counter int

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
