// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/onsi/gomega"
)

// BenchmarkConnectedCluster reports what each connected cluster costs the
// manager when it has no Nodes; nodecache's BenchmarkMemory has the Nodes.
func BenchmarkConnectedCluster(b *testing.B) {
	const clusters = 100
	a := apiServer(b, "empty")
	kubeconfig := kubeconfigOf(b, a)
	w := newEnvironment(b, func(o *Options) { o.ProbeInterval = time.Minute })
	connect := func(from, count int) {
		for i := range count {
			w.cluster(fmt.Sprintf("c-%d", from+i), kubeconfig)
		}
		for i := range count {
			w.connected(fmt.Sprintf("c-%d", from+i))
		}
	}
	connect(0, 1) // What is made once for all is not counted.
	for range b.N {
		goroutinesBefore, heapBefore := usage()
		connect(1, clusters)
		goroutinesAfter, heapAfter := usage()
		b.ReportMetric(float64(goroutinesAfter-goroutinesBefore)/clusters, "goroutines/cluster")
		b.ReportMetric((float64(heapAfter)-float64(heapBefore))/clusters/1024, "KiB/cluster")
		for i := range clusters {
			w.deleteCluster(fmt.Sprintf("c-%d", 1+i))
		}
		w.Eventually(func() int { return goroutines("(*connector)") }).Should(gomega.BeNumerically("<=", 1))
	}
}

func usage() (goroutineCount int, heapBytes uint64) {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return runtime.NumGoroutine(), stats.HeapAlloc + stats.StackInuse
}
