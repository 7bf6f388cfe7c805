// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Main runs the tests of a package beside one control plane for all of them, which ready hands on to them, and
// returns the exit code. What controllers log is dropped: tests check what they do.
func Main(m *testing.M, ready func(*Cluster) error) (code int) {
	ctrl.SetLogger(logr.Discard())
	cluster, err := Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	if err := ready(cluster); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
