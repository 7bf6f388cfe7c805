// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package discovery_test

import (
	"net/url"
	"testing"

	"drover.io/infra-providers/google/googlefake/discovery"
)

const (
	instances = "/compute/v1/projects/my-project/zones/europe-west3-a/instances"
	minimal   = `{"name":"a","machineType":"zones/z/machineTypes/m","disks":[{"boot":true}],"networkInterfaces":[{}]}`
)

// TestCheckRequest proves that the checks find violations.
func TestCheckRequest(t *testing.T) {
	t.Parallel()
	document, err := discovery.Load()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		method, path, query, body string
		ok                        bool
	}{
		"accepts a valid request":                {"POST", instances, "requestId=r&alt=json&prettyPrint=false", minimal, true},
		"accepts numbers of 64 bits as text":     {"POST", instances, "", `{"name":"a","disks":[{"diskSizeGb":"10"}]}`, true},
		"refuses an unknown path":                {"GET", "/compute/v1/projects/my-project/instances", "", "", false},
		"refuses an unknown method":              {"PATCH", instances + "/a", "", "", false},
		"refuses a name in upper case":           {"GET", instances + "/A", "", "", false},
		"refuses a malformed project":            {"GET", "/compute/v1/projects/My_Project/zones/europe-west3-a/instances/a", "", "", false},
		"refuses an unknown parameter":           {"GET", instances + "/a", "verbose=1", "", false},
		"refuses a parameter twice":              {"GET", instances + "/a", "fields=a&fields=b", "", false},
		"requires a parameter":                   {"POST", instances + "/a/setDiskAutoDelete", "autoDelete=true", "", false},
		"refuses text for a boolean parameter":   {"POST", instances + "/a/setDiskAutoDelete", "autoDelete=yes&deviceName=d", "", false},
		"refuses text for a number":              {"GET", instances + "/a/serialPort", "port=one", "", false},
		"refuses a number out of range":          {"GET", instances + "/a/serialPort", "port=9", "", false},
		"refuses a body of a method without one": {"DELETE", instances + "/a", "", "{}", false},
		"refuses a missing body":                 {"POST", instances, "", "", false},
		"requires a field":                       {"POST", instances, "", `{"machineType":"zones/z/machineTypes/m"}`, false},
		"refuses an unknown field":               {"POST", instances, "", `{"name":"a","size":"b"}`, false},
		"refuses an unknown field in a list":     {"POST", instances, "", `{"name":"a","disks":[{"size":"10"}]}`, false},
		"refuses a field of answers":             {"POST", instances, "", `{"name":"a","status":"RUNNING"}`, false},
		"refuses an unknown value":               {"POST", instances, "", `{"name":"a","scheduling":{"provisioningModel":"CHEAP"}}`, false},
		"refuses a number for text":              {"POST", instances, "", `{"name":1}`, false},
		"refuses text for a list":                {"POST", instances, "", `{"name":"a","disks":"b"}`, false},
		"refuses a number that is too large":     {"POST", instances, "", `{"name":"a","guestAccelerators":[{"acceleratorCount":3000000000}]}`, false},
		"refuses a name that does not match":     {"POST", instances, "", `{"name":"a.b"}`, false},
		"refuses a number as a label's value":    {"POST", instances, "", `{"name":"a","labels":{"a":1}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			query, err := url.ParseQuery(test.query)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := document.CheckRequest(test.method, test.path, query, []byte(test.body)); (err == nil) != test.ok {
				t.Errorf("got %v, want ok %t", err, test.ok)
			}
		})
	}
}

func TestCheckAnswer(t *testing.T) {
	t.Parallel()
	document, err := discovery.Load()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		answer string
		ok     bool
	}{
		"accepts a valid answer":     {`{"name":"a","id":"1","status":"RUNNING","kind":"compute#instance"}`, true},
		"refuses an unknown field":   {`{"name":"a","state":"RUNNING"}`, false},
		"refuses an unknown status":  {`{"name":"a","status":"BOOTING"}`, false},
		"refuses an ID that is none": {`{"name":"a","id":"one"}`, false},
		"refuses a number as an ID":  {`{"name":"a","id":1}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := document.CheckAnswer("instances.get", []byte(test.answer)); (err == nil) != test.ok {
				t.Errorf("got %v, want ok %t", err, test.ok)
			}
		})
	}
}
