// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command pause is the program of the tests' containers: it runs until it gets a signal. It is used as the
// sandbox container and the workload.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	fmt.Println("hello")
	<-signals
	fmt.Println("goodbye")
}
