// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodecache keeps the Nodes of one workload cluster in memory, cut
// down to the fields that the controllers read and indexed by providerID, and
// announces which of them changed in one of these fields.
//
// It owns no connection: a client-go Reflector fills it (package workload
// starts that), and it never sends requests to an API server itself.
package nodecache
