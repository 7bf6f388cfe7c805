// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package digitalocean_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"

	"drover.io/infra-providers/digitalocean/digitaloceanfake"
	"drover.io/infra-providers/driver"
)

// TestChangesAreLoggedOnce compares the log of a machine's creation and deletion, with as many calls as both take.
func TestChangesAreLoggedOnce(t *testing.T) {
	t.Parallel()
	cloud := newEnv(t, digitaloceanfake.Options{ActionDelay: 2})
	var got []string
	ctx := logr.NewContext(context.Background(), funcr.NewJSON(func(line string) {
		var entry struct{ Msg, Volume, IP string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Error(err)
		}
		// The names of volumes begin with a hash.
		parts := strings.Split(entry.Volume, "-")
		on := parts[len(parts)-1]
		if entry.IP != "" {
			on = "address"
		}
		got = append(got, entry.Msg+" "+on)
	}, funcr.Options{}))
	req := newRequest(t, "m", fullSpec())
	var err error
	for range attempts {
		if _, err = connect(t, cloud).Create(ctx, req); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for range attempts {
		if err := connect(t, cloud).Delete(ctx, req.Identity); err != nil {
			continue
		}
		if _, err = connect(t, cloud).Get(ctx, req.Identity); driver.IsNotFound(err) {
			break
		}
	}
	if !driver.IsNotFound(err) {
		t.Fatalf("got %v, want a NotFoundError", err)
	}
	want := []string{
		"created volume data", "created volume logs", "created reserved IP address",
		"deleted reserved IP address", "detached volume data", "detached volume logs", "deleted volume data", "deleted volume logs",
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}
