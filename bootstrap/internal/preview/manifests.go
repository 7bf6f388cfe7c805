// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/runtime/crdvalidation"
)

// Manifests are the objects of files that matter here.
type Manifests struct {
	configs  []config
	profiles []bootstrapv1.NodeProfile
	machines []machine
	clusters []clusterv1.Cluster
	skipped  []string

	kinds *crdvalidation.Kinds
	seen  map[string]bool
}

// NewManifests returns Manifests without objects.
func NewManifests(kinds *crdvalidation.Kinds) *Manifests {
	return &Manifests{kinds: kinds, seen: map[string]bool{}}
}

// Skipped are the kinds and names of the objects of other projects, which are not checked.
func (m *Manifests) Skipped() []string { return m.skipped }

// config is a BootstrapConfig, or a template of such.
type config struct {
	kind, namespace, name string
	spec                  *bootstrapv1.BootstrapConfigSpec
	given                 any // the specification without the defaults of the schema
}

func (c *config) String() string { return c.kind + " " + c.name }

// machine is a Machine, or the template of a MachineSet or MachineDeployment.
type machine struct {
	kind, name, namespace string
	spec                  *clusterv1.MachineSpec
}

func (m *machine) String() string { return m.kind + " " + m.name }

// field is the path of a field of the specification of a Machine.
func (m *machine) field(of string) string {
	if m.kind == "Machine" {
		return "spec." + of
	}
	return "spec.template.spec." + of
}

// hostName is the name of the Machine, or one that its Machines may have: machine-controller cuts them.
func (m *machine) hostName() string {
	const longest = 63
	if m.kind == "Machine" {
		return m.name
	}
	name := m.name + "-abcde-abcde"
	return name[:min(len(name), longest)]
}

// configKind is what a Machine of this kind refers to.
func (m *machine) configKind() string {
	if m.kind == "Machine" {
		return "BootstrapConfig"
	}
	return "BootstrapConfigTemplate"
}

// add adds an object, and returns what is wrong with it.
func (m *Manifests) add(object map[string]any) []error {
	u := &unstructured.Unstructured{Object: object}
	kind := u.GroupVersionKind()
	own, err := m.kinds.Check(kind)
	if err != nil {
		return []error{err}
	}
	title := strings.TrimSpace(kind.Kind + " " + nameOf(object))
	if !own {
		m.skipped = append(m.skipped, title)
		return nil
	}
	if kind.Kind != "NodeProfile" { // whose status has checksums
		delete(object, "status") // as the API server does
	}
	given := u.DeepCopy().Object
	problems, err := m.kinds.Admit(kind, object)
	if err != nil {
		return []error{err}
	}
	if key := strings.Join([]string{kind.GroupKind().String(), u.GetNamespace(), u.GetName()}, " "); len(problems) == 0 && u.GetName() != "" {
		if m.seen[key] {
			problems = append(problems, "is in the files twice")
		}
		m.seen[key] = true
	}
	var all []error
	for _, problem := range problems {
		all = append(all, fmt.Errorf("%s: %s", title, problem))
	}
	if len(all) > 0 {
		return all
	}
	if err := m.decode(kind, object, given); err != nil {
		return []error{fmt.Errorf("%s: %w", title, err)}
	}
	return nil
}

// nameOf is the name of an object, or the start of one; empty if there is none.
func nameOf(object map[string]any) string {
	name, _, _ := unstructured.NestedString(object, "metadata", "name")
	if name == "" {
		name, _, _ = unstructured.NestedString(object, "metadata", "generateName")
	}
	return name
}

// decode reads an object of a kind that matters.
func (m *Manifests) decode(kind schema.GroupVersionKind, object, given map[string]any) error {
	name := nameOf(object)
	switch kind {
	case bootstrapv1.GroupVersion.WithKind("BootstrapConfig"):
		c, err := decode[bootstrapv1.BootstrapConfig](object)
		m.configs = append(m.configs, config{kind.Kind, c.Namespace, name, &c.Spec, given["spec"]})
		return err
	case bootstrapv1.GroupVersion.WithKind("BootstrapConfigTemplate"):
		t, err := decode[bootstrapv1.BootstrapConfigTemplate](object)
		spec, _, _ := unstructured.NestedFieldNoCopy(given, "spec", "template", "spec")
		m.configs = append(m.configs, config{kind.Kind, t.Namespace, name, &t.Spec.Template.Spec, spec})
		return err
	case bootstrapv1.GroupVersion.WithKind("NodeProfile"):
		p, err := decode[bootstrapv1.NodeProfile](object)
		m.profiles = append(m.profiles, *p)
		return err
	case clusterv1.GroupVersion.WithKind("Machine"):
		o, err := decode[clusterv1.Machine](object)
		m.machines = append(m.machines, machine{kind.Kind, name, o.Namespace, &o.Spec})
		return err
	case clusterv1.GroupVersion.WithKind("MachineSet"):
		o, err := decode[clusterv1.MachineSet](object)
		m.machines = append(m.machines, machine{kind.Kind, name, o.Namespace, &o.Spec.Template.Spec})
		return err
	case clusterv1.GroupVersion.WithKind("MachineDeployment"):
		o, err := decode[clusterv1.MachineDeployment](object)
		m.machines = append(m.machines, machine{kind.Kind, name, o.Namespace, &o.Spec.Template.Spec})
		return err
	case clusterv1.GroupVersion.WithKind("Cluster"):
		c, err := decode[clusterv1.Cluster](object)
		m.clusters = append(m.clusters, *c)
		return err
	}
	return nil
}

