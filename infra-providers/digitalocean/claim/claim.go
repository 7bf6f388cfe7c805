// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package claim keeps two Droplets from being created for one machine. DigitalOcean has no idempotency token, and
// Droplets have no unique names. But no two SSH keys of a team have the same fingerprint, and a Droplet can be created only
// with keys that exist. So the claim of a machine is an SSH key that follows from its identity:
//
//	no key ──► add key ──► no Droplet is listed ──► create the Droplet with this key ──► Droplet is listed ──► delete key
//	  │ the key exists                                    │ no answer
//	  ▼                                                   ▼
//	wait until the Droplet is listed, or the claim is older than Window; then delete the key and add it again
//
// Of two callers only one can add the key. Once the key was deleted, a request that was sent under it and is late names a key
// that does not exist, and is refused. What was accepted before is listed by the end of Window.
//
// The key cannot be used to log in: its 32 bytes are a hash, and no private key for it is known.
// The digitalocean driver calls this package. Errors are the SDK's own.
package claim

import (
	"context"
	"crypto/md5" //nolint:gosec // fingerprints of the cloud are MD5
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/digitalocean/godo"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/digitalocean/tag"
	"drover.io/infra-providers/driver"
)

// Window is how long a claim is respected. It is longer than a request for a Droplet may take, and than the cloud takes to
// list the Droplet.
const Window = 5 * time.Minute

// Prefix begins the name of each key that is a claim.
const Prefix = "drover-claim"

// Requested is the ReservedIP of a claim while the request for one has no answer.
const Requested = "requested"

// keyType is the algorithm of the keys.
const keyType = "ssh-ed25519"

// Claim is the right to create the Droplet of a machine, and the record of what was created.
type Claim struct {
	// KeyID is the ID of the SSH key.
	KeyID int
	// Identity is the machine's.
	Identity driver.Identity
	// Holder is the caller that made the claim, and Written when.
	Holder  string
	Written time.Time
	// DropletID is the Droplet, if it was created and not listed yet; ReservedIP the address of the machine, or Requested.
	DropletID  int
	ReservedIP string
}

// Fresh reports whether the holder may still be creating a Droplet. The clock of another process may be behind or ahead; one
// that is ahead by more than Window does not count, because its claims would never expire.
func (c Claim) Fresh(now time.Time) bool { return now.Sub(c.Written).Abs() < Window }

// Store has the claims of one team.
type Store struct{ keys godo.KeysService }

// NewStore returns the claims of the team of a client.
func NewStore(client *godo.Client) *Store { return &Store{keys: client.Keys} }

// Take adds a claim. Where there is one, it returns that and false.
func (s *Store) Take(ctx context.Context, want Claim) (have Claim, taken bool, err error) {
	key, response, err := s.keys.Create(ctx, &godo.KeyCreateRequest{Name: want.name(), PublicKey: want.publicKey()})
	switch {
	case err == nil:
		logr.FromContextOrDiscard(ctx).V(1).Info("claimed the creation", "sshKey", key.ID)
		want.KeyID = key.ID
		return want, true, nil
	case response == nil || response.Response == nil || response.StatusCode != http.StatusUnprocessableEntity:
		return Claim{}, false, fmt.Errorf("claiming the creation: %w", err)
	}
	existing, failure := s.Read(ctx, want.Identity)
	switch {
	case failure != nil:
		return Claim{}, false, failure
	case existing == nil: // it was deleted meanwhile, or the key is refused for another reason
		return Claim{}, false, errors.New("claiming the creation: the cloud refuses the key " + want.fingerprint())
	default:
		return *existing, false, nil
	}
}

// Read returns the claim of a machine, or nil. It is a direct read.
func (s *Store) Read(ctx context.Context, id driver.Identity) (*Claim, error) {
	key, response, err := s.keys.GetByFingerprint(ctx, Claim{Identity: id}.fingerprint())
	if missing(response) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the claim: %w", err)
	}
	found, ok := parse(*key)
	if !ok {
		return nil, fmt.Errorf("SSH key %d has the fingerprint of a claim and is none: rename it to %q", key.ID, Claim{Identity: id}.name())
	}
	return &found, nil
}

// Write replaces the record of a claim.
func (s *Store) Write(ctx context.Context, claim Claim) error {
	if _, _, err := s.keys.UpdateByID(ctx, claim.KeyID, &godo.KeyUpdateRequest{Name: claim.name()}); err != nil {
		return fmt.Errorf("updating the claim: %w", err)
	}
	return nil
}

