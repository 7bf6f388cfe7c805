// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"strings"
	"testing"
)

// TestDiff applies nothing: the objects are as before.
func TestDiff(t *testing.T) {
	t.Parallel()
	key := pool(t, "diff")
	before := deploymentOf(t, key)
	manifest := func(spec string, rest string) string {
		return "apiVersion: cluster.x-k8s.io/v1beta2\nkind: MachineDeployment\nmetadata: {name: web}\nspec:\n  clusterName: shop\n  replicas: 6\n  selector: {matchLabels: {pool: web}}\n" + rest +
			"  template:\n    metadata: {labels: {pool: web}}\n    spec: {clusterName: shop, bootstrap: {dataSecretName: data}, " + spec + "}\n"
	}
	infra := func(name string) string {
		return fmt.Sprintf("infrastructureRef: {apiGroup: infrastructure.drover.io, kind: SimMachineTemplate, name: %s}", name)
	}
	for name, test := range map[string]struct {
		manifest string
		code     int
		want     string
	}{
		"nothing":    {manifest(infra("web"), ""), ExitOK, "MachineDeployment web: no Machine would be replaced\n  there is no SimMachineTemplate \"web\" in namespace \"diff\": create it first, or no Machine can be created\n"},
		"a template": {manifest(infra("web-2"), ""), ExitProblem, "MachineDeployment web: 7 Machines would be replaced\n  spec.infrastructureRef is \"SimMachineTemplate.infrastructure.drover.io/web\", would be \"SimMachineTemplate.infrastructure.drover.io/web-2\"\n  there is no SimMachineTemplate \"web-2\" in namespace \"diff\": create it first, or no Machine can be created\n"},
		"a version":  {manifest(infra("web")+", version: v1.36.3", ""), ExitProblem, "MachineDeployment web: 7 Machines would be replaced\n  spec.version is \"\", would be \"v1.36.3\"\n  there is no SimMachineTemplate \"web\" in namespace \"diff\": create it first, or no Machine can be created\n"},
		"by hand":    {manifest(infra("web")+", version: v1.36.3", "  rollout: {strategy: {type: OnDelete}}\n"), ExitProblem, "MachineDeployment web: 7 Machines would be replaced, each after it is deleted (OnDelete)\n  spec.version is \"\", would be \"v1.36.3\"\n  there is no SimMachineTemplate \"web\" in namespace \"diff\": create it first, or no Machine can be created\n"},
		"in place":   {manifest(infra("web")+", minReadySeconds: 30", ""), ExitOK, "MachineDeployment web: no Machine would be replaced\n  there is no SimMachineTemplate \"web\" in namespace \"diff\": create it first, or no Machine can be created\n  changed on every Machine without a replacement: spec.minReadySeconds\n"},
		"a size":     {strings.Replace(manifest(infra("web"), ""), "replicas: 6", "replicas: 9", 1), ExitOK, "MachineDeployment web: no Machine would be replaced, replicas from 6 to 9\n  there is no SimMachineTemplate \"web\" in namespace \"diff\": create it first, or no Machine can be created\n"},
		"a new one":  {strings.Replace(manifest(infra("web"), ""), "name: web}", "name: new}", 1), ExitOK, "MachineDeployment new: it would be created, with 6 Machines\n  there is no SimMachineTemplate \"web\" in namespace \"diff\": create it first, or no Machine can be created\n"},
		"a template in the files": {
			manifest(infra("web-2"), "") + "---\napiVersion: infrastructure.drover.io/v1alpha1\nkind: SimMachineTemplate\nmetadata: {name: web-2}\n", ExitProblem,
			"MachineDeployment web: 7 Machines would be replaced\n  spec.infrastructureRef is \"SimMachineTemplate.infrastructure.drover.io/web\", would be \"SimMachineTemplate.infrastructure.drover.io/web-2\"\n",
		},
		"one of no kind": {"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n", ExitError, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := runAt(t, noon, admin(t, management), test.manifest, "diff", "-f", "-", "--namespace", "diff")
			if got.code != test.code || got.out != test.want {
				t.Errorf("exit code %d, output %q, error %q", got.code, got.out, got.err)
			}
		})
	}
	if after := deploymentOf(t, key); after.ResourceVersion != before.ResourceVersion {
		t.Error("the MachineDeployment was changed")
	}
}
