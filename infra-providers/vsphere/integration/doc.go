// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package integration holds the tests that take VSphereMachines through the whole provider, against a real API
// server and vcsim, under the shipped role. It has no code of its own.
package integration
