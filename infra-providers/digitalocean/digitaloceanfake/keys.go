// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package digitaloceanfake

import (
	"cmp"
	"crypto/md5" //nolint:gosec // fingerprints of the cloud are MD5
	"encoding/base64"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// fingerprint returns that of a public key; ok is false for what is none.
func fingerprint(publicKey string) (_ string, ok bool) {
	parts := strings.SplitN(publicKey, " ", 3)
	if len(parts) < 2 || parts[0] != "ssh-ed25519" && parts[0] != "ssh-rsa" {
		return "", false
	}
	blob, err := base64.StdEncoding.DecodeString(parts[1])
	if err != nil || len(blob) < 4+len(parts[0]) || string(blob[4:4+len(parts[0])]) != parts[0] {
		return "", false
	}
	sum := md5.Sum(blob) //nolint:gosec // as the cloud does
	text := hex.EncodeToString(sum[:])
	var pairs []string
	for i := 0; i < len(text); i += 2 {
		pairs = append(pairs, text[i:i+2])
	}
	return strings.Join(pairs, ":"), true
}

// keyOf finds a key by its ID or fingerprint.
func (c *Cloud) keyOf(ref string) *key {
	for _, known := range c.keys {
		if strconv.Itoa(known.ID) == ref || known.Fingerprint == ref {
			return known
		}
	}
	return nil
}

func renderKey(of *key) object {
	return object{"id": of.ID, "name": of.Name, "public_key": of.PublicKey, "fingerprint": of.Fingerprint}
}

func listKeys(c *Cloud, r request) (any, *refusal) {
	all := slices.SortedFunc(maps.Values(c.keys), func(a, b *key) int { return cmp.Compare(a.ID, b.ID) })
	return page(r, "ssh_keys", all, renderKey), nil
}

func createKey(c *Cloud, r request) (any, *refusal) {
	body := decode[struct {
		Name      string
		PublicKey string `json:"public_key"`
	}](r)
	found, ok := fingerprint(body.PublicKey)
	switch {
	case !ok:
		return nil, unprocessable("Key invalid, key should be of the format `type key [comment]`")
	case c.keyOf(found) != nil:
		return nil, unprocessable("SSH Key is already in use on your account")
	}
	created := &key{ID: newID(), Name: strings.TrimSpace(body.Name), PublicKey: body.PublicKey, Fingerprint: found}
	c.keys[created.ID] = created
	return object{"ssh_key": renderKey(created)}, nil
}

func getKey(c *Cloud, r request) (any, *refusal) {
	found := c.keyOf(r.id)
	if found == nil {
		return nil, notFound()
	}
	return object{"ssh_key": renderKey(found)}, nil
}

func updateKey(c *Cloud, r request) (any, *refusal) {
	found := c.keyOf(r.id)
	if found == nil {
		return nil, notFound()
	}
	found.Name = strings.TrimSpace(decode[struct{ Name string }](r).Name)
	return object{"ssh_key": renderKey(found)}, nil
}

func deleteKey(c *Cloud, r request) (any, *refusal) {
	found := c.keyOf(r.id)
	if found == nil {
		return nil, notFound()
	}
	delete(c.keys, found.ID)
	return nil, nil
}
