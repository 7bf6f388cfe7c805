// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// WantRefusal reports a test error unless err is an Invalid answer of the API server that contains text. With an empty
// text, err must be nil.
func WantRefusal(t testing.TB, err error, text string) {
	t.Helper()
	switch {
	case text == "" && err != nil:
		t.Errorf("refused: %v", err)
	case text != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), text)):
		t.Errorf("got %v, want a refusal with %q", err, text)
	}
}
