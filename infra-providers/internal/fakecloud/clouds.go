// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"net/http/httputil"
	"net/url"

	"github.com/vmware/govmomi/simulator"

	"drover.io/infra-providers/alibaba/alibabafake"
	"drover.io/infra-providers/anexia/anexiafake"
	"drover.io/infra-providers/aws/awsfake"
	"drover.io/infra-providers/azure/azurefake"
	"drover.io/infra-providers/digitalocean/digitaloceanfake"
	"drover.io/infra-providers/google/googlefake"
	"drover.io/infra-providers/hetzner/hetznerfake"
	"drover.io/infra-providers/kubevirt/kubevirtfake"
	"drover.io/infra-providers/metalstack/metalstackfake"
	"drover.io/infra-providers/nutanix/nutanixfake"
	"drover.io/infra-providers/openstack/openstackfake"
	"drover.io/infra-providers/vcd/vcdfake"
	"drover.io/infra-providers/yandex/yandexfake"
	"drover.io/runtime/envtest"
)

// cloud is a simulated cloud.
type cloud struct {
	handler http.Handler
	// left names what was created in it and still exists.
	left func() []string
}

// clouds start each cloud, to be served at an address.
var clouds = map[string]func(address string) (cloud, error){
	"alibaba":      newFakeAlibaba,
	"anexia":       newFakeAnexia,
	"aws":          newFakeAWS,
	"azure":        newFakeAzure,
	"digitalocean": newFakeDigitalOcean,
	"google":       newFakeGoogle,
	"hetzner":      newFakeHetzner,
	"kubevirt":     newFakeKubeVirt,
	"metalstack":   newFakeMetalStack,
	"nutanix":      newFakeNutanix,
	"openstack":    newFakeOpenStack,
	"vcd":          newFakeVCD,
	"vsphere":      newFakeVSphere,
	"yandex":       newFakeYandex,
}

func newFakeAlibaba(string) (cloud, error) {
	ecs, err := alibabafake.New(alibabafake.Options{PendingReads: 1, StoppingReads: 1})
	if err != nil {
		return cloud{}, err
	}
	return cloud{ecs, func() []string { return append(ecs.Leftovers(), ecs.Violations()...) }}, nil
}

func newFakeAnexia(string) (cloud, error) {
	engine := anexiafake.New(anexiafake.Options{TaskReads: 1, InfoDelay: 1})
	return cloud{engine, func() []string { return append(engine.Leftovers(), engine.Violations()...) }}, nil
}

func newFakeAWS(string) (cloud, error) {
	ec2, err := awsfake.New(awsfake.Options{PendingReads: 1, StoppingReads: 1, TerminatedReads: 2})
	if err != nil {
		return cloud{}, err
	}
	return cloud{ec2, func() []string { return append(ec2.Leftovers(), ec2.Violations()...) }}, nil
}

// newFakeAzure starts a Resource Manager, and a Microsoft Entra at the same address.
func newFakeAzure(address string) (cloud, error) {
	arm := azurefake.New(azurefake.Options{CreateReads: 1, DeleteReads: 1, PageSize: 50})
	arm.Serve(address)
	return cloud{arm, func() []string { return append(arm.Leftovers(), arm.Violations()...) }}, nil
}

func newFakeDigitalOcean(string) (cloud, error) {
	team, err := digitaloceanfake.Start(digitaloceanfake.Options{ActionDelay: 1, Limited: true})
	if err != nil {
		return cloud{}, err
	}
	handler, err := proxyTo(team.Endpoint)
	return cloud{handler, func() []string { return append(team.Leftovers(), team.Violations()...) }}, err
}

// credentialsKey is the path of the credentials of a cloud that makes them itself.
const credentialsKey = "GET /key"

// newFakeGoogle starts a Compute Engine that also serves the key with which it is used.
func newFakeGoogle(string) (cloud, error) {
	gce, err := googlefake.New(googlefake.Options{OperationReads: 1, StoppingReads: 1})
	if err != nil {
		return cloud{}, err
	}
	served := http.NewServeMux()
	served.Handle("/", gce)
	served.HandleFunc(credentialsKey, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(gce.Key()) })
	return cloud{served, func() []string { return append(gce.Leftovers(), gce.Violations()...) }}, nil
}

