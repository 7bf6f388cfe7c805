// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"slices"
	"testing"

	"drover.io/infra-providers/driver"
)

// findImage compares what is found with and without an instance, by this process and by another.
func findImage[C any](t *testing.T, env Environment[C]) {
	finder := imageFinder(t, env.Driver)
	want, err := finder.FindImage(t.Context(), env.Config)
	if err != nil {
		t.Fatalf("finding the image: %v", err)
	}
	if want.ID == "" {
		t.Error("the image has no ID")
	}
	if words := []string{"", "amd64", "arm64", "ppc64le", "s390x"}; !slices.Contains(words, want.Architecture) {
		t.Errorf("architecture %q is none of Kubernetes' words %q", want.Architecture, words[1:])
	}
	wantNothing(t, env)
	created := create(t, env, identity(1))
	if env.ImageOf != nil {
		if got := env.ImageOf(created); got != want.ID {
			t.Errorf("the instance was created from image %q, found was %q", got, want.ID)
		}
	}
	if env.Reconnect != nil {
		finder = imageFinder(t, env.Reconnect())
	}
	for range 2 {
		if got, err := finder.FindImage(t.Context(), env.Config); err != nil || got != want {
			t.Errorf("finding the image again: got %+v and %v, want %+v", got, err, want)
		}
	}
}

// missImage fails each call in another way. No failure may be cached.
func missImage[C any](t *testing.T, env Environment[C]) {
	finder := imageFinder(t, env.Driver)
	if _, err := env.Driver.Get(t.Context(), identity(1)); !driver.IsNotFound(err) { // where one logs in first
		t.Fatalf("reading what was never created: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := finder.FindImage(ended, env.Config); err == nil || known(err) {
		t.Errorf("when the context has ended: got %v, want its error", err)
	}
	for refusal, is := range refusalKinds {
		refuse, ok := env.Refuse[refusal]
		if !ok {
			continue
		}
		refuse()
		// An SDK may send another request after the first refusal, and find it.
		if _, err := finder.FindImage(t.Context(), env.Config); err != nil && !is(err) {
			t.Errorf("while %s: got %v", refusal, err)
		}
	}
	for what, config := range env.NoImage {
		if found, err := finder.FindImage(t.Context(), config); !driver.IsInvalidConfiguration(err) {
			t.Errorf("%s: got %+v and %v, want an InvalidConfigurationError", what, found, err)
		}
	}
	if _, err := finder.FindImage(t.Context(), env.Config); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	wantNothing(t, env)
}

func imageFinder[C any](t *testing.T, from driver.Driver[C]) driver.ImageFinder[C] {
	t.Helper()
	finder, ok := from.(driver.ImageFinder[C])
	if !ok {
		t.Skip("this cloud does not list images")
	}
	return finder
}
