// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package runner runs a scenario in a stack that it shares with others: in a namespace of its
// own, with a proxy of its own to the workload cluster. It executes the steps, waits
// until the expected state is reached, and in the end deletes everything and checks whether
// something is left.
package runner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/framework"
	"drover.io/test/scenarios/internal/parser"
	"drover.io/test/scenarios/internal/proxy"
)

// pollPeriod is how often the clusters are looked at while waiting.
const pollPeriod = 250 * time.Millisecond

// Runner runs the steps of one scenario.
type Runner struct {
	Stack *framework.Stack
	// Namespace is the scenario's own, in both clusters.
	Namespace string
	// Timeout bounds how long something may take to become true.
	Timeout time.Duration
	// Plugin is kubectl-drover.
	Plugin string
	// Update writes the answers of the plugin instead of comparing them.
	Update bool
	// Progress is called with the next step.
	Progress func(format string, args ...any)

	proxy   *proxy.Proxy
	proxies []*proxy.Proxy
}

// Open creates the namespaces and the proxy.
func (r *Runner) Open(ctx context.Context) error {
	for _, c := range []client.Client{r.Stack.ManagementClient, r.Stack.WorkloadClient} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.Namespace}}
		if err := c.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return r.newProxy()
}

func (r *Runner) newProxy() error {
	host, port := r.Stack.Workload.Endpoint()
	opened, err := proxy.New(net.JoinHostPort(host, strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	r.proxy, r.proxies = opened, append(r.proxies, opened)
	return nil
}

// Variables are the values that the scenario's documents may use.
func (r *Runner) Variables() parser.Variables {
	host, port := r.proxy.Address()
	managementHost, managementPort := r.management()
	return parser.Variables{
		"namespace": r.Namespace, "host": host, "port": strconv.Itoa(port),
		"managementHost": managementHost, "managementPort": strconv.Itoa(managementPort),
	}
}

// Run runs the steps in order. The error has the step that failed, and the reason.
func (r *Runner) Run(ctx context.Context, steps []parser.Step) error {
	for _, step := range steps {
		r.Progress("%s", step.File)
		play := r.do
		if step.Then {
			play = r.expect
		}
		if err := play(ctx, step.Documents); err != nil {
			return fmt.Errorf("%s: %w", step.File, err)
		}
	}
	return nil
}

// Close deletes everything that the scenario has left, and waits until it is gone.
func (r *Runner) Close(ctx context.Context) error {
	if err := r.proxy.Open(); err != nil {
		return err
	}
	err := r.clear(ctx)
	for _, c := range []client.Client{r.Stack.ManagementClient, r.Stack.WorkloadClient} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.Namespace}}
		err = errors.Join(err, client.IgnoreNotFound(c.Delete(ctx, namespace)))
	}
	for _, opened := range r.proxies {
		opened.Close()
	}
	return err
}

// client reaches the cluster that a document is about.
func (r *Runner) client(in string) client.Client {
	if in == parser.Workload {
		return r.Stack.WorkloadClient
	}
	return r.Stack.ManagementClient
}

// await polls until nothing is missing; the error then has the last state.
// Errors of the API servers only delay; a manager that has ended does not.
func (r *Runner) await(ctx context.Context, lacking func(context.Context) (string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	var last string
	err := wait.PollUntilContextCancel(ctx, pollPeriod, true, func(ctx context.Context) (bool, error) {
		for _, m := range r.Stack.Managers() {
			if err := m.Err(); err != nil && !m.ExitAllowed() {
				return false, err
			}
		}
		seen, err := lacking(ctx)
		if err != nil {
			seen = err.Error()
		}
		if ctx.Err() == nil {
			last = seen
		}
		return seen == "", nil
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, last)
	}
	return nil
}
