// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"net"
	"sync/atomic"
	"testing"

	"drover.io/infra-providers/driver"
)

// RefusesEndpoint proves that the provider's own credentials, which the test puts where the cloud looks for them, never
// go to an endpoint that a machine names. The function returns a machine that names an endpoint and no Secret. A cloud
// whose machines can name one has to call it.
func RefusesEndpoint[M driver.Machine, C any](t *testing.T, cloud driver.Cloud[M, C], naming func(endpoint string) M) {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var connections atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			_ = connection.Close()
		}
	}()
	endpoint := listener.Addr().String()
	account := cloud.Account(naming(endpoint))
	if account.Endpoint == "" || account.SecretName != "" {
		t.Errorf("the account is %+v, want the endpoint %q and no Secret", account, endpoint)
	}
	connected, err := cloud.Connect(t.Context(), account, nil)
	if !driver.IsInvalidConfiguration(err) {
		t.Errorf("connecting to an endpoint of the machine's own: got %v, want an InvalidConfigurationError", err)
	}
	if err == nil {
		_, _ = connected.Get(t.Context(), identity(1))
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	<-ended
	if connections.Load() > 0 {
		t.Errorf("the endpoint was connected to %d times", connections.Load())
	}
}
