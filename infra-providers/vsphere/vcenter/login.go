// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcenter

import (
	"errors"
	"net/http"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/types"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/errorreason"
)

// firstPause and longestPause bound the pause after a login that was refused, which doubles each time. vCenter locks an
// account after 5 such logins in 3 minutes, and directories often after 10 in 30 minutes.
const firstPause, longestPause = time.Minute, 5 * time.Minute

// maxRefusals is how many refused credentials are kept: Secrets may have any number.
const maxRefusals = 1000

// credentials are what a server refuses, in whatever datacenter they are used.
type credentials struct{ server, username, password string }

// refusal is why a server refused credentials, and until when they are not tried again.
type refusal struct {
	err   error
	pause time.Duration
	until time.Time
}

// logIn logs in, unless the server refused the credentials a moment ago: then it returns that error. Other credentials are
// tried at once.
func (s *Session) logIn(login func() error) error {
	key := credentials{s.account.Server, s.account.Username, s.account.Password}
	last, _ := s.refusals.Get(key)
	if s.now().Before(last.until) {
		return last.err
	}
	err := login()
	if !isRefused(err) {
		if err == nil {
			s.refusals.Delete(key)
		}
		return err
	}
	pause := min(max(2*last.pause, firstPause), longestPause)
	short := errors.New(errorreason.Truncate(err.Error())) // a server that a Secret names chooses the length
	s.refusals.Set(key, refusal{&driver.UnauthorizedError{Err: short}, pause, s.now().Add(pause)})
	return err
}

// isRefused reports whether a server refused a password.
func isRefused(err error) bool {
	if err == nil {
		return false
	}
	var refused types.BaseInvalidLogin
	_, ok := fault.As(err, &refused)
	return ok || Answered(err, http.StatusUnauthorized)
}
