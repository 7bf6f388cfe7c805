// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// set is a set of machines, by UID. The zero value is empty.
type set struct {
	mu       sync.Mutex
	machines map[types.UID]struct{}
}

func (s *set) has(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.machines[uid]
	return ok
}

func (s *set) add(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.machines == nil {
		s.machines = map[types.UID]struct{}{}
	}
	s.machines[uid] = struct{}{}
}

func (s *set) remove(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.machines, uid)
}

// providerIDs are those of machines, by UID. The zero value is empty.
type providerIDs struct{ machines sync.Map }

func (p *providerIDs) get(uid types.UID) string {
	id, _ := p.machines.Load(uid)
	known, _ := id.(string)
	return known
}

func (p *providerIDs) add(uid types.UID, id string) { p.machines.Store(uid, id) }

func (p *providerIDs) remove(uid types.UID) { p.machines.Delete(uid) }
