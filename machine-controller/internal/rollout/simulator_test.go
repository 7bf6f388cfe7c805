// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// picker is where a simulation takes its decisions from: a seed, or rapid.
type picker interface {
	// pick returns a number from 0 to n-1.
	pick(n int) int
}

// simSet and simMachine are the objects in the simulated API server.
type simSet struct {
	name, template string
	created        int
	version        int // resourceVersion
	spec           int32
	generation     int
	observed       int
	status         int32 // status.replicas
	annotations    SizeAnnotations
	disabled       bool
}

type simMachine struct {
	id        int
	set       string
	available bool
	deleting  bool
	annotated bool
}

// simulator is a management cluster with one MachineDeployment: the state of the API server, and the
// older caches, one per kind.
type simulator struct {
	picker
	replicas                     int32
	onDelete, paused, blocked    bool
	surge, unavailable           *intstr.IntOrString
	template                     string
	sets                         []simSet
	machines                     []simMachine
	setLog                       [][]simSet
	machineLog                   [][]simMachine
	seenSets, seenMachines       int
	written                      map[string]int // version of the last write, per set
	resized                      bool           // spec.replicas has changed
	annotatedForDecrease         map[int]bool   // Machines annotated together with a decrease
	nextMachine, clock           int
	guaranteedOrder              bool  // deletions in the guaranteed order; else the available first
	ceiling, floor, lostToOthers int32 // what may be created; what must stay; what others deleted
	steps                        int
	failure                      error
}

func newSimulator(c picker, replicas int32, surge, unavailable *intstr.IntOrString) *simulator {
	w := &simulator{picker: c, replicas: replicas, surge: surge, unavailable: unavailable, written: map[string]int{}, annotatedForDecrease: map[int]bool{}}
	w.ceiling, w.floor = w.bounds()
	return w
}

func (w *simulator) limits() Limits {
	strategy := clusterv1.MachineDeploymentRolloutStrategy{Type: clusterv1.RollingUpdateMachineDeploymentStrategyType}
	if w.onDelete {
		strategy.Type = clusterv1.OnDeleteMachineDeploymentStrategyType
	}
	strategy.RollingUpdate.MaxSurge, strategy.RollingUpdate.MaxUnavailable = w.surge, w.unavailable
	limits, err := ResolveLimits(strategy, w.replicas)
	if err != nil {
		panic(err)
	}
	return limits
}

func (w *simulator) bounds() (ceiling, floor int32) {
	limits := w.limits()
	return w.replicas + limits.Surge, w.replicas - limits.Unavailable
}

// addSet puts a set with n available Machines into the cluster.
func (w *simulator) addSet(template string, n int32) {
	w.sets = append(w.sets, simSet{name: "ms-" + template, template: template, created: len(w.sets), spec: n, status: n, annotations: SizeAnnotations{w.replicas, w.ceiling}})
	for range n {
		w.newMachine("ms-"+template, true)
	}
	w.log()
}

func (w *simulator) newMachine(set string, available bool) {
	w.nextMachine++
	w.machines = append(w.machines, simMachine{id: w.nextMachine, set: set, available: available})
}

// log appends the state to what caches can show.
func (w *simulator) log() {
	w.setLog = append(w.setLog, slices.Clone(w.sets))
	w.machineLog = append(w.machineLog, slices.Clone(w.machines))
	if len(w.setLog) > 64 {
		drop := len(w.setLog) - 64
		w.setLog, w.machineLog = w.setLog[drop:], w.machineLog[drop:]
		w.seenSets, w.seenMachines = max(w.seenSets-drop, 0), max(w.seenMachines-drop, 0)
	}
}

// syncCaches brings both caches up to date.
func (w *simulator) syncCaches() {
	w.seenSets, w.seenMachines = len(w.setLog)-1, len(w.machineLog)-1
}

// view is the State that the caches show.
func (w *simulator) view() State {
	state := State{Replicas: w.replicas, Limits: w.limits(), Paused: w.paused}
	if w.blocked {
		state.Blocked = "an API server is unreachable"
	}
	if w.onDelete {
		state.Strategy = clusterv1.OnDeleteMachineDeploymentStrategyType
	}
	machines := w.machineLog[w.seenMachines]
	current := -1
	for _, s := range w.setLog[w.seenSets] {
		set := Set{
			Name: s.name, Created: time.Unix(int64(s.created), 0), Revision: int64(s.created), Replicas: s.spec,
			Recorded: s.annotations, CreateDisabled: s.disabled, Unobserved: s.observed < s.generation, Reported: s.status,
		}
		for _, m := range machines {
			if m.set == s.name {
				set.countSim(m)
			}
		}
		if s.template == w.template && current < 0 {
			current = len(state.Sets)
			set.Current = true
		}
		state.Sets = append(state.Sets, set)
		if w.written[s.name] <= s.version {
			delete(w.written, s.name)
		}
	}
	for name := range w.written {
		gone := !slices.ContainsFunc(state.Sets, func(s Set) bool { return s.Name == name }) && w.set(name) == nil
		if gone {
			delete(w.written, name)
			continue
		}
		state.Unseen = append(state.Unseen, name)
	}
	return state
}

