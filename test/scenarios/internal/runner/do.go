// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"fmt"

	"drover.io/test/framework"
	"drover.io/test/scenarios/internal/parser"
)

// do executes the documents one after another.
func (r *Runner) do(ctx context.Context, documents []parser.Document) error {
	for i, d := range documents {
		do := r.act
		if d.Object != nil {
			do = r.write
		}
		if err := do(ctx, d); err != nil {
			return fmt.Errorf("document %d, %s %s: %w", i+1, d.Do, subject(d), err)
		}
	}
	return nil
}

func subject(d parser.Document) string {
	if d.Object == nil {
		return d.Name
	}
	return fmt.Sprintf("%s %q", d.Object.GetKind(), d.Object.GetName())
}

// act does what needs no object.
func (r *Runner) act(ctx context.Context, d parser.Document) error {
	switch d.Do {
	case parser.Kubeconfig:
		return r.writeKubeconfig(ctx, d)
	case parser.Move:
		r.proxy.Close()
		return r.newProxy()
	case parser.Disconnect:
		r.proxy.Close()
	case parser.Hang:
		r.proxy.Hang()
	case parser.Reconnect:
		return r.proxy.Open()
	default:
		return r.manage(d)
	}
	return nil
}

// manage ends or starts a manager.
func (r *Runner) manage(d parser.Document) error {
	var manager *framework.Manager
	for _, m := range r.Stack.Managers() {
		if m.Name == d.Name {
			manager = m
		}
	}
	if manager == nil {
		return fmt.Errorf("there is no manager %q", d.Name)
	}
	switch d.Do {
	case parser.Kill:
		manager.AllowExit(true)
		manager.Kill()
	case parser.Stop:
		manager.AllowExit(true)
		manager.Stop()
	default:
		if err := manager.Start(); err != nil {
			return err
		}
		manager.AllowExit(false)
	}
	return nil
}
