// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package why finds what an object waits for, across all objects that it depends on: what it means, since when, who must act,
// and what helps. Meaning, actor and help are those of the table in api/reason, which the reference page is made of too.
package why

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/api/reason"
	"drover.io/kubectl-drover/internal/escape"
)

// Reference names an object.
type Reference struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Cluster is the Cluster that it belongs to.
	Cluster string `json:"cluster,omitempty"`
}

// String is KIND NAME, or for a MachineDeployment "MachineDeployment x".
func (r Reference) String() string { return r.Kind + " " + r.Name }

// Finding is what an object waits for.
type Finding struct {
	// Object is that whose condition it is: the one that was asked about, or one that it depends on.
	Object    Reference        `json:"object"`
	Condition metav1.Condition `json:"condition"`
	// Meaning, Actor and Help are from the table of reasons, or those of a state that no condition describes.
	Meaning string       `json:"meaning"`
	Actor   reason.Actor `json:"actor"`
	Help    string       `json:"help,omitempty"`
	// Command is one that helps.
	Command string `json:"command,omitempty"`
	// Facts are what was found out beside the condition.
	Facts []string `json:"facts,omitempty"`
	// Others is how many more objects of the same owner wait for something.
	Others int `json:"others,omitempty"`

	// unreconciled means that no manager has written to the object yet, or has acted on its deletion.
	unreconciled bool
	// external means that it waits for what the cloud or the workload cluster causes rather than a template, as its condition alone does not
	// have it.
	external bool
	// machine is that whose wait it explains, for a finding about one of many.
	machine *clusterv1.Machine
}

// Answer is the answer to why.
type Answer struct {
	Object Reference `json:"object"`
	// State is what the object is now, as "Provisioning".
	State string `json:"state,omitempty"`
	// Well is true if it waits for nothing.
	Well bool `json:"well"`
	// Finding is nil if it is well.
	Finding *Finding `json:"finding,omitempty"`
	// Notes are about what is well and worth knowing, or could not be read.
	Notes []string `json:"notes,omitempty"`
}

// of is the finding of a condition, by the table of reasons.
func of(object Reference, condition metav1.Condition) *Finding {
	found := &Finding{Object: object, Condition: condition}
	entry, known := reason.Find(object.Kind, condition.Type, condition.Reason)
	if condition.Type == clusterv1.ClusterRemoteConnectionProbeCondition && condition.Status != metav1.ConditionTrue {
		if why, is := reason.RemoteConnectionProbeMessage(condition.Message); is {
			entry = why
		}
	}
	if !known {
		found.Meaning = fmt.Sprintf("its condition %s is %s", condition.Type, condition.Status)
		found.Actor, found.Help = reason.Operator, "the reason is not one of Drover: see who sets it"
		return found
	}
	found.Meaning, found.Actor = filled(entry.Meaning, object), entry.Actor
	found.Help, found.Command = filled(entry.Help, object), command(entry.Command, object)
	return found
}

// command is a command about an object, for a shell; empty if it needs a name that is not known.
func command(text string, object Reference) string {
	if strings.Contains(text, "{cluster}") && object.Cluster == "" && object.Kind != "Cluster" {
		return ""
	}
	object.Namespace, object.Name, object.Cluster = quoted(object.Namespace), quoted(object.Name), quoted(object.Cluster)
	return filled(text, object)
}

// resource is a kind as kubectl takes it, with its group: other projects have kinds of the same name, as Machine and Cluster.
func resource(kind schema.GroupVersionKind) string {
	return strings.TrimSuffix(strings.ToLower(kind.Kind)+"."+kind.Group, ".")
}

// deletes reports whether its command deletes something.
func (f *Finding) deletes() bool { return strings.HasPrefix(f.Command, "kubectl delete ") }

// plain matches what a shell reads as it is.
var plain = regexp.MustCompile(`^[A-Za-z0-9._/@:-]*$`)

