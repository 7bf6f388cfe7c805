// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

// rocky is Rocky Linux 9: RHEL 9 without subscriptions.
func rocky() distribution { return enterprise() }
