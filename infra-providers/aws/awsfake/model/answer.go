// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// element is an XML element of an answer.
type element struct {
	XMLName  xml.Name
	Text     string    `xml:",chardata"`
	Children []element `xml:",any"`
}

// CheckAnswer checks the XML of an answer: every element has to be in the description, at its
// place, with a value of its type.
func (m *Model) CheckAnswer(action string, answer []byte) error {
	operation, ok := m.Operations[action]
	if !ok {
		return fmt.Errorf("unknown action %q", action)
	}
	root := element{}
	if err := xml.Unmarshal(answer, &root); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if root.XMLName.Local != action+"Response" {
		return fmt.Errorf("the answer is a %q", root.XMLName.Local)
	}
	children := root.Children[:0]
	for _, child := range root.Children {
		if child.XMLName.Local != "requestId" {
			children = append(children, child)
		}
	}
	root.Children = children
	if operation.Output.Shape == "" {
		return nil
	}
	return m.checkElement(operation.Output, action, root)
}

func (m *Model) checkElement(ref Reference, path string, at element) error {
	shape := m.Shapes[ref.Shape]
	switch shape.Type {
	case "structure":
		known := map[string]Reference{}
		for name, member := range shape.Members {
			if member.LocationName != "" {
				name = member.LocationName
			}
			known[name] = member
		}
		for _, child := range at.Children {
			member, ok := known[child.XMLName.Local]
			if !ok {
				return fmt.Errorf("%s has no element %q", path, child.XMLName.Local)
			}
			if err := m.checkElement(member, join(path, child.XMLName.Local), child); err != nil {
				return err
			}
		}
		return nil
	case "list":
		for _, child := range at.Children {
			if want := shape.Member.LocationName; child.XMLName.Local != want {
				return fmt.Errorf("the items of %s are called %q, not %q", path, want, child.XMLName.Local)
			}
			if err := m.checkElement(shape.Member, path, child); err != nil {
				return err
			}
		}
		return nil
	default:
		if len(at.Children) > 0 {
			return fmt.Errorf("%s is a %s", path, shape.Type)
		}
		return checkValue(shape, path, strings.TrimSpace(at.Text))
	}
}
