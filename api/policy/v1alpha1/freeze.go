// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// FreezeOrder is the meaning of FreezeAnnotation.
type FreezeOrder string

const (
	// FreezeUnset means that there is no annotation: Drover decides by itself.
	FreezeUnset FreezeOrder = ""
	// FreezeOn means that the annotation is "true".
	FreezeOn FreezeOrder = "On"
	// FreezeOff means that the annotation is "false".
	FreezeOff FreezeOrder = "Off"
	// FreezeUnclear means that the annotation has another value, such as "True", "yes" or "". It freezes:
	// its author wanted to stop something, and waiting does no harm.
	FreezeUnclear FreezeOrder = "Unclear"
)

// FreezeOrderOf reads FreezeAnnotation among the annotations of a MachineDeployment or MachineSet.
func FreezeOrderOf(annotations map[string]string) FreezeOrder {
	value, present := annotations[FreezeAnnotation]
	switch {
	case !present:
		return FreezeUnset
	case value == "true":
		return FreezeOn
	case value == "false":
		return FreezeOff
	}
	return FreezeUnclear
}

// Freezes reports whether the order alone freezes.
func (o FreezeOrder) Freezes() bool { return o == FreezeOn || o == FreezeUnclear }
