// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package managerlog

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// machineKinds are the kinds whose objects have the name of their Machine.
var machineKinds = []string{"Machine", "BootstrapConfig", "SimMachine", "Node"}

// otherKinds are the other kinds that a line may be about, the most specific first.
var otherKinds = []string{"MachineSet", "MachineDeployment", "MachineHealthCheck", "BootstrapConfigTemplate", "SimMachineTemplate", "Cluster"}

// addedKeys are the keys that controller-runtime adds to each line of a reconcile.
var addedKeys = []string{"controller", "controllerGroup", "controllerKind", "namespace", "name", "reconcileID", "logger"}

// coalesced are the phases by message that a fast machine passes between two writes of its status.
var coalesced = map[string][]string{
	"Machine phase changed":  {"Pending", "Provisioning", "Provisioned", "Deleting"},
	"instance state changed": {"Pending", "Running"},
}

// timing are the keys by message whose values depend on the speed of a machine.
var timing = map[string][]string{
	"created instance":      {"phase"},
	"Machine phase changed": {"previousPhase"},
	"scaled MachineSet":     {"previousReplicas", "reason", "replicas"}, // a rollout takes more steps on a slow machine
}

// warning matches warnings of the API server, which client-go logs once per process.
var warning = regexp.MustCompile(`^(metadata|spec|status)\.`)

// variable are the parts of values that differ between two runs, with their replacements, in order.
var variable = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`\bcsr-[a-z0-9]{5,}\b`), "CSR"},
	{regexp.MustCompile(`\bbootstrap-token-[a-z0-9]{6}\b`), "TOKEN"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(ns|µs|ms|s|m|h)\b`), "DURATION"}, // last: the random end of a name can look like one
}

// Summary describes what happened to each object: for each group of objects with the same lines their number, and the
// different lines of each controller, sorted. Errors and lines above level 0 are left out.
func Summary(entries []Entry) string {
	names := newNames(entries)
	lines := map[string][]string{}
	for _, e := range slices.SortedStableFunc(slices.Values(entries), func(a, b Entry) int { return a.Time.Compare(b.Time) }) {
		object := subject(e)
		if object == "" || e.Error || e.Level > 0 || warning.MatchString(e.Message) || slices.Contains(coalesced[e.Message], e.Values["phase"]) {
			continue
		}
		lines[object] = append(lines[object], names.replace(line(e, object)))
	}
	objects := map[string]int{}
	for object, of := range lines {
		// How often a controller repeats a line, and in which order it receives two events of the same time, depends on the speed.
		slices.Sort(of)
		of = slices.Compact(of)
		objects[names.replace(object)+"\n"+strings.Join(of, "\n")+"\n"]++
	}
	var all []string
	for text, count := range objects {
		title, rest, _ := strings.Cut(text, "\n")
		all = append(all, fmt.Sprintf("%s: %d\n%s", title, count, rest))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// Messages returns the messages of the lines in a summary, sorted.
func Messages(entries []Entry) []string {
	messages := map[string]bool{}
	for _, e := range entries {
		if subject(e) != "" && !e.Error && e.Level == 0 && !warning.MatchString(e.Message) {
			messages[e.Message] = true
		}
	}
	return slices.Sorted(maps.Keys(messages))
}

// CheckOrder returns an error unless each Machine has lines with all messages, the first of each in the given order.
func CheckOrder(entries []Entry, messages ...string) error {
	first := map[string]map[string]time.Time{}
	for _, e := range entries {
		machine, found := strings.CutPrefix(subject(e), "Machine ")
		if !found || e.Level > 0 {
			continue
		}
		if first[machine] == nil {
			first[machine] = map[string]time.Time{}
		}
		if at, seen := first[machine][e.Message]; !seen || e.Time.Before(at) {
			first[machine][e.Message] = e.Time
		}
	}
	var errs []error
	for _, machine := range slices.Sorted(maps.Keys(first)) {
		for i, message := range messages {
			at, found := first[machine][message]
			switch {
			case !found:
				errs = append(errs, fmt.Errorf("the log of Machine %s lacks %q", machine, message))
			case i > 0 && at.Before(first[machine][messages[i-1]]):
				errs = append(errs, fmt.Errorf("the log of Machine %s has %q before %q", machine, message, messages[i-1]))
			}
		}
	}
	return errors.Join(errs...)
}

// subject returns the kind and name of the object that a line is about. Objects of a Machine count as the Machine.
func subject(e Entry) string {
	for _, kind := range machineKinds {
		if value, ok := e.Values[kind]; ok {
			return "Machine " + value[strings.LastIndex(value, "/")+1:]
		}
	}
	for _, kind := range otherKinds {
		if value, ok := e.Values[kind]; ok {
			return kind + " " + value[strings.LastIndex(value, "/")+1:]
		}
	}
	return ""
}

const separator = ": "

// line returns the text of an entry about an object: its source, message and the keys that are left.
func line(e Entry, object string) string {
	values := maps.Clone(e.Values)
	controller := cmp.Or(values["controller"], values["logger"])
	for _, key := range addedKeys {
		delete(values, key)
	}
	_, name, _ := strings.Cut(object, " ")
	for key, value := range values {
		if slices.Contains(timing[e.Message], key) || strings.HasSuffix("/"+value, "/"+name) {
			delete(values, key)
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "  %s%s%s", strings.TrimSuffix(e.Manager+"/"+controller, "/"), separator, e.Message)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&text, " %s=%q", key, values[key])
	}
	return text.String()
}
