// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package anexia

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
)

// The host name of a virtual machine is all that the cloud shows of its owner:
//
//	drover- UID (26) names (16) cluster UID (6)
//
// The UID is recoverable. The names are 80 bits of a hash over the UID, the namespace, the Cluster and the machine, so that
// they can be compared and not be read. That of the Cluster's UID distinguishes management clusters where the machine's UID
// was lost. The cloud puts the number of the customer and a hyphen in front.
const (
	prefix     = "drover-"
	uidLen     = 26
	namesLen   = 16
	clusterLen = 6
)

var (
	encoding    = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
	namePattern = regexp.MustCompile(`(?:^|-)` + prefix + `([a-z2-7]{26})([a-z2-7]{16})([a-z2-7]{6})$`)
	uuidPattern = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
)

// hostName returns the host name of the virtual machine of a machine; false for a UID that is none.
func hostName(id driver.Identity) (string, bool) {
	uid, ok := encodeUID(id.UID)
	if !ok {
		return "", false
	}
	return prefix + uid + hashNames(id.UID, id) + hashText(clusterLen, string(id.Owner.UID)), true
}

func encodeUID(uid types.UID) (string, bool) {
	if !uuidPattern.MatchString(string(uid)) {
		return "", false
	}
	raw, err := hex.DecodeString(strings.ReplaceAll(string(uid), "-", ""))
	return encoding.EncodeToString(raw), err == nil
}

func hashNames(uid types.UID, id driver.Identity) string {
	return hashText(namesLen, string(uid), id.Owner.Namespace, id.Owner.Name, id.Name)
}

// hashText returns the first characters of a hash of texts.
func hashText(length int, texts ...string) string {
	sum := sha256.New()
	for _, text := range texts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(text)))
		sum.Write(size[:])
		sum.Write([]byte(text))
	}
	return encoding.EncodeToString(sum.Sum(nil))[:length]
}

// name is the host name of a virtual machine in its parts.
type name struct {
	uid            types.UID
	names, cluster string
}

// parseName reads the name of a virtual machine; false for one that is not Drover's.
func parseName(text string) (name, bool) {
	parts := namePattern.FindStringSubmatch(strings.ToLower(text))
	if parts == nil {
		return name{}, false
	}
	raw, err := encoding.DecodeString(parts[1])
	if err != nil || len(raw) != 16 {
		return name{}, false
	}
	uid := hex.EncodeToString(raw)
	uid = strings.Join([]string{uid[:8], uid[8:12], uid[12:16], uid[16:20], uid[20:]}, "-")
	return name{types.UID(uid), parts[2], parts[3]}, true
}

// of reports whether a name was made from the names of an identity.
func (n name) of(id driver.Identity) bool {
	return id.Name != "" && id.Owner.Namespace != "" && id.Owner.Name != "" && n.names == hashNames(n.uid, id)
}

// identity returns what a name says, in the words of the identity that it may have been made from: of another one, only the
// UID is known.
func (n name) identity(candidate driver.Identity) driver.Identity {
	found := driver.Identity{UID: n.uid, Name: driver.UnknownOwner.Name, Owner: driver.UnknownOwner}
	if !n.of(candidate) {
		return found
	}
	found.Name, found.Owner = candidate.Name, driver.Owner{Namespace: candidate.Owner.Namespace, Name: candidate.Owner.Name}
	if uid := candidate.Owner.UID; uid != "" && n.cluster == hashText(clusterLen, string(uid)) {
		found.Owner.UID = uid
	}
	return found
}
