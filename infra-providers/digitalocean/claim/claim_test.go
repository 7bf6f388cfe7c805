// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"encoding/base64"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
)

func example() Claim {
	return Claim{
		KeyID: 7, Holder: "h", Written: time.Unix(1_800_000_000, 0), DropletID: 42, ReservedIP: "203.0.113.7",
		Identity: driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{UID: "c", Namespace: "n", Name: "home"}},
	}
}

func TestClaimIsReadBack(t *testing.T) {
	t.Parallel()
	want := example()
	got, ok := parse(godo.Key{ID: 7, Name: want.name(), PublicKey: want.publicKey()})
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("claim (-want +got):\n%s", diff)
	}
}

// TestClaimWithoutTheSpaceAtTheEndIsReadBack: a claim without a reserved IP has one at the end of its name.
func TestClaimWithoutTheSpaceAtTheEndIsReadBack(t *testing.T) {
	t.Parallel()
	want := example()
	want.ReservedIP = ""
	got, ok := parse(godo.Key{ID: 7, Name: strings.TrimSpace(want.name()), PublicKey: want.publicKey()})
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("claim (-want +got):\n%s", diff)
	}
}

// TestNamesCannotAddAKey: the key becomes a line of authorized_keys of root.
func TestNamesCannotAddAKey(t *testing.T) {
	t.Parallel()
	for _, hostile := range []string{"u\nssh-ed25519 AAAA mallory", "u ssh-ed25519", "../..", "a/b/c", "$(id)", "\x00"} {
		want := example()
		want.Identity.UID, want.Identity.Owner.UID, want.Identity.Name = types.UID(hostile), types.UID(hostile), hostile
		if line := want.publicKey(); strings.ContainsAny(line, "\n\x00$") || strings.Count(line, " ") != 2 || strings.Count(want.name(), " ") != 5 {
			t.Errorf("key %q of the name %q", line, want.name())
		}
		if got, ok := parse(godo.Key{ID: 7, Name: want.name(), PublicKey: want.publicKey()}); !ok || got != want {
			t.Errorf("got %+v", got)
		}
	}
}

func TestOtherKeysAreNoClaims(t *testing.T) {
	t.Parallel()
	own := example()
	for name, key := range map[string]godo.Key{
		"a user's key":                          {Name: "alice", PublicKey: "ssh-ed25519 AAAA alice"},
		"a key without comment":                 {Name: own.name(), PublicKey: "ssh-ed25519 AAAA"},
		"a claim that was renamed":              {Name: "mine", PublicKey: own.publicKey()},
		"a user's key with the name of a claim": {Name: own.name(), PublicKey: "ssh-ed25519 AAAA alice"},
		"a name without a time":                 {Name: Prefix + " h now c 0 ", PublicKey: own.publicKey()},
	} {
		if got, ok := parse(key); ok {
			t.Errorf("%s is taken for %+v", name, got)
		}
	}
}

// TestKeyFollowsFromTheMachine: all processes add the same key for a machine, also after its Cluster moved, and another one
// for each other machine.
func TestKeyFollowsFromTheMachine(t *testing.T) {
	t.Parallel()
	first := example()
	moved := example()
	moved.Identity.Owner.UID, moved.Holder, moved.DropletID = "moved", "other", 0
	if first.fingerprint() != moved.fingerprint() || first.publicKey() != moved.publicKey() {
		t.Error("the key depends on what may change")
	}
	if !regexp.MustCompile(`^[0-9a-f]{2}(:[0-9a-f]{2}){15}$`).MatchString(first.fingerprint()) {
		t.Errorf("fingerprint %q", first.fingerprint())
	}
	for name, change := range map[string]func(*driver.Identity){
		"UID": func(id *driver.Identity) { id.UID = "x" }, "name": func(id *driver.Identity) { id.Name = "x" },
		"namespace": func(id *driver.Identity) { id.Owner.Namespace = "x" }, "Cluster": func(id *driver.Identity) { id.Owner.Name = "x" },
	} {
		other := example()
		change(&other.Identity)
		if other.fingerprint() == first.fingerprint() {
			t.Errorf("a machine with another %s has the same key", name)
		}
	}
}

func TestClaimExpires(t *testing.T) {
	t.Parallel()
	claim := example()
	for age, want := range map[time.Duration]bool{
		0: true, Window - time.Second: true, Window: false, 24 * time.Hour: false,
		-time.Minute: true, -24 * time.Hour: false, // a clock that is ahead
	} {
		if got := claim.Fresh(claim.Written.Add(age)); got != want {
			t.Errorf("after %s: got %t", age, got)
		}
	}
}

// TestKeyHasTheFormOfOne: type, length and 32 bytes, as SSH encodes it.
func TestKeyHasTheFormOfOne(t *testing.T) {
	t.Parallel()
	fields := strings.Split(example().publicKey(), " ")
	blob, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil || len(fields) != 3 || fields[0] != keyType {
		t.Fatalf("key %q: %v", fields, err)
	}
	if len(blob) != 4+len(keyType)+4+32 || string(blob[4:4+len(keyType)]) != keyType || blob[4+len(keyType)+3] != 32 {
		t.Errorf("the key has %d bytes", len(blob))
	}
}
