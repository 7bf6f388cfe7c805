// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"slices"
	"strings"
	"testing"

	"drover.io/api/crds"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
)

// TestMachinesOfAllCloudsHaveTheSameColumns: `kubectl get` answers the same questions about the machines of each cloud.
func TestMachinesOfAllCloudsHaveTheSameColumns(t *testing.T) {
	t.Parallel()
	definitions, err := crds.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	clouds := 0
	for _, crd := range definitions {
		if crd.Spec.Group != infrav1.GroupVersion.Group || !strings.HasSuffix(crd.Spec.Names.Kind, "Machine") {
			continue
		}
		clouds++
		var columns []string
		for _, column := range crd.Spec.Versions[0].AdditionalPrinterColumns {
			columns = append(columns, column.Name)
		}
		for _, name := range []string{"Cluster", "Machine", "ProviderID", "State", "Ready", "Age", "Reason"} {
			if !slices.Contains(columns, name) {
				t.Errorf("%s has no column %s: %q", crd.Spec.Names.Kind, name, columns)
			}
		}
	}
	if clouds < 16 {
		t.Errorf("found %d kinds of machines only", clouds)
	}
}
