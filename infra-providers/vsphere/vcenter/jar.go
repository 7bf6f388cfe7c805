// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcenter

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxCookies is how many bytes the cookies of a server may have. A session of vCenter has one of some hundred.
const maxCookies = 16 << 10

// jar has the cookies of one server, whatever their paths. Go's own has no bound, and a server that a Secret names may set
// another cookie with each answer.
type jar struct {
	mu      sync.Mutex
	cookies []*http.Cookie
}

// newJar returns a jar with cookies.
func newJar(cookies []*http.Cookie) *jar {
	j := &jar{}
	j.SetCookies(nil, cookies)
	return j
}

// SetCookies implements http.CookieJar. Cookies beyond the bound are dropped.
func (j *jar) SetCookies(_ *url.URL, cookies []*http.Cookie) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, next := range cookies {
		j.cookies = slices.DeleteFunc(j.cookies, func(known *http.Cookie) bool { return known.Name == next.Name })
		expired := next.MaxAge < 0 || !next.Expires.IsZero() && next.Expires.Before(time.Now())
		if !expired && j.size()+len(next.Name)+len(next.Value) <= maxCookies {
			// A copy, because a part of a header would keep all of it in memory.
			j.cookies = append(j.cookies, &http.Cookie{Name: strings.Clone(next.Name), Value: strings.Clone(next.Value), Quoted: next.Quoted})
		}
	}
}

// Cookies implements http.CookieJar.
func (j *jar) Cookies(*url.URL) []*http.Cookie {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.cookies)
}

func (j *jar) size() (bytes int) {
	for _, known := range j.cookies {
		bytes += len(known.Name) + len(known.Value)
	}
	return bytes
}
