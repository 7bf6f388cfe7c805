// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package setup sets up a cloned virtual machine, and removes it, with one task of vCenter at a time. What is still to be
// done is written into the virtual machine itself, so that another process continues where one was killed:
//
//	clone ─► reconfigure ─► upgrade hardware ─► join DRS ─► tag ─► power on ─► clear the plan
//	              leave DRS ─► power off ─► detach what others attached ─► destroy
//
// It never waits: Observe reads the state of the last task, and Next starts the next one, if none is under way. The driver
// decides when.
package setup

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/vsphere/vcenter"
)

// Record is the identity of a virtual machine. It changes only when its Cluster moved to another management cluster.
type Record struct {
	// Tags are the ownership tags.
	Tags    map[string]string `json:"tags"`
	Created time.Time         `json:"created"`
	Zone    string            `json:"zone,omitempty"`
	// Rule and Group are the DRS rule and VM group to leave at the end.
	Rule  string `json:"rule,omitempty"`
	Group string `json:"group,omitempty"`
}

// RuleName is the name of the DRS rule that keeps a group of a Cluster's machines apart. Names of Clusters are ambiguous
// without their namespace, and those of another management cluster may be the same.
func RuleName(owner driver.Owner, group string) string {
	return fmt.Sprintf("%s%s-%.8s", rulePrefix(owner), group, owner.UID)
}

func rulePrefix(owner driver.Owner) string {
	return fmt.Sprintf("drover-%s-%s-", owner.Namespace, owner.Name)
}

// ownRule returns the rule that the record names, if it is called after the Cluster that the record names: whoever may
// change the settings of a virtual machine can write a record that names any rule. Otherwise it returns "".
func (r Record) ownRule() string {
	if id, ok := driver.FromTags(r.Tags); ok && id.Tagged() && strings.HasPrefix(r.Rule, rulePrefix(id.Owner)) {
		return r.Rule
	}
	return ""
}

// Plan is what a virtual machine must be before it is powered on.
type Plan struct {
	UUID           string `json:"uuid"`
	Name           string `json:"name"`
	ProviderID     string `json:"providerID"`
	CPUs           int32  `json:"cpus"`
	CoresPerSocket int32  `json:"coresPerSocket,omitempty"`
	MemoryMiB      int64  `json:"memoryMiB"`
	Hardware       int32  `json:"hardware,omitempty"`
	// CloudInit requests metadata, with the network cards of Networks.
	CloudInit bool                     `json:"cloudInit,omitempty"`
	Networks  []infrav1.VSphereNetwork `json:"networks,omitempty"`
	// Tags are IDs, Attributes are values by key.
	Tags       []string         `json:"tags,omitempty"`
	Attributes map[int32]string `json:"attributes,omitempty"`
}

// Values returns the advanced parameters that hold a record and a plan.
func Values(record Record, plan Plan) (map[string]string, error) {
	who, err := json.Marshal(record)
	if err != nil {
		return nil, err
	}
	what, err := json.Marshal(plan)
	return map[string]string{vcenter.RecordKey: string(who), vcenter.PlanKey: string(what)}, err
}

// Parse reads a record and a plan back. The plan is nil when nothing is left to do.
func Parse(vm vcenter.VM) (Record, *Plan, error) {
	var record Record
	if vm.Record == "" {
		return record, nil, nil
	}
	if err := json.Unmarshal([]byte(vm.Record), &record); err != nil {
		return record, nil, fmt.Errorf("reading %s of virtual machine %q: %w", vcenter.RecordKey, vm.Name, err)
	}
	if vm.Plan == "" {
		return record, nil, nil
	}
	plan := &Plan{}
	if err := json.Unmarshal([]byte(vm.Plan), plan); err != nil {
		return record, nil, fmt.Errorf("reading %s of virtual machine %q: %w", vcenter.PlanKey, vm.Name, err)
	}
	return record, plan, nil
}
