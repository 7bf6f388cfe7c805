// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

const (
	maxNameLength = 63
	hashLength    = 10
	// alphabet has no vowels and no digits that look like letters.
	alphabet = "bcdfghjklmnpqrstvwxz2456789"
)

// MachineSetName is the name of a new MachineSet.
type MachineSetName struct {
	// Name of the MachineSet.
	Name string
	// Hash is the value of the machine-template-hash label.
	Hash string
}

// NewMachineSetName returns the name of the MachineSet for the present template of md. It is a function of the
// MachineDeployment, the template and, once it has passed, spec.rollout.after, so that two reconciles that do not see
// each other's writes create the same object and only one succeeds. attempt is 0; it grows by one for each name that is
// occupied by another object, such as an earlier MachineSet that is still being deleted.
func NewMachineSetName(md *clusterv1.MachineDeployment, now time.Time, attempt int) MachineSetName {
	hash := hashOf(md, now)
	if attempt > 0 {
		hash += "-" + strconv.Itoa(attempt)
	}
	base := md.Name[:min(len(md.Name), maxNameLength-1-len(hash))]
	return MachineSetName{Name: strings.TrimRight(base, "-.") + "-" + hash, Hash: hash}
}

// hashOf is the part of a name that all attempts share.
func hashOf(md *clusterv1.MachineDeployment, now time.Time) string {
	key := struct {
		UID    string `json:"uid"`
		Name   string `json:"name"`
		After  string `json:"after"`
		Fields fields `json:"fields"`
	}{UID: string(md.UID), Name: md.Name, Fields: fieldsOf(&md.Spec.Template)}
	if afterPassed(md, now) {
		key.After = md.Spec.Rollout.After.UTC().Format(time.RFC3339)
	}
	raw, err := json.Marshal(key)
	if err != nil {
		// A struct of strings always has a JSON form.
		panic(fmt.Sprintf("encoding template: %v", err))
	}
	sum := sha256.Sum256(raw)
	hash := make([]byte, hashLength)
	for i := range hash {
		hash[i] = alphabet[int(sum[i])%len(alphabet)]
	}
	return string(hash)
}
