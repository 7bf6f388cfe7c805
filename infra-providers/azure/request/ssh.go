// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"k8s.io/utils/ptr"
)

// sshKeys returns the public keys of a user. Azure requires a password or a key, so without keys it gets one whose private half
// is forgotten.
func sshKeys(given []string, user string) (keys []*armcompute.SSHPublicKey, err error) {
	if len(given) == 0 {
		key, err := forgottenKey()
		if err != nil {
			return nil, err
		}
		given = []string{key}
	}
	for _, key := range given {
		keys = append(keys, &armcompute.SSHPublicKey{KeyData: &key, Path: ptr.To("/home/" + user + "/.ssh/authorized_keys")})
	}
	return keys, nil
}

// forgottenKey returns the public half of a new key in OpenSSH's format.
func forgottenKey() (string, error) {
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", fmt.Errorf("generating an SSH key: %w", err)
	}
	const kind = "ssh-ed25519"
	var wire []byte
	for _, part := range [][]byte{[]byte(kind), public} {
		wire = binary.BigEndian.AppendUint32(wire, uint32(len(part))) //nolint:gosec // 32 bytes at most
		wire = append(wire, part...)
	}
	return kind + " " + base64.StdEncoding.EncodeToString(wire), nil
}
