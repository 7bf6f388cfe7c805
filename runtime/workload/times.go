// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"io"
	"net/http"
)

// decodableTimes replaces times that no decoder accepts. An API server accepts a time of the year 0 or 9999 with an offset,
// and answers with it in UTC, where its year can be -1 or 10000. Root on one worker can write one into the status of its
// Node, and the list of all Nodes could not be decoded.
type decodableTimes struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (d decodableTimes) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := d.next.RoundTrip(request)
	if err == nil && response.Body != nil && response.StatusCode == http.StatusOK {
		response.Body = &timesBody{ReadCloser: response.Body}
	}
	return response, err
}

// WrappedRoundTripper returns the transport below, for client-go.
func (d decodableTimes) WrappedRoundTripper() http.RoundTripper { return d.next }

// placeholder stands for a time that cannot be decoded. It is as old as a time can be.
const placeholder = `"0001-01-01T00:00:00Z"`

// timesBody replaces times in JSON as they are read. Their length stays: spaces follow the string.
type timesBody struct {
	io.ReadCloser
	// ready can be read, held may be the beginning of such a time.
	ready, held []byte
	err         error
}

// Read implements io.Reader.
func (b *timesBody) Read(p []byte) (int, error) {
	for len(b.ready) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		chunk := make([]byte, max(len(p), 512))
		n, err := b.ReadCloser.Read(chunk)
		b.err = err
		b.replace(append(b.held, chunk[:n]...))
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// replace makes data ready, but for an end that may be the beginning of a time.
func (b *timesBody) replace(data []byte) {
	b.ready, b.held = data, nil
	for at := 0; ; at++ {
		quote := bytes.IndexByte(data[at:], '"')
		if quote < 0 {
			return
		}
		at += quote
		length, complete := undecodable(data[at:])
		switch {
		case !complete && length > 0 && b.err == nil:
			b.ready, b.held = data[:at], data[at:]
			return
		case complete:
			copy(data[at:], placeholder)
			for i := at + len(placeholder); i < at+length; i++ {
				data[i] = ' '
			}
			at += length - 1
		}
	}
}

// afterYear is what follows the year of a time; 0 is any digit.
const afterYear = `-00-00T00:00:00Z"`

// undecodable returns the length of the string at the beginning of data, with its quotes, if it is a time with a negative
// year or one of more than four digits. It is not complete where data ends before it is known; the length is 0 where it
// is another string.
func undecodable(data []byte) (length int, complete bool) {
	i := 1
	negative := i < len(data) && data[i] == '-'
	if negative {
		i++
	}
	digits := 0
	for ; i < len(data) && digits < 9 && isDigit(data[i]); i++ {
		digits++
	}
	if i == len(data) {
		return i, false
	}
	if digits < 4 || digits == 4 && !negative {
		return 0, false
	}
	for j := range len(afterYear) {
		if i == len(data) {
			return i, false
		}
		if afterYear[j] == '0' && !isDigit(data[i]) || afterYear[j] != '0' && afterYear[j] != data[i] {
			return 0, false
		}
		i++
	}
	return i, true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
