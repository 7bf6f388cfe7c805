// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"errors"
	"path"
	"strings"
	"testing"

	"drover.io/infra-providers/driver"
)

// normalizeProviderIDs: each form of a provider ID by which Get finds an instance is normalized to the same, and those of two
// instances never are. Get is called for another machine, so that it says what it found.
func normalizeProviderIDs[C any](t *testing.T, env Environment[C]) {
	normalize := env.NormalizeProviderID
	if normalize == nil {
		normalize = func(providerID string) string { return providerID }
	}
	first, other := create(t, env, identity(1)), identity(2)
	if second := create(t, env, other); normalize(first.ProviderID) == normalize(second.ProviderID) {
		t.Errorf("both %q and %q are normalized to %q", first.ProviderID, second.ProviderID, normalize(first.ProviderID))
	}
	finds := func(providerID string) bool {
		other.ProviderID = providerID
		_, err := env.Driver.Get(t.Context(), other)
		var found *driver.NotOwnedError
		return errors.As(err, &found) && found.Found.UID == first.Identity.UID
	}
	if !finds(first.ProviderID) {
		t.Fatalf("another machine that has the provider ID %q is not refused", first.ProviderID)
	}
	for _, form := range formsOf(first.ProviderID) {
		if finds(form) && normalize(form) != normalize(first.ProviderID) {
			t.Errorf("Get finds %q by %q, which is normalized to %q, want %q", first.ProviderID, form, normalize(form), normalize(first.ProviderID))
		}
	}
}

// formsOf are other forms of a provider ID, some of which a driver may accept: with another place or none, in another case, without
// the scheme, and with digits that stand for the same number.
func formsOf(providerID string) []string {
	scheme, rest, _ := strings.Cut(providerID, "://")
	parent, last := path.Split(rest)
	return []string{
		strings.ToUpper(providerID), strings.ToLower(providerID), scheme + "://" + strings.ToUpper(rest), scheme + "://" + parent + strings.ToUpper(last),
		rest, "/" + rest, last, scheme + ":///" + rest, scheme + "://" + strings.TrimPrefix(rest, "/"),
		scheme + "://" + last, scheme + ":///" + last, scheme + "://elsewhere/" + last, scheme + ":///elsewhere/" + last, "elsewhere://" + rest,
		scheme + "://" + parent + "0" + last, scheme + "://" + parent + "+" + last, " " + providerID, providerID + " ", providerID + "/",
	}
}
