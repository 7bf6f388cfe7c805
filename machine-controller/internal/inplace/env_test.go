// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"testing"

	"drover.io/machine-controller/internal/testenv"
)

// server is the API server that the tests of this package share.
var server = &testenv.Server{Project: true}

func TestMain(m *testing.M) { testenv.Main(m, server.Stop) }
