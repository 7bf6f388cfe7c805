// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command guestprogram is all that the containers of the tests run: it lives until it is told to end. It plays the
// sandbox container and the workload.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	fmt.Println("hello")
	<-told
	fmt.Println("goodbye")
}
