// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"bytes"
	"embed"
	"fmt"
	"text/template"
)

// templates are cluster.yaml and, by the name of the cloud, its template of machines. They have variables of clusterctl, and
// between double brackets what depends on the operating system.
//
//go:embed templates
var templates embed.FS

// image is what a cloud calls the image of an operating system.
type image struct{ Name, Owner string }

// flavor is a template of a cluster for one operating system. That without a name is clusterctl's default.
type flavor struct {
	name, system string
	image        image
}

// cloudTemplates are what the templates of a cloud need.
type cloudTemplates struct {
	kind string
	// providerID is what the kubelet registers with, where no cloud controller manager sets it.
	providerID string
	// cloudProvider is true where a cloud controller manager needs that providerID.
	cloudProvider bool
	flavors       []flavor
}

// clouds have templates. Owners of images are the accounts, or at Google the projects, that the
// distributions publish from.
var clouds = map[string]cloudTemplates{
	// The owners of images are the fields that name them: of public images a family or a name, for RHEL a family of your own. The
	// cloud controller manager finds an instance by the providerID that the kubelet registers with.
	"alibaba": {kind: "AlibabaMachineTemplate", providerID: "alicloud://{{ ds.meta_data.region_id }}.{{ ds.meta_data.instance_id }}", cloudProvider: true, flavors: []flavor{
		{"", "ubuntu", image{"acs:ubuntu_24_04_${ALIBABA_IMAGE_ARCHITECTURE:=x64}", "family"}},
		{"debian", "debian", image{"debian_12_*_${ALIBABA_IMAGE_ARCHITECTURE:=x64}_*", "name"}}, {"rocky", "rocky", image{"rockylinux_9_*_${ALIBABA_IMAGE_ARCHITECTURE:=x64}_*", "name"}},
		{"rhel", "rhel", image{"${ALIBABA_IMAGE_FAMILY:=rhel-9}", "family"}},
	}},
	// The templates of a location have names of its own.
	"anexia": {kind: "AnexiaMachineTemplate", flavors: []flavor{
		{"", "ubuntu", image{Name: "${ANEXIA_TEMPLATE:=Ubuntu 24.04}"}}, {"debian", "debian", image{Name: "${ANEXIA_TEMPLATE:=Debian 12}"}},
	}},
	"aws": {kind: "AWSMachineTemplate", flavors: []flavor{
		{"", "ubuntu", image{"ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-${ARCHITECTURE:=amd64}-server-*", "099720109477"}},
		{"debian", "debian", image{"debian-13-${ARCHITECTURE:=amd64}-*", "136693071363"}},
		{"flatcar", "flatcar", image{"Flatcar-stable-*-hvm", "075585003325"}},
		{"rhel", "rhel", image{"RHEL-9.*_HVM-*-${AWS_IMAGE_ARCHITECTURE:=x86_64}-*-Hourly2-GP3", "309956199498"}},
		{"rocky", "rocky", image{"Rocky-9-EC2-Base-9.*.${AWS_IMAGE_ARCHITECTURE:=x86_64}", "792107900819"}},
		{"amazonlinux", "amazonlinux", image{"al2023-ami-2023.*-${AWS_IMAGE_ARCHITECTURE:=x86_64}", "137112412989"}},
	}},
	// The names of images are those of the SKU, their owners publisher and offer.
	"azure": {kind: "AzureMachineTemplate", flavors: []flavor{
		{"", "ubuntu", image{"${AZURE_IMAGE_SKU:=server}", "{publisher: Canonical, offer: ubuntu-24_04-lts"}},
		{"debian", "debian", image{"${AZURE_IMAGE_SKU:=13-gen2}", "{publisher: Debian, offer: debian-13"}},
		{"flatcar", "flatcar", image{"${AZURE_IMAGE_SKU:=stable-gen2}", "{publisher: kinvolk, offer: ${AZURE_IMAGE_OFFER:=flatcar-container-linux-corevm-amd64}"}},
		{"rhel", "rhel", image{"${AZURE_IMAGE_SKU:=9-lvm-gen2}", "{publisher: RedHat, offer: RHEL"}},
		{"rocky", "rocky", image{"${AZURE_IMAGE_SKU:=9-base}", "{publisher: resf, offer: rockylinux-x86_64"}},
	}},
	// The images of the cloud have slugs; that of Flatcar is a custom image that you have uploaded.
	"digitalocean": {kind: "DigitalOceanMachineTemplate", flavors: []flavor{
		{"", "ubuntu", image{Name: "ubuntu-24-04-x64"}}, {"debian", "debian", image{Name: "debian-13-x64"}},
		{"rocky", "rocky", image{Name: "rockylinux-9-x64"}}, {"flatcar", "flatcar", image{Name: "${DIGITALOCEAN_IMAGE_NAME:=flatcar-stable}"}},
	}},
	"google": {kind: "GoogleMachineTemplate", flavors: []flavor{
		{"", "ubuntu", image{"ubuntu-2404-lts-${ARCHITECTURE:=amd64}", "ubuntu-os-cloud"}},
		{"flatcar", "flatcar", image{"flatcar-stable", "kinvolk-public"}},
		{"debian", "debian", image{Name: "${GOOGLE_IMAGE_FAMILY:=debian-13}"}}, {"rhel", "rhel", image{Name: "${GOOGLE_IMAGE_FAMILY:=rhel-9}"}},
		{"rocky", "rocky", image{Name: "${GOOGLE_IMAGE_FAMILY:=rocky-9}"}},
	}},
	"hetzner": {kind: "HetznerMachineTemplate", flavors: []flavor{
		{"", "ubuntu", image{Name: "ubuntu-24.04"}}, {"debian", "debian", image{Name: "debian-13"}}, {"rocky", "rocky", image{Name: "rocky-9"}},
	}},
	// The images are those of KubeVirt's containerdisks, by their names there; Flatcar and RHEL are not among them.
	"kubevirt": {kind: "KubeVirtMachineTemplate", flavors: []flavor{
		{"", "ubuntu", image{Name: "${KUBEVIRT_IMAGE:=quay.io/containerdisks/ubuntu:24.04}"}}, {"debian", "debian", image{Name: "${KUBEVIRT_IMAGE:=quay.io/containerdisks/debian:13}"}},
		{"flatcar", "flatcar", image{Name: "${KUBEVIRT_IMAGE:=registry.example.org/flatcar-stable}"}}, {"rhel", "rhel", image{Name: "${KUBEVIRT_IMAGE:=registry.example.org/rhel-9}"}},
		{"rocky", "rocky", image{Name: "${KUBEVIRT_IMAGE:=registry.example.org/rocky-9}"}},
	}},
	// The images are those of metal-stack, by operating system and version.
	"metalstack": {kind: "MetalStackMachineTemplate", flavors: []flavor{
		{"", "ubuntu", image{Name: "${METALSTACK_IMAGE:=ubuntu-24.04}"}}, {"debian", "debian", image{Name: "${METALSTACK_IMAGE:=debian-13}"}},
	}},
	// The images are those of the folder standard-images, by family. Flatcar and RHEL are not among them.
	"yandex": {kind: "YandexMachineTemplate", flavors: []flavor{
		{"", "ubuntu", image{Name: "ubuntu-2404-lts"}}, {"debian", "debian", image{Name: "${YANDEX_IMAGE_FAMILY:=debian-12}"}},
		{"rocky", "rocky", image{Name: "${YANDEX_IMAGE_FAMILY:=rocky-9}", Owner: "${YANDEX_IMAGE_FOLDER_ID:=standard-images}"}},
		{"rhel", "rhel", image{Name: "${YANDEX_IMAGE_FAMILY:=rhel-9}", Owner: "${YANDEX_FOLDER_ID}"}},
	}},
	"nutanix":   {kind: "NutanixMachineTemplate", flavors: ownImages()},
	"openstack": {kind: "OpenStackMachineTemplate", flavors: ownImages()},
	"vcd":       {kind: "VCDMachineTemplate", flavors: ownImages()},
	"vsphere":   {kind: "VSphereMachineTemplate", flavors: ownImages()},
	"qemu": {kind: "QEMUMachineTemplate", providerID: "{{ ds.meta_data.provider_id }}", flavors: []flavor{
		{"", "ubuntu", image{Name: "https://cloud-images.ubuntu.com/releases/noble/release"}},
		{"debian", "debian", image{Name: "https://cloud.debian.org/images/cloud/trixie/latest"}},
	}},
	"sim": {kind: "SimMachineTemplate", providerID: "{{ ds.meta_data.provider_id }}", flavors: []flavor{{"", "ubuntu", image{}}}},
}

