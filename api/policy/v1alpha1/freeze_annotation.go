// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// FrozenLabel is on a MachineDeployment, or a stand-alone MachineSet, while it is frozen
// for an overshoot. It is Drover's own record of the freeze; to freeze or unfreeze by hand, use
// FreezeAnnotation.
const FrozenLabel = "drover.io/frozen"

// FreezeAnnotation on a MachineDeployment, or a stand-alone MachineSet, is the operator's setting of
// freezing: "true" freezes it for as long as the annotation is there, "false" keeps it from being frozen. Any
// other value freezes too.
const FreezeAnnotation = "drover.io/freeze"

// FreezeSetting is the meaning of FreezeAnnotation.
type FreezeSetting string

const (
	// FreezeUnset means that there is no annotation: Drover decides by itself.
	FreezeUnset FreezeSetting = ""
	// FreezeOn means that the annotation is "true".
	FreezeOn FreezeSetting = "On"
	// FreezeOff means that the annotation is "false".
	FreezeOff FreezeSetting = "Off"
	// FreezeInvalid means that the annotation has another value, such as "True", "yes" or "". It freezes:
	// the annotation was set to stop something, and waiting does no harm.
	FreezeInvalid FreezeSetting = "Invalid"
)

// FreezeSettingOf reads FreezeAnnotation among the annotations of a MachineDeployment or MachineSet.
func FreezeSettingOf(annotations map[string]string) FreezeSetting {
	value, present := annotations[FreezeAnnotation]
	switch {
	case !present:
		return FreezeUnset
	case value == "true":
		return FreezeOn
	case value == "false":
		return FreezeOff
	}
	return FreezeInvalid
}

// Freezes reports whether the setting alone freezes.
func (s FreezeSetting) Freezes() bool { return s == FreezeOn || s == FreezeInvalid }
