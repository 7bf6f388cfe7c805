// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package parser

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Clusters that a document can be about.
const (
	Management = "management"
	Workload   = "workload"
)

// Verbs of a document that is done.
const (
	// Apply creates an object, or merges the document into it.
	Apply = "apply"
	// Patch merges into every object that the document selects; there must be one.
	Patch = "patch"
	// PatchOne merges into the first by name of the objects that the document selects.
	PatchOne = "patch-one"
	// Delete deletes every object that the document selects; there must be one.
	Delete = "delete"
	// DeleteOne deletes the first by name of the objects that the document selects.
	DeleteOne = "delete-one"
	// Refuse expects the API server to refuse to apply, with words that match.
	Refuse = "refuse"
	// Kubeconfig writes the Secret of a Cluster with fresh credentials.
	Kubeconfig = "kubeconfig"
	// Move changes the address of the workload cluster.
	Move = "move"
	// Disconnect, Hang and Reconnect are about the way to the workload cluster.
	Disconnect = "disconnect"
	Hang       = "hang"
	Reconnect  = "reconnect"
	// Kill, Stop and Start are about one of the managers.
	Kill  = "kill"
	Stop  = "stop"
	Start = "start"
)

// actions are the verbs that need no object.
var actions = []string{Kubeconfig, Move, Disconnect, Hang, Reconnect, Kill, Stop, Start}

var verbs = append([]string{Apply, Patch, PatchOne, Delete, DeleteOne, Refuse}, actions...)

// keywords are the keys of a document that are ours; all others are the object's.
var keywords = []string{"do", "in", "count", "contains", "write", "name", "group", "why", "answer"}

// Document is something to be done, or an object to be found.
type Document struct {
	// Do is the verb.
	Do string
	// In is the cluster that the object is in, or that a kubeconfig leads to.
	In string
	// Count is how many objects there are to be like this; nil is at least one.
	Count *int
	// Contains is the text that a refusal must contain.
	Contains string
	// Write names the subresource that is written, as its controller would.
	Write string
	// Name and Group are what an act is about.
	Name, Group string
	// Why is the object that kubectl drover is asked about, as KIND/NAME, and Answer the file of the scenario with the answer.
	Why, Answer string
	// Object is partial; nil for an act or a question.
	Object *unstructured.Unstructured
}

func newDocument(object map[string]any) (Document, error) {
	d := Document{Do: Apply, In: Management}
	if object["do"] == Kubeconfig {
		d.In = Workload
	}
	for _, word := range keywords {
		value, ok := object[word]
		if !ok {
			continue
		}
		if err := d.set(word, value); err != nil {
			return d, err
		}
		delete(object, word)
	}
	if !slices.Contains(verbs, d.Do) {
		return d, fmt.Errorf("do: %q is none of %v", d.Do, verbs)
	}
	if d.In != Management && d.In != Workload {
		return d, fmt.Errorf("in: %q is neither %q nor %q", d.In, Management, Workload)
	}
	if (d.Why == "") != (d.Answer == "") {
		return d, errors.New("why and answer belong together")
	}
	if d.Why != "" {
		if len(object) > 0 {
			return d, errors.New("why takes no object")
		}
		return d, nil
	}
	if slices.Contains(actions, d.Do) {
		if len(object) > 0 {
			return d, fmt.Errorf("do: %s takes no object", d.Do)
		}
		return d, nil
	}
	d.Object = &unstructured.Unstructured{Object: object}
	if d.Object.GetAPIVersion() == "" || d.Object.GetKind() == "" {
		return d, fmt.Errorf("an object has an apiVersion and a kind: %v", object)
	}
	return d, nil
}

func (d *Document) set(word string, value any) error {
	if number, ok := value.(float64); ok && word == "count" {
		count := int(number)
		d.Count = &count
		return nil
	}
	text, ok := value.(string)
	if !ok || word == "count" {
		return fmt.Errorf("%s: %v is not of its kind", word, value)
	}
	switch word {
	case "do":
		d.Do = text
	case "in":
		d.In = text
	case "contains":
		d.Contains = text
	case "write":
		d.Write = text
	case "name":
		d.Name = text
	case "group":
		d.Group = text
	case "why":
		d.Why = text
	case "answer":
		d.Answer = text
	}
	return nil
}
