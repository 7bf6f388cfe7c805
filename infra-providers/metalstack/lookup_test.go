// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstack

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/metal-stack/metal-go/api/models"
	"k8s.io/utils/ptr"
)

// TestLittleIsKept of answers of a server that a Secret names.
func TestLittleIsKept(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	image := &models.V1ImageResponse{ID: &long, Description: long, Features: []string{long, machineFeature}}
	size := &models.V1SizeResponse{ID: &long, Description: long}
	network := &models.V1NetworkResponse{ID: &long, Partitionid: long, Projectid: long, Parentnetworkid: long, Prefixes: []string{long}}
	for n := range 10_000 {
		size.Constraints = append(size.Constraints, nil, &models.V1SizeConstraint{Type: ptr.To(models.V1SizeConstraintTypeCores), Min: int64(n), Identifier: long}, &models.V1SizeConstraint{Type: &long})
		network.Prefixes = append(network.Prefixes, fmt.Sprintf("10.%d.%d.0/24", n/256, n%256), fmt.Sprintf("2001:db8:%x::/64", n))
	}
	if got := keptImage(image); len(got.Features) != 1 {
		t.Errorf("the image has %q", got.Features)
	}
	if got := keptSize(size); len(got.Constraints) != 1 || got.Constraints[0].Min != 9_999 {
		t.Errorf("the size has %d constraints", len(got.Constraints))
	}
	if got := families(keptNetwork(network)); len(got) != 2 {
		t.Errorf("the network has the families %q", got)
	}
	for name, found := range map[string]any{"image": keptImage(image), "size": keptSize(size), "network": keptNetwork(network)} {
		if text, err := json.Marshal(found); err != nil || len(text) > 2048 {
			t.Errorf("%d bytes of the %s are kept, error %v", len(text), name, err)
		}
	}
}

// TestFewAddressesAreRemembered of a machine that is freed again and again, each time with others.
func TestFewAddressesAreRemembered(t *testing.T) {
	t.Parallel()
	var all []string
	for n := range 1000 {
		all = withAddresses(all, []*models.V1MachineNetwork{nil, {Ips: []string{
			"10.0.0.1", fmt.Sprintf("10.1.%d.%d", n/256, n%256), strings.Repeat("x", 1<<10), "fe80::1%" + strings.Repeat("x", 1<<10),
		}}})
	}
	if len(all) != maxFreed || all[0] != "10.0.0.1" || all[1] != "10.1.0.0" || len(strings.Join(all, "")) > maxFreed*20 {
		t.Errorf("%d addresses are remembered: %.200q", len(all), all)
	}
}