func newFakeHetzner(string) (cloud, error) {
	project, err := hetznerfake.Start(hetznerfake.Options{ActionDelay: 1})
	if err != nil {
		return cloud{}, err
	}
	handler, err := proxyTo(project.Endpoint)
	return cloud{handler, func() []string { return append(project.Leftovers(), project.Violations()...) }}, err
}

// newFakeKubeVirt starts the API server of an infrastructure cluster, whose kubeconfig it serves. The provider connects to it
// directly, with TLS, so calls are not counted.
func newFakeKubeVirt(string) (cloud, error) {
	definitions, err := kubevirtfake.Definitions()
	if err != nil {
		return cloud{}, err
	}
	server := &envtest.Server{CRDs: definitions}
	stops = append(stops, server.Stop)
	config, err := server.Start()
	if err != nil {
		return cloud{}, err
	}
	kubeconfig, err := envtest.Kubeconfig(config)
	if err != nil {
		return cloud{}, err
	}
	player, err := kubevirtfake.Run(context.Background(), config, "vms")
	if err != nil {
		return cloud{}, err
	}
	served := http.NewServeMux()
	served.HandleFunc(credentialsKey, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(kubeconfig) })
	return cloud{served, player.Leftovers}, nil
}

func newFakeMetalStack(string) (cloud, error) {
	api, err := metalstackfake.Start(metalstackfake.Options{InstallDelay: 3, ReleaseDelay: 1, WipeDelay: 5})
	if err != nil {
		return cloud{}, err
	}
	return cloud{api, func() []string { return append(api.Leftovers(), api.Violations()...) }}, nil
}

func newFakeOpenStack(address string) (cloud, error) {
	services := openstackfake.New()
	services.Serve(address)
	return cloud{services, services.Leftovers}, nil
}

// newFakeVSphere starts vcsim. All virtual machines but those of its model are ours.
func newFakeVSphere(string) (cloud, error) {
	model := simulator.VPX()
	model.Autostart, model.Host, model.Cluster = false, 0, 1
	if err := model.Create(); err != nil {
		return cloud{}, err
	}
	model.Service.Listen = &url.URL{User: url.UserPassword("drover", "secret")}
	before := model.Map().All("VirtualMachine")
	handler, err := proxyTo(model.Service.NewServer().URL.String())
	return cloud{handler, func() (left []string) {
		known := map[string]bool{}
		for _, vm := range before {
			known[vm.Reference().Value] = true
		}
		for _, vm := range model.Map().All("VirtualMachine") {
			if !known[vm.Reference().Value] {
				left = append(left, vm.Entity().Name)
			}
		}
		return left
	}}, err
}

func newFakeNutanix(string) (cloud, error) {
	prism := nutanixfake.New(nutanixfake.Options{TaskRequests: 2})
	return cloud{prism, func() []string { return append(prism.Leftovers(), prism.Violations()...) }}, nil
}

func newFakeVCD(string) (cloud, error) {
	director := vcdfake.New(vcdfake.Options{TaskRequests: 1})
	return cloud{director, func() []string { return append(director.Leftovers(), director.Violations()...) }}, nil
}

// newFakeYandex starts a Yandex Cloud that also serves the key with which it is used. Its gRPC is HTTP/2 without TLS.
func newFakeYandex(string) (cloud, error) {
	folder, err := yandexfake.New(yandexfake.Options{OperationReads: 1, DeletingReads: 1})
	if err != nil {
		return cloud{}, err
	}
	served := http.NewServeMux()
	served.Handle("/", folder.Server())
	served.HandleFunc(credentialsKey, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(folder.Key()) })
	return cloud{served, func() []string { return append(folder.Leftovers(), folder.Violations()...) }}, nil
}

// proxyTo forwards requests to a server that is running.
func proxyTo(server string) (http.Handler, error) {
	target, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	target.Path, target.User = "", nil
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}, nil
}