// ownImages are for clouds whose operators upload the images, under names of their own.
func ownImages() []flavor {
	return []flavor{
		{"", "ubuntu", image{Name: "ubuntu-24.04"}}, {"debian", "debian", image{Name: "debian-13"}}, {"flatcar", "flatcar", image{Name: "flatcar-stable"}},
		{"rhel", "rhel", image{Name: "rhel-9"}}, {"rocky", "rocky", image{Name: "rocky-9"}},
	}
}

// clusterTemplates are the templates of clusters for a cloud, by the names of their files.
func clusterTemplates(cloud string) (map[string][]byte, error) {
	of, known := clouds[cloud]
	if !known {
		return nil, nil
	}
	parsed, err := template.New("").Delims("[[", "]]").ParseFS(templates, "templates/cluster.yaml", "templates/"+cloud+".yaml")
	if err != nil {
		return nil, fmt.Errorf("reading the templates for %s: %w", cloud, err)
	}
	files := map[string][]byte{}
	for _, f := range of.flavors {
		var machine, whole bytes.Buffer
		values := map[string]any{"System": f.system, "Image": f.image, "Kind": of.kind, "ProviderID": of.providerID, "CloudProvider": of.providerID == "" || of.cloudProvider}
		if err := parsed.ExecuteTemplate(&machine, cloud+".yaml", values); err != nil {
			return nil, err
		}
		values["Machine"] = machine.String()
		if err := parsed.ExecuteTemplate(&whole, "cluster.yaml", values); err != nil {
			return nil, err
		}
		name := "cluster-template.yaml"
		if f.name != "" {
			name = "cluster-template-" + f.name + ".yaml"
		}
		files[name] = whole.Bytes()
	}
	return files, nil
}
