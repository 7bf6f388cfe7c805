// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"testing"

	"drover.io/runtime/envtest"
)

// server is the API server that the tests of this package share.
var server = &envtest.Server{Project: true}

func TestMain(m *testing.M) { envtest.Main(m, server.Stop) }
