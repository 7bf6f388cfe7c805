// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandexfake

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/yandex-cloud/go-genproto/yandex/cloud/compute/v1"
	"google.golang.org/protobuf/types/known/durationpb"
)

func validInstance() *compute.CreateInstanceRequest {
	return &compute.CreateInstanceRequest{
		FolderId: Folder, Name: "worker-1", ZoneId: ZoneA, PlatformId: "standard-v3", Labels: map[string]string{"a": "b"},
		ResourcesSpec:         &compute.ResourcesSpec{Cores: 2, Memory: 4 << 30},
		BootDiskSpec:          &compute.AttachedDiskSpec{Disk: &compute.AttachedDiskSpec_DiskId{DiskId: "fhd1"}},
		NetworkInterfaceSpecs: []*compute.NetworkInterfaceSpec{{SubnetId: SubnetA}},
	}
}

// TestRequestsAreChecked: each kind of rule is applied.
func TestRequestsAreChecked(t *testing.T) {
	t.Parallel()
	if found := violations(validInstance().ProtoReflect()); len(found) > 0 {
		t.Fatalf("a valid request has the violations %q", found)
	}
	for name, test := range map[string]struct {
		change func(*compute.CreateInstanceRequest)
		want   string
	}{
		"a missing field":      {func(r *compute.CreateInstanceRequest) { r.ZoneId = "" }, "zone_id: it is required"},
		"a missing message":    {func(r *compute.CreateInstanceRequest) { r.BootDiskSpec = nil }, "boot_disk_spec: it is required"},
		"a pattern":            {func(r *compute.CreateInstanceRequest) { r.Name = "Worker" }, "name: "},
		"a length":             {func(r *compute.CreateInstanceRequest) { r.FolderId = strings.Repeat("a", 51) }, "folder_id: the length 51"},
		"a value of a list":    {func(r *compute.CreateInstanceRequest) { r.ResourcesSpec.Cores = 3 }, "cores: the value 3"},
		"a maximum":            {func(r *compute.CreateInstanceRequest) { r.ResourcesSpec.Memory = 1 << 50 }, "memory: the value"},
		"a field of a list":    {func(r *compute.CreateInstanceRequest) { r.NetworkInterfaceSpecs[0].SubnetId = "" }, "subnet_id: it is required"},
		"a choice":             {func(r *compute.CreateInstanceRequest) { r.BootDiskSpec.Disk = nil }, "disk: exactly one"},
		"the key of a label":   {func(r *compute.CreateInstanceRequest) { r.Labels = map[string]string{"A": "b"} }, "labels: "},
		"the value of a label": {func(r *compute.CreateInstanceRequest) { r.Labels = map[string]string{"a": "B"} }, "labels: "},
		"a duration":           {func(r *compute.CreateInstanceRequest) { r.MaintenanceGracePeriod = durationpb.New(48 * time.Hour) }, "the duration"},
		"the size of a list":   {func(r *compute.CreateInstanceRequest) { r.SecondaryDiskSpecs = make([]*compute.AttachedDiskSpec, 4) }, "the size 4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := validInstance()
			test.change(request)
			if found := strings.Join(violations(request.ProtoReflect()), "; "); !strings.Contains(found, test.want) {
				t.Errorf("got %q, want %q", found, test.want)
			}
		})
	}
}

var update = flag.Bool("update", false, "write rules.json")

// TestRulesAreThoseOfTheModule reads the comments of the generated types.
func TestRulesAreThoseOfTheModule(t *testing.T) {
	t.Parallel()
	output, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "github.com/yandex-cloud/go-genproto/yandex/cloud/compute/v1").Output()
	if err != nil {
		t.Fatal(err)
	}
	content, err := json.MarshalIndent(readRules(t, strings.TrimSpace(string(output))), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	content = append(content, '\n')
	if *update {
		if err := os.WriteFile("rules.json", content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(content, rulesFile) && !*update {
		t.Error("rules.json differs from the comments of the module: run this test with -update")
	}
}

// readRules returns the rules in the comments of the messages of a package that have some.
func readRules(t *testing.T, dir string) map[string]map[string]rule {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_service.pb.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no generated types in %s: %v", dir, err)
	}
	all := map[string]map[string]rule{}
	for _, file := range append(files, filepath.Join(dir, "instance.pb.go"), filepath.Join(dir, "disk.pb.go")) {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			spec, ok := node.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if message, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range message.Fields.List {
					addRule(all, spec.Name.Name, field)
				}
			}
			return true
		})
	}
	return all
}

var fieldName = regexp.MustCompile(`protobuf(?:_oneof)?:"(?:[^"]*name=)?([a-z0-9_]+)`)

// addRule adds the rule of a field. One of a choice is in a struct of its own, whose name begins with that of the message.
func addRule(all map[string]map[string]rule, message string, field *ast.Field) {
	if field.Tag == nil || field.Doc == nil {
		return
	}
	name := fieldName.FindStringSubmatch(field.Tag.Value)
	of := parseRule(strings.Join(strings.Fields(field.Doc.Text()), " "))
	if name == nil || reflect.ValueOf(of).IsZero() {
		return
	}
	if strings.Contains(field.Tag.Value, ",oneof") {
		message = message[:strings.LastIndex(strings.TrimSuffix(message, "_"), "_")]
	}
	if all[message] == nil {
		all[message] = map[string]rule{}
	}
	all[message][name[1]] = of
}

var (
	limits = "(less than or equal to ([0-9]+)|between ([0-9]+) and ([0-9]+)|exactly ([0-9]+))"

	numberOfElements = regexp.MustCompile("The number of elements must be " + limits)
	lengthOfKeys     = regexp.MustCompile("The length of each map key must be " + limits)
	lengthOfValues   = regexp.MustCompile("The length of each map value must be " + limits)
	lengthOfText     = regexp.MustCompile("The length must be " + limits)
	valueOfNumber    = regexp.MustCompile("The value must be " + limits)
	valueOfSeveral   = regexp.MustCompile("The value must satisfy: ([0-9a-z,-]+)")
	patternOfKeys    = regexp.MustCompile("Each map key must match the regular expression: `([^`]*)`")
	patternOfValues  = regexp.MustCompile("Each map value must match the regular expression: `([^`]*)`")
	patternOfText    = regexp.MustCompile("The value must match the regular expression: `([^`]*)`")
)

func parseRule(comment string) rule {
	number := func(pattern *regexp.Regexp) string {
		found := pattern.FindStringSubmatch(comment)
		switch {
		case found == nil:
			return ""
		case found[2] != "":
			return "<=" + found[2]
		case found[3] != "":
			return found[3] + "-" + found[4]
		default:
			return found[5]
		}
	}
	text := func(pattern *regexp.Regexp) string {
		if found := pattern.FindStringSubmatch(comment); found != nil {
			return found[1]
		}
		return ""
	}
	return rule{
		Required: strings.Contains(comment, "This field is required.") || strings.Contains(comment, "Only one field must by specified."),
		Pattern:  cmp.Or(text(patternOfText), text(patternOfValues)), Length: cmp.Or(number(lengthOfText), number(lengthOfValues)),
		Value: cmp.Or(number(valueOfNumber), text(valueOfSeveral)), Size: number(numberOfElements),
		KeyPattern: text(patternOfKeys), KeyLength: number(lengthOfKeys),
	}
}
