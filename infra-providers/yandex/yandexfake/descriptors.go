// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandexfake

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/yandex-cloud/go-genproto/yandex/cloud"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
)

// violations returns how a message violates the rules that the descriptors of the API have for its fields.
func violations(message protoreflect.Message) (found []string) {
	fields := message.Descriptor().Fields()
	for n := range fields.Len() {
		field := fields.Get(n)
		for _, violation := range fieldViolations(message, field) {
			found = append(found, string(field.Name())+": "+violation)
		}
	}
	oneofs := message.Descriptor().Oneofs()
	for n := range oneofs.Len() {
		oneof := oneofs.Get(n)
		if exactly, _ := proto.GetExtension(oneof.Options(), cloud.E_ExactlyOne).(bool); exactly && message.WhichOneof(oneof) == nil {
			found = append(found, string(oneof.Name())+": exactly one must be set")
		}
	}
	return found
}

func fieldViolations(message protoreflect.Message, field protoreflect.FieldDescriptor) (found []string) {
	options := field.Options()
	rule := func(of protoreflect.ExtensionType) string {
		text, _ := proto.GetExtension(options, of).(string)
		return text
	}
	if !message.Has(field) {
		if required, _ := proto.GetExtension(options, cloud.E_Required).(bool); required {
			return []string{"it is required"}
		}
		return nil
	}
	value := message.Get(field)
	switch {
	case field.IsMap():
		found = append(found, outside(rule(cloud.E_Size), int64(value.Map().Len()), "size")...)
		spec, _ := proto.GetExtension(options, cloud.E_MapKey).(*cloud.MapKeySpec)
		value.Map().Range(func(key protoreflect.MapKey, item protoreflect.Value) bool {
			found = append(found, textViolations(key.String(), spec.GetPattern(), spec.GetLength())...)
			if field.MapValue().Kind() == protoreflect.StringKind {
				found = append(found, textViolations(item.String(), rule(cloud.E_Pattern), rule(cloud.E_Length))...)
			}
			return true
		})
	case field.IsList():
		found = append(found, outside(rule(cloud.E_Size), int64(value.List().Len()), "size")...)
		for n := range value.List().Len() {
			found = append(found, valueViolations(field, value.List().Get(n), rule)...)
		}
	default:
		found = valueViolations(field, value, rule)
	}
	return found
}

func valueViolations(field protoreflect.FieldDescriptor, value protoreflect.Value, rule func(protoreflect.ExtensionType) string) []string {
	switch field.Kind() {
	case protoreflect.StringKind:
		return textViolations(value.String(), rule(cloud.E_Pattern), rule(cloud.E_Length))
	case protoreflect.Int64Kind, protoreflect.Int32Kind:
		return outside(rule(cloud.E_Value), value.Int(), "value")
	case protoreflect.MessageKind:
		if span, ok := value.Message().Interface().(*durationpb.Duration); ok {
			return outsideSpan(rule(cloud.E_Value), span.AsDuration())
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

// outside reports a number that a rule does not permit: 1-63, <=50, >0, 7 or 0,1,2.
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
			panic(fmt.Sprintf("the descriptors have the rule %q", rule))
		}
		return parsed
	}
	for prefix, holds := range map[string]func(limit int64) bool{
		"<=": func(limit int64) bool { return number <= limit },
		">=": func(limit int64) bool { return number >= limit },
	} {
		if text, ok := strings.CutPrefix(rule, prefix); ok {
			return holds(parse(text))
		}
	}
	switch {
	case rule == "":
		return false
	case rule[0] == '<':
		return number < parse(rule[1:])
	case rule[0] == '>':
		return number > parse(rule[1:])
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