func (s *Set) countSim(m simMachine) {
	s.Machines++
	switch {
	case m.deleting:
		s.Deleting++
		return
	case m.available:
		s.Available++
	}
	if m.annotated {
		s.DeleteAnnotated++
	}
}

// plan runs the planner on what the caches show and applies the first keep
// actions of a shuffled order; a negative keep means all, in the given order.
func (w *simulator) plan(keep int) Decision {
	w.seenMachines = max(w.seenMachines, w.seenSets) // Machines are read last
	if w.onDelete {
		// What is gone under OnDelete must be gone for sure.
		w.seenMachines = len(w.machineLog) - 1
	}
	state := w.view()
	decision := Plan(state)
	w.fail(violation(state, decision))
	actions := slices.Clone(decision.Actions)
	if keep >= 0 {
		for i := range actions {
			j := i + w.pick(len(actions)-i)
			actions[i], actions[j] = actions[j], actions[i]
		}
		actions = actions[:min(keep, len(actions))]
	}
	seen := w.setLog[w.seenSets]
	ours := map[string]bool{}
	for _, action := range actions {
		w.apply(action, decision.SizeAnnotations, seen, ours)
	}
	w.log()
	return decision
}

// apply does one write as the API server would: a set that has changed since
// it was seen refuses, a name that exists cannot be created again.
func (w *simulator) apply(action Action, annotations SizeAnnotations, seen []simSet, ours map[string]bool) {
	if action.Kind == CreateCurrent {
		name := "ms-" + w.template
		if w.set(name) == nil {
			w.sets = append(w.sets, simSet{name: name, template: w.template, created: 100 + w.clock, spec: action.To, generation: 1, annotations: annotations, version: w.tick()})
			w.written[name] = w.clock
		}
		return
	}
	set := w.set(action.Set)
	i := slices.IndexFunc(seen, func(s simSet) bool { return s.name == action.Set })
	if set == nil || set.version != seen[i].version && !ours[action.Set] {
		return
	}
	switch action.Kind {
	case Delete:
		if set.spec != 0 || w.count(set.name) != 0 {
			w.fail(fmt.Errorf("deletes MachineSet %s, which has Machines", set.name))
		}
		w.sets = slices.DeleteFunc(w.sets, func(s simSet) bool { return s.name == action.Set })
		w.written[action.Set] = math.MaxInt
		return
	case Scale:
		if strings.Contains(action.Reason, "stuck") {
			w.lostToOthers++
		}
		if strings.Contains(action.Reason, "annotated") {
			w.lostToOthers += action.From - action.To // these were annotated
		}
		set.spec, set.annotations = action.To, annotations
		set.generation++
	case Record:
		set.annotations = annotations
	case DisableCreate, EnableCreate:
		set.disabled = action.Kind == DisableCreate
	}
	set.version = w.tick()
	ours[action.Set] = true
	w.written[action.Set] = set.version
}

// tick returns a new resourceVersion.
func (w *simulator) tick() int {
	w.clock++
	return w.clock
}

func (w *simulator) set(name string) *simSet {
	for i := range w.sets {
		if w.sets[i].name == name {
			return &w.sets[i]
		}
	}
	return nil
}

func (w *simulator) count(set string) int32 {
	n := int32(0)
	for _, m := range w.machines {
		if m.set == set {
			n++
		}
	}
	return n
}

func (w *simulator) available() int32 {
	n := int32(0)
	for _, m := range w.machines {
		if m.available && !m.deleting {
			n++
		}
	}
	return n
}

// machineSet is one turn of the MachineSet controller for one set. It may stop
// after a few writes, before it has written status.
func (w *simulator) machineSet(i int, writes int) {
	set := &w.sets[i]
	for ; writes != 0; writes-- {
		excess := w.count(set.name) - set.spec
		switch {
		case excess < 0 && !set.disabled:
			w.newMachine(set.name, false)
			if n := int32(len(w.machines)); n > w.ceiling {
				w.fail(fmt.Errorf("creates Machine number %d; at most %d may exist", n, w.ceiling))
			}
			continue
		case excess > 0 && w.deleteOne(set.name, excess):
			continue
		}
		set.observed, set.status = set.generation, w.count(set.name)
		set.version = w.tick()
		break
	}
	w.log()
}

