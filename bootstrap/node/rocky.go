// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

// rocky is Rocky Linux 9 and 10: RHEL without subscriptions.
func rocky() distribution {
	os := enterprise()
	os.modules = extraModules
	return os
}
