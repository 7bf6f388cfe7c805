// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// TestCloudsOfASecretTakeLittleMemory has Secrets of less than 1 MiB, which an API server accepts.
func TestCloudsOfASecretTakeLittleMemory(t *testing.T) {
	const most = 8 << 20
	cloud := "auth: {auth_url: https://x/v3, username: u, password: p}"
	aliases := "clouds:\n  x: &x {}\n  a: {regions: [" + strings.Repeat("~,", 2_000) + "]}\n  y: {regions: &y [" + strings.Repeat("{values: *x},", 400) + "]}\n"
	for n := range 200 {
		aliases += fmt.Sprintf("  a%d: {regions: *y}\n", n)
	}
	for name, content := range map[string]string{
		"clouds of nothing": "clouds: {" + strings.Repeat("a: {},", 150_000) + "}",
		"null regions":      "clouds: {a: {" + cloud + ", regions: [" + strings.Repeat("~,", 400_000) + "]}}",
		"lists":             "x: [" + strings.Repeat("[],", 300_000) + "]",
		"nested lists":      "x: " + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000),
		"aliases":           aliases,
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := read(fromSecret, credentials(map[string]string{CloudsKey: content, CloudKey: "a"}))
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Error("it is accepted")
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > most {
				t.Errorf("%d bytes take %d KiB: %v", len(content), took>>10, err)
			}
		})
	}
}

// TestCloudsThatPeopleWriteAreAccepted: passwords have any characters, and what is usual is far from the bounds.
func TestCloudsThatPeopleWriteAreAccepted(t *testing.T) {
	t.Parallel()
	const password = "*a&b -*c ,*d: [*e"
	content := "clouds:\n"
	for n := range 100 {
		content += fmt.Sprintf("  c%d:\n    auth: {auth_url: https://x/v3, username: u, password: %q, project_name: team}\n    region_name: R%d\n", n, password, n)
	}
	got, err := read(fromSecret, credentials(map[string]string{CloudsKey: content, CloudKey: "c9"}))
	if err != nil || got.auth.Password != password || got.endpoint.Region != "R9" {
		t.Errorf("got region %q, %v", got.endpoint.Region, err)
	}
}
