// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package providers takes a MachineDeployment of each simulated cloud through the whole stack: a real control
// plane on either side, our managers and the cloud's provider as processes under the permissions that we
// ship, and the cloud's API on loopback. It contains only that test.
package providers
