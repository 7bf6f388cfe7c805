// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package specification_test

import (
	"testing"

	"drover.io/infra-providers/azure/azurefake/specification"
)

// TestBodiesAreChecked proves that the checks find violations.
func TestBodiesAreChecked(t *testing.T) {
	t.Parallel()
	known, err := specification.Load()
	if err != nil {
		t.Fatal(err)
	}
	request, answer := known.CheckRequest, known.CheckAnswer
	const vm, list = "compute.VirtualMachine", "compute.VirtualMachineListResult"
	for name, test := range map[string]struct {
		check    func(name string, body []byte) []string
		of, body string
		ok       bool
	}{
		"accepts a valid request":                    {request, vm, `{"location":"westeurope","tags":{"a":"b"},"zones":["1"]}`, true},
		"accepts a size that is not in the list":     {request, vm, `{"location":"w","properties":{"hardwareProfile":{"vmSize":"Standard_D2s_v5"}}}`, true},
		"accepts a valid answer":                     {answer, vm, `{"location":"w","id":"x","properties":{"timeCreated":"2026-11-01T12:00:00Z"}}`, true},
		"accepts a list of answers":                  {answer, "[]compute.VirtualMachineImageResource", `[{"location":"w","name":"1.0.0"}]`, true},
		"refuses an unknown type":                    {request, "compute.VM", `{}`, false},
		"refuses what is no JSON":                    {request, vm, `{`, false},
		"refuses an unknown field":                   {request, vm, `{"location":"w","size":"x"}`, false},
		"refuses an unknown field below a list":      {request, vm, `{"location":"w","properties":{"storageProfile":{"dataDisks":[{"lun":0,"createOption":"Empty","size":"1"}]}}}`, false},
		"refuses a request without a required field": {request, vm, `{}`, false},
		"refuses one without a field below a list":   {request, vm, `{"location":"w","properties":{"storageProfile":{"dataDisks":[{"createOption":"Empty"}]}}}`, false},
		"refuses an answer without a required field": {answer, list, `{"value":null}`, false},
		"refuses a field of answers in a request":    {request, vm, `{"location":"w","properties":{"provisioningState":"Succeeded"}}`, false},
		"refuses an unknown value":                   {request, vm, `{"location":"w","properties":{"priority":"Cheap"}}`, false},
		"refuses an unknown value in an answer":      {answer, "network.Interface", `{"properties":{"provisioningState":"Creating?"}}`, false},
		"refuses text for a number":                  {request, vm, `{"location":"w","properties":{"storageProfile":{"osDisk":{"createOption":"FromImage","diskSizeGB":"30"}}}}`, false},
		"refuses a fraction for an integer":          {request, vm, `{"location":"w","properties":{"storageProfile":{"osDisk":{"createOption":"FromImage","diskSizeGB":30.5}}}}`, false},
		"refuses text for a boolean":                 {request, "network.Interface", `{"properties":{"enableIPForwarding":"true"}}`, false},
		"refuses a number as the value of a tag":     {request, vm, `{"location":"w","tags":{"a":1}}`, false},
		"refuses text for a list":                    {request, vm, `{"location":"w","zones":"1"}`, false},
		"refuses text for an object":                 {request, vm, `{"location":"w","properties":"x"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if found := test.check(test.of, []byte(test.body)); (len(found) == 0) != test.ok {
				t.Errorf("got %q", found)
			}
		})
	}
}
