// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package metric declares the metrics of a manager: each with its type, its labels and how stable it is. A metric is
// declared once, as a variable beside what it measures; [Register] adds all that a program has declared to a registry, and
// [WriteReference] writes their documentation. The values of a label are a fixed set or the names of objects. Series of
// objects end with the objects, and are bounded by [Bounded].
package metric

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Stability is what changes of a metric a user has to expect.
type Stability string

const (
	// Alpha metrics may change or be removed in any release.
	Alpha Stability = "ALPHA"
	// Stable metrics keep their name, type and labels in all releases of a major version.
	Stable Stability = "STABLE"
)

// Other is the value of a label with fixed values for whatever is none of them.
const Other = "other"

// Label is a label of a metric.
type Label struct {
	Name string
	// Values are all values there are; none where objects name them.
	Values []string
	// Of is what names the values, where they are not fixed.
	Of string
}

// Fixed is a label with the given values, and [Other].
func Fixed[T ~string](name string, values ...T) Label {
	label := Label{Name: name}
	for _, value := range values {
		label.Values = append(label.Values, string(value))
	}
	return label
}

// Named is a label whose values are names of objects.
func Named(name, of string) Label { return Label{Name: name, Of: of} }

func (l Label) isNamed() bool { return l.Values == nil }

// bounded returns the value, or Other for one that the label must not have.
func (l Label) bounded(value string) string {
	if l.isNamed() || slices.Contains(l.Values, value) {
		return value
	}
	return Other
}

// Options describe a metric.
type Options struct {
	// Name is the whole name; Help is a sentence that says what is measured, with its unit.
	Name, Help string
	Stability  Stability
	Labels     []Label
	// Buckets are those of a histogram.
	Buckets []float64
}

func (o Options) help() string { return fmt.Sprintf("[%s] %s", o.Stability, o.Help) }

func (o Options) labelNames() []string {
	names := make([]string, 0, len(o.Labels))
	for _, label := range o.Labels {
		names = append(names, label.Name)
	}
	return names
}

// combinations is how many series the fixed values of the labels make.
func (o Options) combinations() int {
	n := 1
	for _, label := range o.Labels {
		n *= max(1, len(label.Values))
	}
	return n
}

// bounded returns the values of the labels, each one that its label may have.
func (o Options) bounded(values []string) []string {
	all := make([]string, len(values))
	for i, value := range values {
		all[i] = o.Labels[i].bounded(value)
	}
	return all
}

// declaration is a metric that a program has.
type declaration struct {
	Options
	kind string
	// collector sends the series; nil where another collector does.
	collector prometheus.Collector
}

var (
	mu       sync.Mutex
	declared = map[string]declaration{}
)

// declare records a metric. Two of the same name are an error of the program.
func declare(d declaration) {
	mu.Lock()
	defer mu.Unlock()
	if _, twice := declared[d.Name]; twice {
		panic(fmt.Sprintf("metric %s is declared twice", d.Name))
	}
	declared[d.Name] = d
}

// declarations are sorted by name.
func declarations() []declaration {
	mu.Lock()
	defer mu.Unlock()
	all := make([]declaration, 0, len(declared))
	for _, d := range declared {
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b declaration) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Register adds all metrics that the program declares to a registry, but for those that other collectors send. Those that
// the registry has already stay there.
func Register(registry prometheus.Registerer) error {
	for _, d := range declarations() {
		if d.collector == nil {
			continue
		}
		if err := registry.Register(d.collector); err != nil {
			if again, is := err.(prometheus.AlreadyRegisteredError); is && again.ExistingCollector == d.collector { //nolint:errorlint // Register does not wrap
				continue
			}
			return fmt.Errorf("registering metric %s: %w", d.Name, err)
		}
	}
	return nil
}
