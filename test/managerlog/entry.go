// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package managerlog reads the JSON logs of managers and summarizes them without names and times, so that two runs of
// one workflow have the same summary. Tests compare summaries with golden files.
package managerlog

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Entry is one line of a log.
type Entry struct {
	// Manager is the name of the program.
	Manager string
	Time    time.Time
	// Level is the verbosity. It is 0 for errors.
	Level   int
	Error   bool
	Message string
	// Values are the other keys of the line. The value of an object is "namespace/name" or "name".
	Values map[string]string
}

// Read returns the lines of a manager's log, written with --log-format=json.
func Read(manager string, log io.Reader) ([]Entry, error) {
	var entries []Entry
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		entry, err := parse(lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("line %d of %s: %w: %s", len(entries)+1, manager, err, lines.Text())
		}
		entry.Manager = manager
		entries = append(entries, entry)
	}
	return entries, lines.Err()
}

func parse(line []byte) (Entry, error) {
	var fields map[string]any
	if err := json.Unmarshal(line, &fields); err != nil {
		return Entry{}, err
	}
	e := Entry{Values: map[string]string{}}
	for key, value := range fields {
		switch key {
		case "ts":
			at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(value))
			if err != nil {
				return Entry{}, err
			}
			e.Time = at
		case "v":
			number, _ := value.(float64)
			e.Level = int(number)
		case "level":
			e.Error = true
		case "msg":
			e.Message = fmt.Sprint(value)
		default:
			e.Values[key] = text(value)
			if nanoseconds, ok := value.(float64); ok && key == "after" {
				e.Values[key] = time.Duration(nanoseconds).String()
			}
		}
	}
	return e, nil
}

// text returns a value as --log-format=text shows it.
func text(value any) string {
	object, ok := value.(map[string]any)
	if !ok {
		return fmt.Sprint(value)
	}
	name, named := object["name"].(string)
	if !named {
		return fmt.Sprint(value)
	}
	namespace, _ := object["namespace"].(string)
	return strings.TrimPrefix(namespace+"/"+name, "/")
}
