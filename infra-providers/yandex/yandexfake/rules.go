// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandexfake

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
)

// rule is what the API requires of a field: of a number its value, of a text its pattern and length, of a list or map its size.
type rule struct {
	Required bool   `json:"required,omitempty"`
	Pattern  string `json:"pattern,omitempty"`
	Length   string `json:"length,omitempty"`
	Value    string `json:"value,omitempty"`
	Size     string `json:"size,omitempty"`
	// KeyPattern and KeyLength are those of the keys of a map; Pattern and Length are those of its values.
	KeyPattern string `json:"keyPattern,omitempty"`
	KeyLength  string `json:"keyLength,omitempty"`
}

// rulesFile has the rules of the fields of compute/v1, by message and field. They are in the comments of the generated types: the
// descriptors of the Go module have none of their options. A test compares the file with the module.
//
//go:embed rules.json
var rulesFile []byte

var rules = sync.OnceValue(func() (all map[string]map[string]rule) {
	if err := json.Unmarshal(rulesFile, &all); err != nil {
		panic(err) // the file is compiled in
	}
	return all
})

// violations returns how a message violates the rules of its fields.
func violations(message protoreflect.Message) (found []string) {
	of := rules()[reflect.TypeOf(message.Interface()).Elem().Name()]
	fields := message.Descriptor().Fields()
	for n := range fields.Len() {
		field := fields.Get(n)
		for _, violation := range fieldViolations(message, field, of[string(field.Name())]) {
			found = append(found, string(field.Name())+": "+violation)
		}
	}
	oneofs := message.Descriptor().Oneofs()
	for n := range oneofs.Len() {
		if oneof := oneofs.Get(n); of[string(oneof.Name())].Required && message.WhichOneof(oneof) == nil {
			found = append(found, string(oneof.Name())+": exactly one must be set")
		}
	}
	return found
}

func fieldViolations(message protoreflect.Message, field protoreflect.FieldDescriptor, of rule) (found []string) {
	if !message.Has(field) {
		if of.Required {
			return []string{"it is required"}
		}
		return nil
	}
	value := message.Get(field)
	switch {
	case field.IsMap():
		found = append(found, outside(of.Size, int64(value.Map().Len()), "size")...)
		value.Map().Range(func(key protoreflect.MapKey, item protoreflect.Value) bool {
			found = append(found, textViolations(key.String(), of.KeyPattern, of.KeyLength)...)
			found = append(found, textViolations(item.String(), of.Pattern, of.Length)...)
			return true
		})
	case field.IsList():
		found = append(found, outside(of.Size, int64(value.List().Len()), "size")...)
		for n := range value.List().Len() {
			found = append(found, valueViolations(field, value.List().Get(n), of)...)
		}
	default:
		found = valueViolations(field, value, of)
	}
	return found
}

func valueViolations(field protoreflect.FieldDescriptor, value protoreflect.Value, of rule) []string {
	switch field.Kind() {
	case protoreflect.StringKind:
		return textViolations(value.String(), of.Pattern, of.Length)
	case protoreflect.Int64Kind, protoreflect.Int32Kind:
		return outside(of.Value, value.Int(), "value")
	case protoreflect.MessageKind:
		if span, ok := value.Message().Interface().(*durationpb.Duration); ok {
			return outsideSpan(of.Value, span.AsDuration())
		}
		return violations(value.Message())
	default:
		return nil
	}
}

func textViolations(text, pattern, length string) (found []string) {
	// An empty minimum of a repetition is written as {,19}, which Go does not know.
	if pattern != "" && !regexp.MustCompile("^(?:"+strings.ReplaceAll(pattern, "{,", "{0,")+")$").MatchString(text) {
		found = append(found, fmt.Sprintf("%q does not match %s", text, pattern))
	}
	return append(found, outside(length, int64(utf8.RuneCountInString(text)), "length")...)
}

// outside reports a number that a rule does not permit: 1-63, <=50, 7 or 0,1,2.
func outside(rule string, number int64, what string) []string {
	permitted := rule == ""
	for alternative := range strings.SplitSeq(rule, ",") {
		permitted = permitted || within(strings.TrimSpace(alternative), number)
	}
	if permitted {
		return nil
	}
	return []string{fmt.Sprintf("the %s %d is not in %s", what, number, rule)}
}

func within(rule string, number int64) bool {
	parse := func(text string) int64 {
		parsed, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			panic(fmt.Sprintf("the rule %q is not known", rule))
		}
		return parsed
	}
	if limit, ok := strings.CutPrefix(rule, "<="); ok {
		return number <= parse(limit)
	}
	if rule == "" {
		return false
	}
	if low, high, ok := strings.Cut(rule, "-"); ok {
		return number >= parse(low) && number <= parse(high)
	}
	return number == parse(rule)
}

// outsideSpan reports a duration that a rule such as 1s-24h does not permit.
func outsideSpan(rule string, span time.Duration) []string {
	low, high, ok := strings.Cut(rule, "-")
	if !ok {
		return nil
	}
	least, err := time.ParseDuration(low)
	most, failed := time.ParseDuration(high)
	if err != nil || failed != nil || span >= least && span <= most {
		return nil
	}
	return []string{fmt.Sprintf("the duration %s is not in %s", span, rule)}
}