// deleteOne deletes one more Machine of the set unless enough are going already.
func (w *simulator) deleteOne(set string, excess int32) bool {
	chosen, best := -1, -1
	for i, m := range w.machines {
		switch {
		case m.set != set:
		case m.deleting:
			excess--
		default:
			if score := w.score(m); score > best {
				chosen, best = i, score
			}
		}
	}
	if excess <= 0 || chosen < 0 {
		return false
	}
	m := &w.machines[chosen]
	m.deleting = true
	if m.annotated && m.available {
		w.lostToOthers++ // it was annotated
	}
	if w.onDelete && !w.resized {
		w.fail(fmt.Errorf("deletes Machine %d, which is for others to do", m.id))
	}
	if n := w.available(); m.available && n < w.floor-w.lostToOthers {
		w.fail(fmt.Errorf("deletes available Machine %d and leaves %d; at least %d must stay (%d lost by others)", m.id, n, w.floor, w.lostToOthers))
	}
	return true
}

// score is the priority of deleting a Machine.
func (w *simulator) score(m simMachine) int {
	score := 0
	if m.annotated && w.guaranteedOrder {
		score += 2
	}
	if m.available != w.guaranteedOrder {
		score++
	}
	return score
}

func (w *simulator) fail(err error) {
	if err != nil && w.failure == nil {
		w.failure = err
	}
}

// violation checks one Decision against the State that it was made from: no
// choice of Machines may cost more than is allowed, and no action may add more.
func violation(s State, d Decision) error {
	sizes, adds, created := map[string]int32{}, int32(0), int32(0)
	var errs []error
	for _, action := range d.Actions {
		switch action.Kind {
		case Scale:
			sizes[action.Set] = action.To
			if action.To < 0 || action.From == action.To || action.Reason == "" {
				errs = append(errs, fmt.Errorf("senseless action %+v", action))
			}
		case CreateCurrent:
			created += action.To
		}
	}
	fits := true // no set is larger than the MachineDeployment
	var size, occupied, before, after int32
	for _, set := range s.Sets {
		to, scaled := sizes[set.Name]
		if !scaled {
			to = set.Replicas
		}
		size += set.Replicas
		fits = fits && set.Replicas <= s.Replicas
		before += set.Available - min(set.Available, max(set.liveAtMost()-set.Replicas, 0))
		after += set.Available - min(set.Available, max(set.liveAtMost()-min(to, set.Replicas), 0))
		occupied += max(set.Replicas, to, set.Machines, set.Reported)
		adds += max(to-set.Replicas, 0)
		if scaled && set.Terminating {
			errs = append(errs, fmt.Errorf("scales %s, which is being deleted", set.Name))
		}
	}
	occupied += created
	if ceiling := s.ceiling(); adds+created > 0 && occupied > ceiling {
		errs = append(errs, fmt.Errorf("adds up to %d Machines; at most %d may exist", occupied, ceiling))
	}
	lowers := after < before
	if size <= s.ceiling() && fits && lowers && after < s.minAvailable() && !s.Paused && !s.onDelete() && !breaksDeadlock(d) && !lowersForAnnotation(d) {
		errs = append(errs, fmt.Errorf("leaves %d available in the worst case; at least %d must stay: %+v", after, s.minAvailable(), s))
	}
	return errors.Join(append(errs, respectsBlock(s, d))...)
}

// respectsBlock checks that a rollout that is held takes nothing away and begins nothing.
func respectsBlock(s State, d Decision) error {
	if s.Blocked == "" || s.Paused || s.onDelete() {
		return nil
	}
	size := int32(0)
	for _, set := range s.Sets {
		if set.Recorded.Desired != s.Replicas && !set.Empty() || set.Replicas > s.Replicas {
			return nil // the size has changed
		}
		size += set.Replicas
	}
	if size > s.ceiling() {
		return nil
	}
	for _, action := range d.Actions {
		if action.Kind == CreateCurrent || action.Kind == Scale && action.To < action.From {
			return fmt.Errorf("%s of %q from %d to %d although it is held", action.Kind, action.Set, action.From, action.To)
		}
	}
	return nil
}

func breaksDeadlock(d Decision) bool {
	return slices.ContainsFunc(d.Actions, func(i Action) bool { return strings.Contains(i.Reason, "stuck") })
}

func lowersForAnnotation(d Decision) bool {
	return slices.ContainsFunc(d.Actions, func(i Action) bool { return strings.Contains(i.Reason, "annotated") })
}
