# Everything a contributor or a curious user needs. `make help` lists it.
SHELL := /usr/bin/env bash -o pipefail
MODULES := api runtime machine-controller bootstrap infra-providers kubectl-drover release test test/monitoring
CLOUDS := $(notdir $(wildcard infra-providers/cmd/*))
INFRA := $(CLOUDS:%=bin/infra-%)
MANAGERS := bin/machine-controller bin/bootstrap $(INFRA)
# The managers that need no cloud.
SIMULATED := bin/machine-controller bin/bootstrap bin/infra-sim
ARGS ?=
RELEASE := GOWORK=off go run -C release .
BUILD_RELEASE = $(RELEASE) all $(if $(VERSION),--version "$(VERSION)") $(if $(REGISTRY),--registry "$(REGISTRY)") $(ARGS)
# given is the value of a variable that must be set.
given = $(or $($1),$(error $1 is not set; make help shows an example))
export KUBEBUILDER_ASSETS ?= $(CURDIR)/bin/k8s

.PHONY: help
help: ## Show this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: quickstart
quickstart: quickstart-flags control-plane $(SIMULATED) ## Run Drover on this machine with simulated machines; ARGS=--once runs the demo unattended
	@GOWORK=off go run -C test ./quickstart $(ARGS)

.PHONY: quickstart-flags
quickstart-flags: # Wrong flags are refused before anything is compiled.
	@GOWORK=off go run -C test ./quickstart $(ARGS) --help >/dev/null

.PHONY: test
test: control-plane kubectl $(MANAGERS) ## Run all tests: unit, against real API servers, and scenarios with all managers
	@hack/test.sh $(MODULES)

.PHONY: verify
verify: generate tidy fmt lint ## Generate, tidy, format and lint, and fail if that changes anything
	@hack/clean.sh

.PHONY: generate
generate: ## Generate deepcopy code, CRDs and RBAC roles
	@hack/generate.sh

.PHONY: tidy
tidy: ## Give all modules the same versions of what they share, so that each is compiled once, and tidy their go.mod
	@hack/tidy.sh $(MODULES) test/controlplane/kubernetes test/kubevirt test/kubestatemetrics test/vm/containerd hack/tools hack/tools/lint

.PHONY: fmt
fmt: ## Format every Go file
	@gofmt -w $(MODULES)

.PHONY: lint
lint: ## Lint every module
	@hack/lint.sh $(MODULES)

.PHONY: bench
bench: control-plane $(SIMULATED) ## Measure Drover's core beside Cluster API's; ARGS=--help lists the options
	@GOWORK=off go run -C test ./bench $(ARGS)

.PHONY: soak
soak: control-plane $(SIMULATED) ## Run machine lifecycles under random faults, and, without DRIVER=name, a crash at every write; LIFECYCLES=N, MINUTES=N, CRASHES=N, SEED=N
	@cd infra-providers && DROVER_SOAK_LIFECYCLES=$(or $(LIFECYCLES),10000) DROVER_SOAK_SEED=$(or $(SEED),1) DROVER_SOAK_MINUTES=$(MINUTES) GOWORK=off \
		go test -run TestFaultInjection -v -timeout 12h $(if $(DRIVER),./$(if $(filter fake,$(DRIVER)),driver/)$(DRIVER),./...)
	$(if $(DRIVER),,@cd test && DROVER_CRASHES=$(or $(CRASHES),all) GOWORK=off go test -run TestCrash -timeout 3h ./scenarios/crash -seed $(or $(SEED),1))

.PHONY: interop
interop: control-plane $(SIMULATED) ## Run all combinations of Drover and Cluster API, and clusterctl against Drover
	@GOWORK=off go run -C test ./interop $(ARGS)
	@cd test && DROVER_INTEROP=1 GOWORK=off go test -count=1 -run 'TestClusterctl' ./install

.PHONY: e2e-openstack
e2e-openstack: control-plane ## Run the OpenStack driver against the real services that OS_* or OS_CLOUD name
	@hack/e2e-openstack.sh $(ARGS)

.PHONY: e2e-kubevirt
e2e-kubevirt: control-plane ## Run the KubeVirt driver with virt-controller and virt-api of KubeVirt, which it compiles
	@hack/e2e-kubevirt.sh $(ARGS)

.PHONY: e2e-alerts
e2e-alerts: control-plane $(SIMULATED) ## Test the alerts with Debian's Prometheus, which scrapes managers with injected faults, and the metrics of kube-state-metrics
	@hack/e2e-alerts.sh $(ARGS)

.PHONY: dashboards
dashboards: control-plane $(SIMULATED) ## Draw the pictures of the dashboards in the docs from a run with simulated machines; needs Debian's Prometheus
	@GOWORK=off go run -C test ./dashboards --prometheus "$$(hack/prometheus.sh)/prometheus" --dashboards "$(CURDIR)/monitoring/dashboards" --out "$(CURDIR)/docs/guides/dashboards"

.PHONY: e2e
e2e: control-plane build guest ## Boot containers with systemd that join by cloud-init, Ignition and kubeadm; needs root
	@cd test && DROVER_E2E=1 GOWORK=off go test -count=1 -v -run 'TestContainer|TestAWrongChecksum' -timeout 60m ./vm

.PHONY: e2e-vm
e2e-vm: control-plane build guest ## Boot a virtual machine that joins, runs a pod, is drained and deleted; needs root and QEMU
	@cd test && DROVER_E2E_VM=1 GOWORK=off go test -count=1 -v -run TestVirtualMachine -timeout 60m ./vm

.PHONY: e2e-install
e2e-install: control-plane bin/infra-qemu ## Install, upgrade and remove releases whose managers run as Pods; needs root and mmdebstrap; ARGS=--help lists the options
	@test/vm/guest.sh
	@cd test && GOWORK=off go run ./controlplane/cmd/build kubelet kube-scheduler && GOWORK=off go run ./install/e2e $(ARGS)

.PHONY: guest
guest: ## Build the guest image, static kubelet, kubeadm and containerd, and Ignition into bin, once; needs root and mmdebstrap
	@test/vm/guest.sh
	@test/vm/containerd.sh
	@bootstrap/hack/ignition.sh
	@cd test && GOWORK=off go run ./controlplane/cmd/build kubelet kubeadm

.PHONY: build
build: $(MANAGERS) ## Build the managers into bin

.PHONY: $(MANAGERS)
bin/machine-controller:
	@cd machine-controller && GOWORK=off go build -o ../$@ .
bin/bootstrap:
	@cd bootstrap && GOWORK=off go build -o ../$@ .
$(INFRA): bin/infra-%:
	@cd infra-providers && GOWORK=off go build -o ../$@ ./cmd/$*

.PHONY: plugin
plugin: ## Build bin/kubectl-drover, the plugin of kubectl
	@cd kubectl-drover && GOWORK=off go build -o ../bin/kubectl-drover .

.PHONY: new-provider
new-provider: ## Scaffold the provider of a new cloud, with its tests: NAME=acme, and KIND=ACME if the kind is not Acme
	@cd infra-providers && GOWORK=off go run ./internal/newprovider $(if $(KIND),-kind=$(KIND)) "$(NAME)"
	@hack/generate.sh

.PHONY: control-plane
control-plane: ## Compile etcd, kube-apiserver and kube-controller-manager into bin/k8s, once
	@cd test && GOWORK=off go run ./controlplane/cmd/build

.PHONY: kubectl
kubectl: ## Compile kubectl into bin/k8s
	@cd test && GOWORK=off go run ./controlplane/cmd/build kubectl

.PHONY: manifests
manifests: ## Write a release without images: manifests, chart and clusterctl repository; VERSION and REGISTRY as of release
	@$(BUILD_RELEASE) --images=false

.PHONY: release
release: ## Write a release into dist/VERSION: images, SBOMs, manifests, chart, clusterctl repository; VERSION=v0.1.0, REGISTRY=registry.example.org/drover
	@$(BUILD_RELEASE)

.PHONY: images
images: ## Write an OCI archive and an SBOM for each manager into dist/VERSION; VERSION=v0.1.0, REGISTRY=registry.example.org/drover
	@$(RELEASE) images $(if $(VERSION),--version "$(VERSION)") $(if $(REGISTRY),--registry "$(REGISTRY)")

.PHONY: push
push: ## Push the images of dist/VERSION with their SBOMs; VERSION=v0.1.0, REGISTRY=registry.example.org/drover
	@$(RELEASE) push "$(CURDIR)/dist/$(call given,VERSION)" --registry "$(call given,REGISTRY)"

.PHONY: sign
sign: ## Sign the checksums of dist/VERSION; VERSION=v0.1.0, KEY=private.pem
	@$(RELEASE) sign "$(CURDIR)/dist/$(call given,VERSION)" --key "$(abspath $(call given,KEY))"

.PHONY: verify-release
verify-release: ## Verify the signature and checksums of dist/VERSION offline; VERSION=v0.1.0, KEY=public.pem
	@$(RELEASE) verify "$(CURDIR)/dist/$(call given,VERSION)" --version "$(VERSION)" --key "$(abspath $(call given,KEY))"

.PHONY: docs
docs: hack/site/node_modules ## Build the site of the documentation into dist/site; needs Node.js; SITE_BASE=/path/ if it is served below one
	@cd hack/site && npx vitepress build

hack/site/node_modules: hack/site/package-lock.json
	@cd hack/site && npm ci --no-audit --no-fund
	@touch $@

.PHONY: clean
clean: ## Remove built files except the compiled control plane
	@rm -rf dist $(MANAGERS)
