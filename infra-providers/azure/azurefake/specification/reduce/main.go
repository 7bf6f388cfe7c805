// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command reduce writes what Azure's published specification says about the types that the azure driver sends and reads: their fields
// with the types of these, which are required, which only answers have, and the values of enumerations. The source are the
// modules of Azure's SDK, which Microsoft generates from the specification, and which repeat it in their comments. Their
// license is MIT.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// modules are the SDK's, by the names that types have before the dot.
var modules = map[string]string{
	"compute": "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8",
	"network": "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9",
}

// roots are the bodies of requests and answers.
var roots = []string{
	"compute.VirtualMachine", "compute.VirtualMachineUpdate", "compute.VirtualMachineListResult", "compute.RetrieveBootDiagnosticsDataResult",
	"compute.Disk", "compute.DiskUpdate", "compute.DiskList", "compute.Image", "compute.GalleryImage", "compute.GalleryImageVersion",
	"compute.GalleryImageVersionList", "compute.CommunityGalleryImage", "compute.VirtualMachineImage", "compute.VirtualMachineImageResource",
	"compute.ResourceSKUsResult", "network.Interface", "network.InterfaceListResult", "network.PublicIPAddress",
	"network.PublicIPAddressListResult", "network.TagsObject",
}

// unfollowed are types of other resources: only their fields are kept, without what these have. With them all of the network
// would follow.
var unfollowed = []string{
	"network.Subnet", "network.SecurityGroup", "network.ApplicationSecurityGroup", "network.BackendAddressPool", "network.PrivateEndpoint",
	"network.InboundNatRule", "network.ApplicationGatewayBackendAddressPool", "network.VirtualNetworkTap", "network.PrivateLinkService",
	"network.InterfaceTapConfiguration", "network.NatGateway", "compute.VirtualMachineExtension",
}

// openEnums are enumerations whose values are no longer updated: sizes come by another API.
var openEnums = []string{"compute.VirtualMachineSizeTypes"}

// field is a field of a type. Type is a type of JSON, or the name of another type, or of an enumeration.
type field struct {
	Type     string `json:"type"`
	List     bool   `json:"list,omitempty"`
	Map      bool   `json:"map,omitempty"`
	Required bool   `json:"required,omitempty"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "reduce:", err)
		os.Exit(1)
	}
}

func run(to string) error {
	types, enums, sources := map[string]map[string]field{}, map[string][]string{}, []string{}
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		source, err := read(name, modules[name], types, enums)
		if err != nil {
			return err
		}
		sources = append(sources, source)
	}
	kept, keptEnums := map[string]map[string]field{}, map[string][]string{}
	var follow func(name string)
	follow = func(name string) {
		if enums[name] != nil && !slices.Contains(openEnums, name) {
			keptEnums[name] = enums[name]
		}
		if types[name] == nil || kept[name] != nil {
			return
		}
		kept[name] = maps.Clone(types[name])
		for key, of := range kept[name] {
			if slices.Contains(unfollowed, name) && types[of.Type] != nil {
				of.Type, of.List, of.Map = "any", false, false
				kept[name][key] = of
			}
			follow(of.Type)
		}
	}
	for _, root := range roots {
		if types[root] == nil {
			return fmt.Errorf("there is no type %s", root)
		}
		follow(root)
	}
	out := &bytes.Buffer{}
	list, _ := json.Marshal(sources) // it is text
	fmt.Fprintf(out, "{\n\"sources\": %s,\n\"license\": \"MIT\",\n", list)
	section(out, "types", kept, ",\n")
	section(out, "enums", keptEnums, "\n}\n")
	return os.WriteFile(to, out.Bytes(), 0o644) //nolint:gosec // it is source
}

// read adds the types and enumerations of a module.
func read(name, module string, types map[string]map[string]field, enums map[string][]string) (source string, err error) {
	out, err := exec.Command("go", "list", "-m", "-json", module).Output() //nolint:gosec // a constant
	if err != nil {
		return "", fmt.Errorf("finding %s: %w", module, err)
	}
	found := struct{ Dir, Version string }{}
	if err := json.Unmarshal(out, &found); err != nil {
		return "", err
	}
	names, err := readNames(filepath.Join(found.Dir, "models_serde.go"))
	if err != nil {
		return "", err
	}
	for _, file := range []string{"models.go", "constants.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(found.Dir, file), nil, parser.ParseComments)
		if err != nil {
			return "", err
		}
		for _, declared := range parsed.Decls {
			group, ok := declared.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range group.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if model, ok := spec.Type.(*ast.StructType); ok {
						types[name+"."+spec.Name.Name] = fieldsOf(name, model, names[spec.Name.Name])
					}
				case *ast.ValueSpec:
					addValue(name, spec, enums)
				}
			}
		}
	}
	return module + "@" + found.Version, nil
}

// populated is how a model writes a field.
var (
	marshalled = regexp.MustCompile(`^func \(\w+ (\w+)\) MarshalJSON\(`)
	populated  = regexp.MustCompile(`^\tpopulate\w*(?:\[[^]]*\])?\(objectMap, "([^"]+)", \w+\.(\w+)[,)]`)
)

