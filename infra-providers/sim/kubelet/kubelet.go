// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubelet simulates the kubelet of one host towards an API server: it exchanges the bootstrap token for a
// certificate, registers its Node, renews its Lease, keeps its Ready condition, and reports the pods bound to it as running
// until they are deleted. It runs no containers.
//
// It uses only its node's identity, so the Node authorizer and the NodeRestriction admission apply to all of its requests.
// Its configuration comes only from the files of the host. The hypervisor runs one per instance; a process may have
// thousands.
package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
)

// Machine is the hardware under the kubelet.
type Machine struct {
	SystemUUID   string
	Zone         string
	InstanceType string
	InternalIP   string
	Architecture string
	Capacity     corev1.ResourceList
}

// Store persists the certificates of a host.
type Store interface {
	// Load returns nil when there is none.
	Load(name string) []byte
	Save(name string, content []byte) error
}

// Report has the callbacks of a kubelet.
type Report struct {
	// Log writes a line to the console.
	Log func(line string)
	// Joined is called whenever the Node is registered.
	Joined func()
	// Failing is called with the reason why the host cannot join.
	Failing func(reason string)
}

// Kubelet is the kubelet of one host.
type Kubelet struct {
	config  *Config
	machine Machine
	store   Store
	report  Report
}

// The names of a host's certificates in its Store.
const (
	clientCertificate  = "kubelet-client.pem"
	servingCertificate = "kubelet-server.pem"
	// requestedKey is the key of a client certificate that was requested with the bootstrap token and not issued yet.
	requestedKey = "kubelet-client.key.tmp"
)

// New returns a kubelet. Run starts it.
func New(config *Config, machine Machine, store Store, report Report) *Kubelet {
	if config.NodeIP == "" {
		config.NodeIP = machine.InternalIP
	}
	return &Kubelet{config: config, machine: machine, store: store, report: report}
}

// Run returns when ctx is done. It retries after failures, as the init system of a host would.
func (k *Kubelet) Run(ctx context.Context) {
	for _, warning := range k.config.Warnings {
		k.report.Log("kubelet: " + warning)
	}
	backoff := time.Second
	for ctx.Err() == nil {
		joined, err := k.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			k.reportError(err)
		}
		if joined {
			backoff = time.Second
		}
		pause(ctx, backoff/2+rand.N(backoff))
		backoff = min(2*backoff, 15*time.Second)
	}
}

func (k *Kubelet) reportError(err error) {
	reason, final := permanentReason(err)
	if !final {
		reason = err.Error()
	}
	k.report.Log("kubelet: " + reason)
	if final {
		k.report.Failing(reason)
	}
}

// session runs the kubelet with one client certificate.
func (k *Kubelet) session(ctx context.Context) (joined bool, err error) {
	certificate, err := k.identify(ctx)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithDeadlineCause(ctx, rotateAt(certificate, time.Now()), errRotate)
	defer cancel()
	c, err := dial(k.config, "", certificate)
	if err != nil {
		return false, err
	}
	defer c.close()
	node, err := k.register(ctx, c)
	if err != nil {
		return false, fmt.Errorf("registering node %q: %w", k.config.NodeName, err)
	}
	k.report.Log(fmt.Sprintf("kubelet: registered node %q", node.Name))
	k.report.Joined()

	var background sync.WaitGroup
	defer background.Wait()
	background.Go(func() { newPods(k, c, node).run(ctx) })
	if k.config.Kubelet.ServerTLSBootstrap {
		background.Go(func() { k.serve(ctx, c) })
	}
	k.heartbeat(ctx, c, node)
	if errors.Is(context.Cause(ctx), errRotate) {
		k.rotate(c)
	}
	return true, nil
}

var errRotate = errors.New("client certificate is due for rotation")

// identify returns the stored client certificate, or requests one with the bootstrap token.
func (k *Kubelet) identify(ctx context.Context) (*tls.Certificate, error) {
	if known := credential(k.store.Load(clientCertificate)).parse(time.Now()); known != nil {
		return known, nil
	}
	c, err := dial(k.config, k.config.Token, nil)
	if err != nil {
		return nil, err
	}
	defer c.close()
	key, err := bootstrapKey(k.store)
	if err != nil {
		return nil, err
	}
	k.report.Log("kubelet: requesting a client certificate")
	ctx, cancel := context.WithTimeout(ctx, certificateWait)
	defer cancel()
	certificate, err := k.obtain(ctx, c, key)
	if err != nil {
		return nil, err
	}
	return certificate, k.store.Save(requestedKey, nil)
}

func (k *Kubelet) obtain(ctx context.Context, c *connection, key []byte) (*tls.Certificate, error) {
	fresh, err := requestCertificate(ctx, c, key, clientRequest(k.config.NodeName), certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.UsageClientAuth)
	if err != nil {
		return nil, err
	}
	certificate := fresh.parse(time.Now())
	if certificate == nil {
		return nil, errors.New("the certificate that was issued is not usable")
	}
	return certificate, k.store.Save(clientCertificate, fresh)
}

// rotate requests the next certificate with the current one, within a minute. After a failure the current one is used until
// it expires.
func (k *Kubelet) rotate(c *connection) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	key, err := newKey()
	if err == nil {
		_, err = k.obtain(ctx, c, key)
	}
	if err != nil {
		k.report.Log(fmt.Sprintf("kubelet: rotating client certificate: %v", err))
	}
}

// serve requests a serving certificate if the configuration requires one. The approval may take any time.
func (k *Kubelet) serve(ctx context.Context, c *connection) {
	if credential(k.store.Load(servingCertificate)).parse(time.Now()) != nil {
		return
	}
	request := servingRequest(k.config.NodeName, k.config.NodeIP)
	key, err := newKey()
	if err != nil {
		k.report.Log(fmt.Sprintf("kubelet: generating a key: %v", err))
		return
	}
	certificate, err := requestCertificate(ctx, c, key, request, certificatesv1.KubeletServingSignerName, certificatesv1.UsageServerAuth)
	if err == nil {
		err = k.store.Save(servingCertificate, certificate)
	}
	if err != nil && ctx.Err() == nil {
		k.report.Log(fmt.Sprintf("kubelet: getting a serving certificate: %v", err))
	}
}