func decode[T any](object map[string]any) (*T, error) {
	into := new(T)
	raw, err := json.Marshal(object)
	if err != nil {
		return into, fmt.Errorf("writing JSON: %w", err)
	}
	return into, json.Unmarshal(raw, into)
}

// same reports whether two objects may be in one namespace. A manifest often has none.
func same(a, b string) bool { return a == b || a == "" || b == "" }

// checkReferences returns what is wrong with the references of Machines to BootstrapConfigs.
func (m *Manifests) checkReferences() error {
	var all []error
	for _, each := range m.machines {
		ref, kind := each.spec.Bootstrap.ConfigRef, each.configKind()
		ours := ref.Kind == "BootstrapConfig" || ref.Kind == "BootstrapConfigTemplate"
		switch {
		case ref.APIGroup == bootstrapv1.GroupVersion.Group && ref.Kind != kind:
			all = append(all, fmt.Errorf("%s: %s: is %s, must be %s", &each, each.field("bootstrap.configRef.kind"), ref.Kind, kind))
		case ours && ref.APIGroup != bootstrapv1.GroupVersion.Group:
			all = append(all, fmt.Errorf("%s: %s: is %s, must be %s for a %s", &each, each.field("bootstrap.configRef.apiGroup"), ref.APIGroup, bootstrapv1.GroupVersion.Group, kind))
		}
	}
	return errors.Join(all...)
}

// profileOf is the NodeProfile that a BootstrapConfig refers to.
func (m *Manifests) profileOf(c config, name string) (*bootstrapv1.NodeProfile, error) {
	var found []*bootstrapv1.NodeProfile
	var others []string
	for i := range m.profiles {
		if p := &m.profiles[i]; p.Name == name && same(p.Namespace, c.namespace) {
			found = append(found, p)
		} else {
			others = append(others, strings.TrimPrefix(p.Namespace+"/"+p.Name, "/"))
		}
	}
	field := "spec.profileRef.name"
	if c.kind != "BootstrapConfig" {
		field = "spec.template." + field
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("%s: there are %d NodeProfiles %q of its namespace in the files, must be one", field, len(found), name)
	case len(others) > 0:
		return nil, fmt.Errorf("%s: there is no NodeProfile %q of its namespace in the files, only %s: correct the name or the namespace, or name the file that has it", field, name, strings.Join(others, ", "))
	}
	return nil, fmt.Errorf("%s: there is no NodeProfile %q in the files: name the file that has it", field, name)
}

// machineOf is the Machine that refers to a BootstrapConfig, or the first MachineDeployment with its template; nil if there is
// none.
func (m *Manifests) machineOf(c config) (*machine, error) {
	var found []*machine
	for i := range m.machines {
		each := &m.machines[i]
		if ref := each.spec.Bootstrap.ConfigRef; ref.Kind == c.kind && ref.Name == c.name && same(each.namespace, c.namespace) {
			found = append(found, each)
		}
	}
	for _, each := range found {
		if each.spec.Version != found[0].spec.Version || each.spec.ClusterName != found[0].spec.ClusterName {
			return nil, fmt.Errorf("%s and %s refer to it, with other versions or Clusters: name the file of one of them", found[0], each)
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	return found[0], nil
}

// noMachine is the error where the version of Kubernetes is not known. It names the Machines that refer to other
// BootstrapConfigs.
func (m *Manifests) noMachine(c config) error {
	var others []string
	for i := range m.machines {
		if ref := m.machines[i].spec.Bootstrap.ConfigRef; ref.Kind == c.kind {
			others = append(others, fmt.Sprintf("%s refers to %q", &m.machines[i], ref.Name))
		}
	}
	known := ""
	if len(others) > 0 {
		known = " (" + strings.Join(others, ", ") + ")"
	}
	of := "MachineDeployment"
	if c.kind == "BootstrapConfig" {
		of = "Machine"
	}
	return fmt.Errorf("there is no %s in the files that refers to it%s, and its version decides which binaries of the NodeProfile are used: correct the name, or name the file that has it", of, known)
}

// clusterOf is the Cluster of the Machine, or the only one; nil if there is none.
func (m *Manifests) clusterOf(c config, of *machine) (*clusterv1.Cluster, error) {
	var found []*clusterv1.Cluster
	var others []string
	for i := range m.clusters {
		switch each := &m.clusters[i]; {
		case !same(each.Namespace, c.namespace):
		case of != nil && of.spec.ClusterName != each.Name:
			others = append(others, each.Name)
		default:
			found = append(found, each)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("there are %d Clusters in the files that may be its own: name the file of one of them", len(found))
	case len(others) > 0:
		return nil, &subjectError{of.String(), fmt.Errorf("%s: there is no Cluster %q in the files, only %s: correct the name, or name the file that has it", of.field("clusterName"), of.spec.ClusterName, strings.Join(others, ", "))}
	}
	return nil, nil
}
