// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package stage plays a story in a stack that it shares with others: in a namespace of its
// own, with a way of its own to the workload cluster. It does what the story says, waits
// until what the story says is true, and in the end deletes everything and looks whether
// something is left.
package stage

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

	"drover.io/test/kit"
	"drover.io/test/scenarios/door"
	"drover.io/test/scenarios/script"
)

// look is how often the clusters are looked at while waiting.
const look = 250 * time.Millisecond

// Stage is where one story is played.
type Stage struct {
	Stack *kit.Stack
	// Namespace is the story's own, in both clusters.
	Namespace string
	// Patience bounds how long something may take to become true.
	Patience time.Duration
	// Progress is told what comes next.
	Progress func(format string, args ...any)

	door  *door.Door
	doors []*door.Door
}

// Open prepares the stage.
func (s *Stage) Open(ctx context.Context) error {
	for _, c := range []client.Client{s.Stack.Manage, s.Stack.Work} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
		if err := c.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return s.newDoor()
}

func (s *Stage) newDoor() error {
	host, port := s.Stack.Workload.Endpoint()
	opened, err := door.New(net.JoinHostPort(host, strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	s.door, s.doors = opened, append(s.doors, opened)
	return nil
}

// Variables are what the story's documents may ask for.
func (s *Stage) Variables() script.Variables {
	host, port := s.door.Address()
	managementHost, managementPort := s.management()
	return script.Variables{
		"namespace": s.Namespace, "host": host, "port": strconv.Itoa(port),
		"managementHost": managementHost, "managementPort": strconv.Itoa(managementPort),
	}
}

// Play plays the steps in order. The error says at which it ended, and why.
func (s *Stage) Play(ctx context.Context, steps []script.Step) error {
	for _, step := range steps {
		s.Progress("%s", step.File)
		play := s.do
		if step.Then {
			play = s.see
		}
		if err := play(ctx, step.Documents); err != nil {
			return fmt.Errorf("%s: %w", step.File, err)
		}
	}
	return nil
}

// Close deletes everything that the story has left, and waits until it is gone.
func (s *Stage) Close(ctx context.Context) error {
	if err := s.door.Open(); err != nil {
		return err
	}
	err := s.clear(ctx)
	for _, c := range []client.Client{s.Stack.Manage, s.Stack.Work} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
		err = errors.Join(err, client.IgnoreNotFound(c.Delete(ctx, namespace)))
	}
	for _, opened := range s.doors {
		opened.Shut()
	}
	return err
}

// client reaches the cluster that a document is about.
func (s *Stage) client(in string) client.Client {
	if in == script.Workload {
		return s.Stack.Work
	}
	return s.Stack.Manage
}

// await looks until nothing is lacking any more; the error then says what was seen last.
// Errors of the API servers only delay; a manager that has ended does not.
func (s *Stage) await(ctx context.Context, lacking func(context.Context) (string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	var last string
	err := wait.PollUntilContextCancel(ctx, look, true, func(ctx context.Context) (bool, error) {
		for _, m := range s.Stack.Managers() {
			if err := m.Err(); err != nil && !m.Expendable() {
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
