// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

const (
	page  = "performance.md"
	plots = "performance"
	begin = "<!-- measured: begin -->\n"
	end   = "<!-- measured: end -->\n"
)

// WriteJSON writes everything that was measured.
func WriteJSON(path string, runs []Run) error {
	document, err := json.MarshalIndent(runs, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(document, '\n'), 0o600)
}

// ReadJSON reads what WriteJSON wrote.
func ReadJSON(path string) ([]Run, error) {
	document, err := os.ReadFile(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, err
	}
	var runs []Run
	if err := json.Unmarshal(document, &runs); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return runs, nil
}

// WriteDocs replaces the measured part of performance.md in a folder and the plots beside it, which show
// the first scenario.
func WriteDocs(folder string, runs []Run) error {
	path := filepath.Join(folder, page)
	text, err := os.ReadFile(path) //nolint:gosec // the user names the folder
	if err != nil {
		return err
	}
	text, err = replace(text, Tables(runs))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Join(folder, plots), 0o755); err != nil { //nolint:gosec // documentation
		return err
	}
	if err := Plot(filepath.Join(folder, plots), ScenariosOf(runs)[0], runs); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644) //nolint:gosec // documentation
}

// Tables are the tables of every scenario and of what grows from one to the next.
func Tables(runs []Run) []byte {
	var tables bytes.Buffer
	for _, scenario := range ScenariosOf(runs) {
		Table(&tables, scenario, runs)
		tables.WriteByte('\n')
	}
	Growth(&tables, runs)
	return tables.Bytes()
}

// replace puts new text between the marks.
func replace(text, measured []byte) ([]byte, error) {
	head, rest, ok := bytes.Cut(text, []byte(begin))
	if !ok {
		return nil, fmt.Errorf("there is no line %q", begin)
	}
	_, tail, ok := bytes.Cut(rest, []byte(end))
	if !ok {
		return nil, fmt.Errorf("there is no line %q", end)
	}
	return bytes.Join([][]byte{head, []byte(begin), measured, []byte(end), tail}, nil), nil
}
