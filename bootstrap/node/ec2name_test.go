// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

func TestNameOfAnInstanceOfEC2(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ cloud, reported, want string }{
		"in a region":              {"aws", "ip-10-0-0-1.eu-central-1.compute.internal", "ip-10-0-0-1.eu-central-1.compute.internal"},
		"in the first region":      {"aws", "ip-10-0-0-1.ec2.internal", "ip-10-0-0-1.ec2.internal"},
		"by the instance":          {"aws", "i-0123456789abcdef.eu-central-1.compute.internal", "i-0123456789abcdef.eu-central-1.compute.internal"},
		"in a domain of the VPC":   {"aws", "ip-10-0-0-1.corp.example", ""},
		"without a domain":         {"aws", "ip-10-0-0-1", ""},
		"of another cloud":         {"openstack", "ip-10-0-0-1.ec2.internal", ""},
		"of a host without a name": {"aws", "", ""},
		"that cannot be read":      {"aws", "'; exit 1 #", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for program, content := range map[string]string{
				"cloud-id": "echo " + test.cloud, "cloud-init": "echo '" + test.reported + "'", "hostnamectl": "echo $2 >" + dir + "/hostname",
			} {
				if err := os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\n"+content+"\n"), 0o700); err != nil { //nolint:gosec // a program
					t.Fatal(err)
				}
			}
			file := filepath.Join(dir, "cloud.cfg")
			script := strings.Replace(ec2Name, "/etc/cloud/cloud.cfg.d/99-drover-hostname.cfg", file, 1)
			if out, err := bash(t, "PATH="+dir+":$PATH\n"+script); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			got, _ := os.ReadFile(filepath.Join(dir, "hostname"))
			if strings.TrimSpace(string(got)) != test.want {
				t.Errorf("the host name is %q, want %q", got, test.want)
			}
			if _, err := os.Stat(file); (err == nil) != (test.want != "") {
				t.Errorf("later boots keep the name: %t", err == nil)
			}
		})
	}
}

func TestNameOfEC2YieldsToAnotherOne(t *testing.T) {
	t.Parallel()
	for _, system := range systems {
		for name, test := range map[string]struct {
			change func(*bootstrapv1.BootstrapConfigSpec)
			want   bool
		}{
			"no other name":           {func(*bootstrapv1.BootstrapConfigSpec) {}, system == bootstrapv1.Ubuntu || system == bootstrapv1.Debian},
			"the name of the Machine": {func(s *bootstrapv1.BootstrapConfigSpec) { s.Hostname = bootstrapv1.HostnameFromMachine }, false},
			"an override":             {func(s *bootstrapv1.BootstrapConfigSpec) { s.Kubelet.HostnameOverride = "node-1" }, false},
		} {
			in := minimal(system)
			test.change(in.Spec)
			if got := slices.Contains(describe(t, in).Setup, ec2Name); got != test.want {
				t.Errorf("%s with %s: the name of EC2 is used: %t", system, name, got)
			}
		}
	}
}