// quoted is a text as one word for a shell. Who writes an object chooses its spec.clusterName, which may have any characters.
func quoted(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// filled puts the names of an object into a command or text.
func filled(text string, object Reference) string {
	cluster := object.Cluster
	if object.Kind == "Cluster" {
		cluster = object.Name
	}
	if object.Namespace == "" {
		text = strings.ReplaceAll(text, " --namespace {namespace}", "")
	}
	return strings.NewReplacer("{namespace}", object.Namespace, "{cluster}", cluster, "{name}", object.Name).Replace(text)
}

// Text is the answer as a paragraph, and the command on a line of its own.
func (a Answer) Text(now time.Time) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s in namespace %s ", a.Object, a.Object.Namespace)
	if a.Object.Namespace == "" {
		out.Reset()
		fmt.Fprintf(&out, "%s ", a.Object)
	}
	if a.Finding == nil {
		out.WriteString("is well: it waits for nothing.")
	} else {
		a.Finding.text(&out, a.Object, now)
	}
	for _, note := range a.Notes {
		out.WriteString(" " + sentence(note))
	}
	out.WriteString("\n")
	if a.Finding != nil && a.Finding.Command != "" && a.Finding.Command != a.question() {
		fmt.Fprintf(&out, "\n  %s\n", escape.Line(a.Finding.Command))
	}
	return out.String()
}

// AddFlags adds flags to the command that helps, such as the context of the kubeconfig: without them it would be about another
// cluster. Each is a word.
func (a *Answer) AddFlags(flags []string) {
	if a.Finding == nil || a.Finding.Command == "" || a.Finding.Command == a.question() {
		return
	}
	for _, flag := range flags {
		a.Finding.Command += " " + quoted(flag)
	}
}

// question is the command that has this answer: it helps nobody.
func (a Answer) question() string {
	return command("kubectl drover why "+strings.ToLower(a.Object.Kind)+"/{name} --namespace {namespace}", a.Object)
}

func (f *Finding) text(out *strings.Builder, subject Reference, now time.Time) {
	fmt.Fprintf(out, "%s: ", f.waiting(now))
	if f.Condition.Type == "" && f.Object != subject {
		fmt.Fprintf(out, "%s: ", f.Object)
	}
	fmt.Fprintf(out, "%s.", escape.Line(f.Meaning))
	if f.Condition.Type != "" {
		which := "Its condition " + f.Condition.Type
		if f.Object != subject {
			which = fmt.Sprintf("The condition %s of %s", f.Condition.Type, f.Object)
		}
		out.WriteString(" " + sentence(f.condition(which)))
	}
	for _, fact := range f.Facts {
		out.WriteString(" " + sentence(fact))
	}
	if f.Others > 0 {
		fmt.Fprintf(out, " %s.", others(f.Others))
	}
	out.WriteString(" " + f.act())
}

// condition is what a condition has, after the words that name it. A kind of another project may permit any text in each of
// its fields.
func (f *Finding) condition(which string) string {
	text := fmt.Sprintf("%s is %s (%s)", which, f.Condition.Status, f.Condition.Reason)
	if message := escape.Line(f.Condition.Message); message != "" {
		text += ": " + message
	}
	return escape.Line(text)
}

// needsAction reports whether there is something to do but to wait for Drover.
func (f *Finding) needsAction() bool {
	return f.Actor != reason.Drover && f.Actor != reason.Nobody
}

// waiting is the state in words, with since when.
func (f *Finding) waiting(now time.Time) string {
	progress := !f.needsAction()
	since := f.Condition.LastTransitionTime
	switch {
	case since.IsZero() && progress:
		return "is in progress"
	case since.IsZero():
		return "is not well"
	}
	state := "not been well"
	if progress {
		state = "been in progress"
	}
	return fmt.Sprintf("has %s for %s", state, duration.HumanDuration(max(now.Sub(since.Time), 0)))
}

func others(n int) string {
	if n == 1 {
		return "One more object waits"
	}
	return fmt.Sprintf("%d more objects wait", n)
}

// act is who must act, and how.
func (f *Finding) act() string {
	switch {
	case f.Actor == reason.Nobody:
		return "Nobody has to act."
	case f.Actor == reason.Drover && f.Help == "":
		return "Drover continues by itself."
	case f.Actor == reason.Drover:
		return sentence("Drover continues by itself; " + f.Help)
	}
	who := string(f.Actor)
	return sentence(strings.ToUpper(who[:1]) + who[1:] + " must act: " + f.Help)
}

func sentence(text string) string { return strings.TrimSuffix(escape.Line(text), ".") + "." }
