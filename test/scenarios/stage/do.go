// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"fmt"

	"drover.io/test/kit"
	"drover.io/test/scenarios/script"
)

// do does what the documents say, one after another.
func (s *Stage) do(ctx context.Context, documents []script.Document) error {
	for i, d := range documents {
		do := s.act
		if d.Object != nil {
			do = s.write
		}
		if err := do(ctx, d); err != nil {
			return fmt.Errorf("document %d, %s %s: %w", i+1, d.Do, subject(d), err)
		}
	}
	return nil
}

func subject(d script.Document) string {
	if d.Object == nil {
		return d.Name
	}
	return fmt.Sprintf("%s %q", d.Object.GetKind(), d.Object.GetName())
}

// act does what needs no object.
func (s *Stage) act(ctx context.Context, d script.Document) error {
	switch d.Do {
	case script.Kubeconfig:
		return s.giveKubeconfig(ctx, d)
	case script.Move:
		s.door.Shut()
		return s.newDoor()
	case script.Disconnect:
		s.door.Shut()
	case script.Hang:
		s.door.Hang()
	case script.Reconnect:
		return s.door.Open()
	default:
		return s.manage(d)
	}
	return nil
}

// manage ends or starts a manager.
func (s *Stage) manage(d script.Document) error {
	var manager *kit.Manager
	for _, m := range s.Stack.Managers() {
		if m.Name == d.Name {
			manager = m
		}
	}
	if manager == nil {
		return fmt.Errorf("there is no manager %q", d.Name)
	}
	switch d.Do {
	case script.Kill:
		manager.Expend(true)
		manager.Kill()
	case script.Stop:
		manager.Expend(true)
		manager.Stop()
	default:
		if err := manager.Start(); err != nil {
			return err
		}
		manager.Expend(false)
	}
	return nil
}
