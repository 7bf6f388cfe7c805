// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package audit counts requests in the audit log of an API server, so that the figures do not depend
// on metrics of the clients. It is independent of the clients.
package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// Policy records every request of a user or group once each without its content. Leases
// and access reviews do not count. A verb takes the name.
func Policy(kind string, names ...string) []byte {
	quoted, _ := json.Marshal(names)
	return fmt.Appendf(nil, `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: None
  nonResourceURLs: ["*"]
- level: None
  resources:
  - group: coordination.k8s.io
  - group: authentication.k8s.io
  - group: authorization.k8s.io
- level: Metadata
  %s: %s
- level: None
`, kind, quoted)
}

// Call is a kind of request.
type Call struct {
	User string
	// Verb is that of the API, such as patch; Resource has its subresource, if any.
	Verb, Resource string
	// Refused is true if the server refused the request.
	Refused bool
}

// Write reports whether the call is a write.
func (c Call) Write() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, c.Verb)
}

// Event reports whether the call is about an event.
func (c Call) Event() bool { return c.Resource == "events" }

// Log is an audit log that is read as it grows.
type Log struct {
	Path   string
	offset int64
}

// Size is how much has been written so far, in bytes.
func (l *Log) Size() (int64, error) {
	info, err := os.Stat(l.Path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Read counts the requests that the log has gained since the last time.
func (l *Log) Read() (map[Call]int, error) {
	file, err := os.Open(l.Path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // read only
	if _, err := file.Seek(l.offset, io.SeekStart); err != nil {
		return nil, err
	}
	calls := map[Call]int{}
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // a last line without its end is not complete yet
			return calls, nil
		}
		if err != nil {
			return nil, err
		}
		l.offset += int64(len(line))
		call, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		calls[call]++
	}
}

func parse(line []byte) (Call, error) {
	var event struct {
		Verb           string
		User           struct{ Username string }
		ObjectRef      struct{ Resource, Subresource string }
		ResponseStatus struct{ Code int }
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return Call{}, err
	}
	call := Call{User: event.User.Username, Verb: event.Verb, Resource: event.ObjectRef.Resource, Refused: event.ResponseStatus.Code >= 400}
	if event.ObjectRef.Subresource != "" {
		call.Resource += "/" + event.ObjectRef.Subresource
	}
	return call, nil
}
