// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubestatemetrics tests the configuration of kube-state-metrics with kube-state-metrics itself. It is a module of its
// own, because it contains that.
package kubestatemetrics

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kube-state-metrics/v2/pkg/customresourcestate"
	"sigs.k8s.io/yaml"

	goyaml "sigs.k8s.io/yaml/goyaml.v3"
)

const root = "../.."

// read reads the configuration as kube-state-metrics does.
func read(t *testing.T) []customresourcestate.Resource {
	t.Helper()
	file, err := os.Open(filepath.Join(root, "monitoring", "kube-state-metrics.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	decoder := &strictDecoder{Decoder: goyaml.NewDecoder(file)}
	if _, err := customresourcestate.FromConfig(decoder, nil); err != nil {
		t.Fatal(err)
	}
	return decoder.read.Spec.Resources
}

// strictDecoder refuses fields that kube-state-metrics would ignore, and keeps what kube-state-metrics made of the rest.
type strictDecoder struct {
	*goyaml.Decoder
	read *customresourcestate.Metrics
}

// Decode implements customresourcestate.ConfigDecoder.
func (d *strictDecoder) Decode(into any) error {
	d.KnownFields(true)
	config := struct {
		Kind                        string `yaml:"kind"`
		customresourcestate.Metrics `yaml:",inline"`
	}{}
	if err := d.Decoder.Decode(&config); err != nil {
		return err
	}
	d.read = into.(*customresourcestate.Metrics)
	*d.read = config.Metrics
	return nil
}

// generate returns the metrics of an object, one line each.
func generate(t *testing.T, kind, object string) []string {
	t.Helper()
	content := map[string]any{}
	if err := yaml.Unmarshal([]byte(object), &content); err != nil {
		t.Fatal(err)
	}
	for _, resource := range read(t) {
		if resource.GroupVersionKind.Kind != kind {
			continue
		}
		factory, err := customresourcestate.NewCustomResourceMetrics(resource)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, family := range factory.MetricFamilyGenerators() {
			for line := range strings.Lines(string(family.Generate(&unstructured.Unstructured{Object: content}).ByteSlice())) {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		return lines
	}
	t.Fatalf("there is no kind %s", kind)
	return nil
}

func TestMetricsOfAMachine(t *testing.T) {
	t.Parallel()
	got := generate(t, "Machine", `
metadata: {namespace: team, name: m, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {clusterName: c, providerID: "sim:///m", infrastructureRef: {kind: SimMachine, name: m}, version: v1.36.0}
status:
  phase: Running
  nodeRef: {name: node-1}
  conditions:
  - {type: Ready, status: "True", reason: Ready}
  - {type: UpToDate, status: Unknown, reason: Waiting}
`)
	same := `cluster="c",customresource_group="cluster.x-k8s.io",customresource_kind="Machine",customresource_version="v1beta2",`
	want := []string{
		`drover_machine_created{` + same + `name="m",namespace="team"} 1.7672256e+09`,
		`drover_machine_condition{` + same + `name="m",namespace="team",reason="Ready",status="True",type="Ready"} 1`,
		`drover_machine_condition{` + same + `name="m",namespace="team",reason="Waiting",status="Unknown",type="UpToDate"} 0`,
		`drover_machine_phase{` + same + `name="m",namespace="team",phase="Running"} 1`,
		`drover_machine_phase{` + same + `name="m",namespace="team",phase="Pending"} 0`,
		`drover_machine_info{` + same + `infrastructure_kind="SimMachine",infrastructure_name="m",name="m",namespace="team",node="node-1",provider_id="sim:///m",version="v1.36.0"} 1`,
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("there is no line\n%s\nin\n%s", line, strings.Join(got, "\n"))
		}
	}
	if len(got) != 1+2+8+1 {
		t.Errorf("%d lines:\n%s", len(got), strings.Join(got, "\n"))
	}
}

func TestReplicasOfANewMachineDeploymentAreZero(t *testing.T) {
	t.Parallel()
	got := generate(t, "MachineDeployment", `{metadata: {namespace: team, name: md}, spec: {clusterName: c, replicas: 3}}`)
	same := `{cluster="c",customresource_group="cluster.x-k8s.io",customresource_kind="MachineDeployment",customresource_version="v1beta2",name="md",namespace="team"}`
	for _, line := range []string{"drover_machinedeployment_spec_replicas" + same + " 3", "drover_machinedeployment_status_available_replicas" + same + " 0"} {
		if !slices.Contains(got, line) {
			t.Errorf("there is no line\n%s\nin\n%s", line, strings.Join(got, "\n"))
		}
	}
}

// schema is the part of a kind's schema that paths lead through.
type schema struct {
	Type                 string
	Properties           map[string]schema
	Items                *schema
	AdditionalProperties any
}

// TestPathsAreOfTheKinds finds every path of the configuration in the schema of its kind, and every kind with a status in the configuration.
func TestPathsAreOfTheKinds(t *testing.T) {
	t.Parallel()
	kinds := readKinds(t)
	configured := map[string]bool{}
	for _, resource := range read(t) {
		gvk := resource.GroupVersionKind
		key := gvk.Group + "/" + gvk.Version + " " + gvk.Kind
		configured[key] = true
		kind, exists := kinds[key]
		if !exists {
			t.Errorf("there is no kind %s", key)
			continue
		}
		for _, path := range resource.LabelsFromPath {
			kind.find(t, key, path)
		}
		for _, metric := range resource.Metrics {
			each := metric.Each
			switch {
			case each.Info != nil:
				for _, path := range each.Info.LabelsFromPath {
					kind.find(t, key, path)
				}
			case each.StateSet != nil:
				kind.find(t, key, each.StateSet.Path)
			case each.Gauge != nil:
				at := kind.find(t, key, each.Gauge.Path)
				for _, path := range each.Gauge.LabelsFromPath {
					at.Items.find(t, key, path)
				}
			}
		}
	}
	for key, kind := range kinds {
		if _, conditions := kind.Properties["status"].Properties["conditions"]; conditions && !configured[key] && !exempt(key) {
			t.Errorf("%s has conditions and no metrics", key)
		}
	}
}

// exempt are kinds whose conditions are of no interest to an operator.
func exempt(key string) bool {
	return strings.HasSuffix(key, "Template") || strings.HasSuffix(key, " RestartRemediation") || strings.HasSuffix(key, " NodeProfile") || strings.HasSuffix(key, " MachinePool")
}

// find follows a path. What is below metadata is the same in all kinds, and not in their schemas.
func (s *schema) find(t *testing.T, key string, path []string) *schema {
	t.Helper()
	if s == nil || len(path) == 0 {
		t.Errorf("%s: a path leads nowhere", key)
		return nil
	}
	if path[0] == "metadata" {
		return s
	}
	at := *s
	for _, step := range path {
		next, exists := at.Properties[step]
		if !exists {
			t.Errorf("%s has no field %s", key, strings.Join(path, "."))
			return nil
		}
		at = next
	}
	return &at
}

func readKinds(t *testing.T) map[string]*schema {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "api", "crds", "bases", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no kinds: %v", err)
	}
	all := map[string]*schema{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd struct {
			Spec struct {
				Group    string
				Names    struct{ Kind string }
				Versions []struct {
					Name   string
					Schema struct {
						OpenAPIV3Schema schema `json:"openAPIV3Schema"`
					}
				}
			}
		}
		if err := yaml.Unmarshal(content, &crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, version := range crd.Spec.Versions {
			all[crd.Spec.Group+"/"+version.Name+" "+crd.Spec.Names.Kind] = &version.Schema.OpenAPIV3Schema
		}
	}
	return all
}

func TestEveryKindOfACloudHasTheSameMetrics(t *testing.T) {
	t.Parallel()
	of := map[string][]string{}
	for _, resource := range read(t) {
		if resource.GroupVersionKind.Group != "infrastructure.drover.io" {
			continue
		}
		for _, metric := range resource.Metrics {
			of[resource.GroupVersionKind.Kind] = append(of[resource.GroupVersionKind.Kind], metric.Name)
		}
	}
	for kind, names := range of {
		if diff := cmp.Diff(of["SimMachine"], names); diff != "" {
			t.Errorf("metrics of %s (-SimMachine +%s):\n%s", kind, kind, diff)
		}
	}
}
