// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"os"
	"regexp"
	"testing"

	"drover.io/test/framework"
	"drover.io/test/scenarios/internal/permissions"
)

// unused are the permissions that the shipped roles grant and no scenario uses, by a pattern of their text, with the reason.
// Each pattern must match one.
var unused = map[*regexp.Regexp]string{
	regexp.MustCompile(`: list `):                                                                                      "informers list where an API server has no streaming lists, which Kubernetes has by default since 1.34",
	regexp.MustCompile(`: update .*/finalizers$`):                                                                      "the admission plugin OwnerReferencesPermissionEnforcement demands it, where it is enabled",
	regexp.MustCompile(` \*\.(bootstrap|controlplane|infrastructure)\.cluster\.x-k8s\.io$`):                            "providers of others: make interop",
	regexp.MustCompile(`^drover-machine-controller: .* (bootstrapconfig|simmachine|restartremediation)(template)?s\.`): "the aggregated roles are for Cluster API's core too: make interop",
	regexp.MustCompile(`^drover-machine-controller: .* (doomed|example|foreign|mended|orphan)[a-z]+\.`):                "kinds that a scenario installs, with roles as a provider has them",
	regexp.MustCompile(`^drover-(bootstrap|infra-sim): (create|get|update) leases\.`):                                  "leader election, without which the scenarios run",
	regexp.MustCompile(`: (create|patch) events$`):                                                                     "events of leader election, in the namespace of the managers",
	regexp.MustCompile(`: patch events\.events\.k8s\.io$`):                                                             occasional,
	regexp.MustCompile(`^drover-bootstrap: delete secrets$`):                                                           "bootstrap data that was not used yet and is replaced: bootstrapconfig TestUnpublishedDataFollowsCorrections",
	regexp.MustCompile(`^drover-bootstrap: patch nodeprofiles\.bootstrap\.drover\.io/status$`):                         "checksums that are read from checksum files: bootstrapconfig TestTheVersionOfAMachineIsEnough",
	regexp.MustCompile(`^drover-infra-sim: get namespaces$`):                                                           "simulated machines need no credentials, whose use a label of the Namespace may permit",
}

// occasional is the exception that may match nothing: it depends on how often something is repeated.
const occasional = "an event that repeats for minutes"

// denied are the permissions that are missing on purpose.
var denied = map[string]string{
	"drover-machine-controller: list mendedmachines.infrastructure.example.org": "provider-partly-installed begins without a role",
}

// checkPermissions compares what the shipped roles grant to the managers with what they did in all scenarios.
func checkPermissions(t *testing.T, stack *framework.Stack) {
	t.Helper()
	granted, err := permissions.Granted(t.Context(), stack.ManagementClient, framework.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Open(stack.Management.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() //nolint:errcheck // read only
	use, err := permissions.Read(log, framework.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range use.Denied {
		if denied[p.String()] == "" {
			t.Errorf("the shipped roles deny %s", p)
		}
	}
	matched := map[*regexp.Regexp]bool{}
	for _, p := range use.Unused(granted) {
		known := false
		for pattern := range unused {
			if pattern.MatchString(p.String()) {
				known, matched[pattern] = true, true
			}
		}
		if !known {
			t.Errorf("the shipped roles grant, and no scenario uses, %s", p)
		}
	}
	for pattern, reason := range unused {
		if !matched[pattern] && reason != occasional {
			t.Errorf("no unused permission matches %q: remove the exception", pattern)
		}
	}
}
