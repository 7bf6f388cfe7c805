// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package model checks requests to ECS against the metadata that Alibaba Cloud publishes, so that a fake cannot accept what ECS
// does not know: names, types, required parameters, and values where there is a list of them. It has the operations that the
// driver uses; reduce/main.go documents the source.
//
// For some structures the metadata has no members. There the request types of the SDK decide.
package model

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	ecs "github.com/alibabacloud-go/ecs-20140526/v7/client"
)

//go:embed operations.json
var content []byte

// Model has the parameters of operations.
type Model struct {
	Operations map[string]map[string]Parameter `json:"operations"`
}

// Parameter is one parameter, or a member of a structure.
type Parameter struct {
	Type     string               `json:"type"`
	Required bool                 `json:"required"`
	Values   []string             `json:"values"`
	Members  map[string]Parameter `json:"members"`
}

// Error is a violation of the metadata, under the code that ECS gives it.
type Error struct {
	Code string
	Name string
	What string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s: %s", e.Code, e.Name, e.What) }

// Load reads the metadata.
func Load() (*Model, error) {
	m := &Model{}
	if err := json.Unmarshal(content, m); err != nil {
		return nil, err
	}
	addMembers(m.Operations["RunInstances"], reflect.TypeFor[ecs.RunInstancesRequest]())
	return m, nil
}

// addMembers adds the members of structures that the metadata does not have, by the names that the SDK gives them.
func addMembers(parameters map[string]Parameter, request reflect.Type) {
	for field := range request.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known, ok := parameters[name]
		if !ok || known.Type != "Struct" || len(known.Members) > 0 || field.Type.Kind() != reflect.Pointer {
			continue
		}
		for member := range field.Type.Elem().Fields() {
			name, _, _ := strings.Cut(member.Tag.Get("json"), ",")
			if full := field.Name + "." + name; parameters[full].Type == "" {
				parameters[full] = Parameter{Type: typeOf(member.Type)}
			}
		}
	}
}

// typeOf returns how the metadata calls a type of the SDK.
func typeOf(of reflect.Type) string {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch of.Kind() {
	case reflect.Int32, reflect.Int64:
		return "Long"
	case reflect.Bool:
		return "Boolean"
	case reflect.Float32, reflect.Float64:
		return "Float"
	default:
		return "String"
	}
}

// CheckRequest checks the parameters of a request.
func (m *Model) CheckRequest(action string, parameters url.Values) error {
	operation, ok := m.Operations[action]
	if !ok {
		return &Error{"InvalidAction.NotFound", action, "the specified action is not found"}
	}
	lists := map[string]int{}
	for name, values := range parameters {
		if len(values) != 1 {
			return &Error{"InvalidParameter", name, "it is given more than once"}
		}
		if err := check(operation, name, values[0], lists); err != nil {
			return err
		}
	}
	for name, parameter := range operation {
		if parameter.Required && !parameters.Has(name) && lists[name] == 0 {
			return &Error{"MissingParameter", name, "it is required"}
		}
		for n := 1; n <= lists[name]; n++ {
			if err := checkItem(parameter, name+"."+strconv.Itoa(n), parameters); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkItem requires an item of a list with its required members.
func checkItem(list Parameter, prefix string, parameters url.Values) error {
	if len(list.Members) == 0 && !parameters.Has(prefix) {
		return &Error{"InvalidParameter", prefix, "the numbers of a list begin with 1 and have no gaps"}
	}
	any := len(list.Members) == 0
	for name, member := range list.Members {
		has := parameters.Has(prefix + "." + name)
		any = any || has
		if member.Required && !has {
			return &Error{"MissingParameter", prefix + "." + name, "it is required"}
		}
	}
	if !any {
		return &Error{"InvalidParameter", prefix, "the numbers of a list begin with 1 and have no gaps"}
	}
	return nil
}

// check checks one parameter, and counts the items of lists.
func check(operation map[string]Parameter, name, value string, lists map[string]int) error {
	if known, ok := operation[name]; ok {
		return checkValue(known, name, value)
	}
	list, rest, _ := strings.Cut(name, ".")
	known, ok := operation[list]
	number, member, nested := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	if !ok || known.Type != "RepeatList" || err != nil || n < 1 {
		return &Error{"InvalidParameter", name, "it is not known"}
	}
	lists[list] = max(lists[list], n)
	switch {
	case nested != (len(known.Members) > 0):
		return &Error{"InvalidParameter", name, "it is not known"}
	case !nested:
		return nil
	}
	of, ok := known.Members[member]
	if !ok {
		return &Error{"InvalidParameter", name, "it is not known"}
	}
	return checkValue(of, name, value)
}

func checkValue(of Parameter, name, value string) error {
	var err error
	switch of.Type {
	case "Integer", "Long":
		_, err = strconv.ParseInt(value, 10, 64)
	case "Float":
		_, err = strconv.ParseFloat(value, 64)
	case "Boolean":
		if value != "true" && value != "false" {
			err = fmt.Errorf("%q is neither true nor false", value)
		}
	case "String":
		if len(of.Values) > 0 && !slices.Contains(of.Values, value) {
			err = fmt.Errorf("%q is not one of the values there are", value)
		}
	default:
		err = fmt.Errorf("a %s has no value of its own", of.Type)
	}
	if err != nil {
		return &Error{"InvalidParameter", name, err.Error()}
	}
	return nil
}