// readNames returns the names that the fields of types have in JSON.
func readNames(file string) (map[string]map[string]string, error) {
	content, err := os.ReadFile(file) //nolint:gosec // of the module cache
	if err != nil {
		return nil, err
	}
	names, current := map[string]map[string]string{}, ""
	for line := range strings.Lines(string(content)) {
		if parts := marshalled.FindStringSubmatch(line); parts != nil {
			current = parts[1]
			names[current] = map[string]string{}
		}
		if parts := populated.FindStringSubmatch(line); parts != nil {
			names[current][parts[2]] = parts[1]
		}
	}
	return names, nil
}

func fieldsOf(module string, model *ast.StructType, names map[string]string) map[string]field {
	fields := map[string]field{}
	for _, declared := range model.Fields.List {
		comment := strings.TrimSpace(declared.Doc.Text())
		for _, name := range declared.Names {
			inJSON, ok := names[name.Name]
			if !ok {
				continue
			}
			of := toField(module, declared.Type)
			of.Required, of.ReadOnly = strings.HasPrefix(comment, "REQUIRED;"), strings.HasPrefix(comment, "READ-ONLY;")
			fields[inJSON] = of
		}
	}
	return fields
}

// toField returns the type of a field.
func toField(module string, from ast.Expr) field {
	switch from := from.(type) {
	case *ast.StarExpr:
		return toField(module, from.X)
	case *ast.ArrayType:
		if of := toField(module, from.Elt); !of.List && !of.Map && of.Type != "byte" {
			return field{Type: of.Type, List: true}
		}
	case *ast.MapType:
		if of := toField(module, from.Value); !of.List && !of.Map {
			return field{Type: of.Type, Map: true}
		}
	case *ast.SelectorExpr:
		return field{Type: "string"} // a time
	case *ast.Ident:
		return field{Type: toType(module, from.Name)}
	}
	return field{Type: "any"}
}

// toType returns the type of JSON, or the name of a type or an enumeration, for a type of Go.
func toType(module, name string) string {
	switch {
	case name == "string", name == "byte":
		return name
	case name == "bool":
		return "boolean"
	case strings.HasPrefix(name, "int"):
		return "integer"
	case strings.HasPrefix(name, "float"):
		return "number"
	case name == "any", strings.HasSuffix(name, "Classification"):
		return "any"
	default:
		return module + "." + name
	}
}

// addValue adds a value of an enumeration.
func addValue(module string, spec *ast.ValueSpec, enums map[string][]string) {
	of, ok := spec.Type.(*ast.Ident)
	if !ok || len(spec.Values) != 1 {
		return
	}
	literal, ok := spec.Values[0].(*ast.BasicLit)
	if !ok {
		return
	}
	if value, err := strconv.Unquote(literal.Value); err == nil {
		enums[module+"."+of.Name] = append(enums[module+"."+of.Name], value)
	}
}

// section puts each entry on a line of its own, so that a newer version can be compared.
func section[V any](out *bytes.Buffer, name string, entries map[string]V, end string) {
	fmt.Fprintf(out, "%q: {\n", name)
	for i, key := range slices.Sorted(maps.Keys(entries)) {
		if i > 0 {
			out.WriteString(",\n")
		}
		line, _ := json.Marshal(entries[key]) // it has texts only
		fmt.Fprintf(out, "%q: %s", key, line)
	}
	out.WriteString("\n}" + end)
}
