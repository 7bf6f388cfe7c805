// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"net/http"
	"time"
)

// NewTransport returns a transport with Go's defaults, such as the proxies of the environment, that waits as long as timeout
// for the header of an answer, and keeps an unused connection for a minute.
func NewTransport(timeout time.Duration) *http.Transport {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = timeout
	transport.IdleConnTimeout = time.Minute
	return transport
}
