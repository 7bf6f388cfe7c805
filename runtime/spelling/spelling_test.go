// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package spelling

import "testing"

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"BootstrapConfig", "BootstrapConfigTemplate", "NodeProfile", "ntp", "users", "url"}
	for wrong, want := range map[string]string{
		"NodeProfil": "NodeProfile", "nodeprofile": "NodeProfile", "BootstarpConfig": "BootstrapConfig", "BootstrapConfigTemplates": "BootstrapConfigTemplate",
		"user": "users", "ntps": "ntp", "": "", "x": "", "kubelet": "", "Cluster": "", "URL": "url",
	} {
		got, found := Nearest(wrong, names)
		if got != want || found != (want != "") {
			t.Errorf("%q: got %q, %t, want %q", wrong, got, found, want)
		}
	}
}
