// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

// Manifests are the objects of files that matter here.
type Manifests struct {
	configs  []config
	profiles []bootstrapv1.NodeProfile
	machines []machine
	clusters []clusterv1.Cluster
}

// config is a BootstrapConfig, or a template of such.
type config struct {
	kind, namespace, name string
	spec                  *bootstrapv1.BootstrapConfigSpec
}

// machine is a Machine, or the template of a MachineDeployment.
type machine struct {
	name, namespace, version, cluster string
	ref                               clusterv1.ContractVersionedObjectReference
}

// header is what all objects have.
type header struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Items      []json.RawMessage `json:"items"`
}

// Read adds the objects of a file with manifests in YAML or JSON. Kinds that do not matter, such as Secrets, are ignored.
func (m *Manifests) Read(from io.Reader) error {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(from))
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = m.add(document)
		}
		if err != nil {
			return fmt.Errorf("document %d: %s", n, strings.Join(strings.Fields(err.Error()), " "))
		}
	}
}

func (m *Manifests) add(document []byte) error {
	var h header
	if err := yaml.Unmarshal(document, &h); err != nil {
		return err
	}
	if h.Kind == "List" {
		for _, item := range h.Items {
			if err := m.add(item); err != nil {
				return err
			}
		}
		return nil
	}
	known := map[schema.GroupVersionKind]func([]byte) error{
		bootstrapv1.GroupVersion.WithKind("BootstrapConfig"):         m.addConfig,
		bootstrapv1.GroupVersion.WithKind("BootstrapConfigTemplate"): m.addTemplate,
		bootstrapv1.GroupVersion.WithKind("NodeProfile"):             m.addProfile,
		clusterv1.GroupVersion.WithKind("Machine"):                   m.addMachine,
		clusterv1.GroupVersion.WithKind("MachineDeployment"):         m.addDeployment,
		clusterv1.GroupVersion.WithKind("Cluster"):                   m.addCluster,
	}
	of := schema.FromAPIVersionAndKind(h.APIVersion, h.Kind)
	for kind, add := range known {
		switch {
		case kind == of:
			return add(document)
		case kind.GroupKind() == of.GroupKind():
			return fmt.Errorf("%s has the apiVersion %s, must be %s", h.Kind, h.APIVersion, kind.GroupVersion())
		}
	}
	return nil
}

// decode refuses fields that a kind does not have, as the API server does.
func decode(document []byte, into any) error { return yaml.UnmarshalStrict(document, into) }

func (m *Manifests) addConfig(document []byte) error {
	c := &bootstrapv1.BootstrapConfig{}
	err := decode(document, c)
	m.configs = append(m.configs, config{"BootstrapConfig", c.Namespace, c.Name, &c.Spec})
	return err
}

func (m *Manifests) addTemplate(document []byte) error {
	t := &bootstrapv1.BootstrapConfigTemplate{}
	err := decode(document, t)
	m.configs = append(m.configs, config{"BootstrapConfigTemplate", t.Namespace, t.Name, &t.Spec.Template.Spec})
	return err
}

func (m *Manifests) addProfile(document []byte) error {
	p := bootstrapv1.NodeProfile{}
	err := decode(document, &p)
	m.profiles = append(m.profiles, p)
	return err
}

func (m *Manifests) addMachine(document []byte) error {
	o := &clusterv1.Machine{}
	err := decode(document, o)
	m.machines = append(m.machines, machine{o.Name, o.Namespace, o.Spec.Version, o.Spec.ClusterName, o.Spec.Bootstrap.ConfigRef})
	return err
}

func (m *Manifests) addDeployment(document []byte) error {
	o := &clusterv1.MachineDeployment{}
	err := decode(document, o)
	spec := o.Spec.Template.Spec
	m.machines = append(m.machines, machine{o.Name, o.Namespace, spec.Version, spec.ClusterName, spec.Bootstrap.ConfigRef})
	return err
}

func (m *Manifests) addCluster(document []byte) error {
	c := clusterv1.Cluster{}
	err := decode(document, &c)
	m.clusters = append(m.clusters, c)
	return err
}

// same reports whether two objects may be in one namespace. A manifest often has none.
func same(a, b string) bool { return a == b || a == "" || b == "" }

// profileOf is the NodeProfile that a BootstrapConfig refers to.
func (m *Manifests) profileOf(c config, name string) (*bootstrapv1.NodeProfile, error) {
	found := slices.DeleteFunc(slices.Clone(m.profiles), func(p bootstrapv1.NodeProfile) bool { return p.Name != name || !same(p.Namespace, c.namespace) })
	if len(found) != 1 {
		return nil, fmt.Errorf("spec.profileRef.name: there are %d NodeProfiles %q of its namespace in the files, must be one", len(found), name)
	}
	return &found[0], nil
}

// machineOf is the Machine that refers to a BootstrapConfig, or the first MachineDeployment with its template; nil if there is
// none.
func (m *Manifests) machineOf(c config) (*machine, error) {
	var found []machine
	for _, each := range m.machines {
		if each.ref.Kind == c.kind && each.ref.Name == c.name && same(each.namespace, c.namespace) {
			found = append(found, each)
		}
	}
	for _, each := range found {
		if each.version != found[0].version || each.cluster != found[0].cluster {
			return nil, fmt.Errorf("%s and %s refer to it, with other versions or Clusters: name the file of one of them", found[0].name, each.name)
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	return &found[0], nil
}

// clusterOf is the Cluster of the Machine, or the only one; nil if there is none.
func (m *Manifests) clusterOf(c config, of *machine) (*clusterv1.Cluster, error) {
	found := slices.DeleteFunc(slices.Clone(m.clusters), func(each clusterv1.Cluster) bool {
		return !same(each.Namespace, c.namespace) || of != nil && of.cluster != each.Name
	})
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return &found[0], nil
	}
	return nil, fmt.Errorf("there are %d Clusters in the files that may be its own: name the file of one of them", len(found))
}

// redacted is a URL without its password.
func redacted(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return "its URL"
	}
	return parsed.Redacted()
}
