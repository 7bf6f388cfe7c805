// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package integration holds the tests that take DigitalOceanMachines through the whole provider, against a real API
// server and the fake cloud. It has no code of its own.
package integration