// DeleteOf deletes the claim of a machine, if there is one.
func (s *Store) DeleteOf(ctx context.Context, id driver.Identity) error {
	response, err := s.keys.DeleteByFingerprint(ctx, Claim{Identity: id}.fingerprint())
	if err != nil && !missing(response) {
		return fmt.Errorf("deleting the claim: %w", err)
	}
	return nil
}

// Delete deletes a claim, unless another was made meanwhile.
func (s *Store) Delete(ctx context.Context, claim Claim) error {
	response, err := s.keys.DeleteByID(ctx, claim.KeyID)
	if err != nil && !missing(response) {
		return fmt.Errorf("deleting the claim: %w", err)
	}
	return nil
}

// pageSize is the maximum page size of the API.
const pageSize = 200

// List returns all claims.
func (s *Store) List(ctx context.Context) (all []Claim, err error) {
	for page := 1; ; page++ {
		found, response, err := s.keys.List(ctx, &godo.ListOptions{Page: page, PerPage: pageSize})
		if err != nil {
			return nil, fmt.Errorf("listing claims: %w", err)
		}
		for _, key := range found {
			if claim, ok := parse(key); ok {
				all = append(all, claim)
			}
		}
		if response.Links == nil || response.Links.IsLastPage() {
			return all, nil
		}
	}
}

// name has what of a claim may change; the comment of the key has the rest.
func (c Claim) name() string {
	return strings.Join([]string{
		Prefix, c.Holder, strconv.FormatInt(c.Written.Unix(), 10), tag.Encode(string(c.Identity.Owner.UID)), strconv.Itoa(c.DropletID), c.ReservedIP,
	}, " ")
}

// publicKey returns the key, with the identity as its comment. It becomes a line of a file of the host, so what the author of
// a machine may choose is encoded.
func (c Claim) publicKey() string {
	return keyType + " " + base64.StdEncoding.EncodeToString(c.blob()) + " " + c.comment()
}

func (c Claim) comment() string {
	id := c.Identity
	parts := []string{Prefix}
	for _, value := range []string{string(id.UID), id.Owner.Namespace, id.Owner.Name, id.Name} {
		parts = append(parts, tag.Encode(value))
	}
	return strings.Join(parts, "/")
}

// blob is the key as SSH encodes it. The UID of the Cluster does not count, because it changes when a Cluster moves.
func (c Claim) blob() []byte {
	point := sha256.Sum256([]byte(c.comment()))
	var out []byte
	for _, part := range [][]byte{[]byte(keyType), point[:]} {
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(part))), part...) //nolint:gosec // a few bytes
	}
	return out
}

func (c Claim) fingerprint() string {
	sum := md5.Sum(c.blob()) //nolint:gosec // as the cloud does
	text := hex.EncodeToString(sum[:])
	pairs := make([]string, 0, len(sum))
	for i := 0; i < len(text); i += 2 {
		pairs = append(pairs, text[i:i+2])
	}
	return strings.Join(pairs, ":")
}

// parse reads a claim from its key; ok is false for one that is no claim.
func parse(key godo.Key) (claim Claim, ok bool) {
	fields := strings.Split(key.Name, " ")
	if len(fields) == 5 {
		fields = append(fields, "") // the cloud, or a user who renames the key, may leave out the space at the end
	}
	parts := strings.SplitN(key.PublicKey, " ", 3)
	if len(fields) != 6 || fields[0] != Prefix || len(parts) != 3 {
		return claim, false
	}
	names := strings.Split(parts[2], "/")
	written, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil || len(names) != 5 || names[0] != Prefix {
		return claim, false
	}
	claim = Claim{KeyID: key.ID, Holder: fields[1], Written: time.Unix(written, 0), ReservedIP: fields[5]}
	claim.DropletID, err = strconv.Atoi(fields[4])
	claim.Identity = driver.Identity{
		UID: types.UID(tag.Decode(names[1])), Name: tag.Decode(names[4]),
		Owner: driver.Owner{UID: types.UID(tag.Decode(fields[3])), Namespace: tag.Decode(names[2]), Name: tag.Decode(names[3])},
	}
	return claim, err == nil
}

func missing(response *godo.Response) bool {
	return response != nil && response.Response != nil && response.StatusCode == http.StatusNotFound
}
