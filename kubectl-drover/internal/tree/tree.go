// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package tree makes the tree of a Cluster, MachineDeployment or Machine: equal ones grouped, and only what is not well in
// words. It reads Machines in chunks and keeps of each no more than its group.
package tree

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/kubectl-drover/internal/escape"
	"drover.io/kubectl-drover/internal/why"
)

// Item is an object of the tree, or several equal ones.
type Item struct {
	Kind string `json:"kind"`
	// Names are those of the objects, sorted.
	Names []string `json:"names"`
	// State is what is well about it, as "Running" or "3 of 3 replicas ready".
	State string `json:"state,omitempty"`
	// Problem is nil if it is well.
	Problem  *Problem `json:"problem,omitempty"`
	Children []*Item  `json:"children,omitempty"`
}

// Problem is what is not well about an object.
type Problem struct {
	Condition string                 `json:"condition,omitempty"`
	Status    metav1.ConditionStatus `json:"status,omitempty"`
	Reason    string                 `json:"reason,omitempty"`
	Message   string                 `json:"message"`
	Since     metav1.Time            `json:"since"`
}

// maxNames is how many names a group has in words.
const maxNames = 3

func problem(found *why.Finding) *Problem {
	if found == nil {
		return nil
	}
	c := found.Condition
	message := escape.Line(c.Message)
	if message == "" {
		message = found.Meaning
	}
	return &Problem{c.Type, c.Status, c.Reason, message, c.LastTransitionTime}
}

// Well reports whether nothing in the tree is wrong.
func (i *Item) Well() bool {
	return i.Problem == nil && !slices.ContainsFunc(i.Children, func(c *Item) bool { return !c.Well() })
}

// Text is the tree in lines. With all, every name is in it.
func (i *Item) Text(now time.Time, all bool) string {
	var out strings.Builder
	i.write(&out, "", "", now, all)
	return out.String()
}

func (i *Item) write(out *strings.Builder, first, rest string, now time.Time, all bool) {
	fmt.Fprintf(out, "%s%s\n", first, i.line(now, all))
	for n, child := range i.Children {
		if n == len(i.Children)-1 {
			child.write(out, rest+"└─ ", rest+"   ", now, all)
		} else {
			child.write(out, rest+"├─ ", rest+"│  ", now, all)
		}
	}
}

func (i *Item) line(now time.Time, all bool) string {
	text := i.title(all)
	if i.State != "" {
		text += "  " + i.State
	}
	if p := i.Problem; p != nil {
		text += "  "
		if p.Condition != "" {
			text += fmt.Sprintf("%s %s %s", p.Condition, p.Status, p.Reason)
		} else {
			text += "not well"
		}
		if !p.Since.IsZero() {
			text += " for " + duration.HumanDuration(max(now.Sub(p.Since.Time), 0))
		}
		if p.Message != "" {
			text += ": " + p.Message
		}
	}
	return escape.Line(text)
}

func (i *Item) title(all bool) string {
	switch {
	case len(i.Names) == 1:
		return i.Kind + " " + i.Names[0]
	case all:
		return fmt.Sprintf("%d %ss (%s)", len(i.Names), i.Kind, strings.Join(i.Names, ", "))
	case i.Problem == nil:
		return fmt.Sprintf("%d %ss", len(i.Names), i.Kind)
	}
	names := strings.Join(i.Names[:min(len(i.Names), maxNames)], ", ")
	if more := len(i.Names) - maxNames; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%d %ss (%s)", len(i.Names), i.Kind, names)
}

// maxMessages is how many messages with the same reason are told apart; what has more of them is one group.
const maxMessages = 10

// group collects Machines that are equal but for their names.
type group struct {
	items []*Item
	known map[string]*Item
	// messages are how many messages there are with a reason.
	messages map[string]int
}

func (g *group) add(m *clusterv1.Machine) {
	if g.known == nil {
		g.known, g.messages = map[string]*Item{}, map[string]int{}
	}
	found := problem(why.Problem(m))
	key := g.key(m, found)
	item := g.known[key]
	if item == nil {
		item = &Item{Kind: "Machine", State: phase(m), Problem: found}
		g.known[key], g.items = item, append(g.items, item)
	}
	item.Names = append(item.Names, m.Name)
	if found != nil && found.Since.Before(&item.Problem.Since) {
		item.Problem.Since = found.Since
	}
}

// key is what the Machines of a group have in common.
func (g *group) key(m *clusterv1.Machine, found *Problem) string {
	if found == nil {
		return phase(m)
	}
	reason := strings.Join([]string{phase(m), found.Condition, string(found.Status), found.Reason}, "\x00")
	// A message that is about one Machine alone still belongs to a group: what differs is names.
	general := strings.NewReplacer(m.Name, "…", orNothing(m.Spec.ProviderID), "…", orNothing(m.Status.NodeRef.Name), "…").Replace(found.Message)
	key := reason + "\x00" + general
	switch {
	case g.known[key] != nil:
	case g.messages[reason] < maxMessages:
		g.messages[reason]++
	default:
		found.Message = "different messages, as: " + found.Message
		return reason
	}
	return key
}

// orNothing keeps a replacer from replacing the empty text.
func orNothing(text string) string {
	if text == "" {
		return "\x00"
	}
	return text
}

// sorted are the groups: those that are well first, the largest first.
func (g *group) sorted() []*Item {
	for _, item := range g.items {
		slices.Sort(item.Names)
	}
	slices.SortStableFunc(g.items, func(a, b *Item) int {
		if (a.Problem == nil) != (b.Problem == nil) {
			if a.Problem == nil {
				return -1
			}
			return 1
		}
		if d := len(b.Names) - len(a.Names); d != 0 {
			return d
		}
		return strings.Compare(a.Names[0], b.Names[0])
	})
	return g.items
}
