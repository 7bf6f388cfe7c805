# Everything a contributor or a curious user needs. `make help` lists it.
SHELL := /usr/bin/env bash -o pipefail
MODULES := api machine-controller bootstrap infra-providers test
MANAGERS := bin/machine-controller bin/bootstrap bin/infra-sim bin/infra-qemu
ARGS ?=
export KUBEBUILDER_ASSETS ?= $(CURDIR)/bin/k8s

.PHONY: help
help: ## Show this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: quickstart
quickstart: control-plane build ## Run Drover on this machine with simulated machines; ARGS=--once for the unattended story
	@GOWORK=off go run -C test ./quickstart $(ARGS)

.PHONY: test
test: control-plane build ## Run every test: unit, against a real API server, and the whole story
	@hack/test.sh $(MODULES)

.PHONY: verify
verify: generate tidy fmt lint ## Generate, tidy, format and lint, and fail if that changes anything
	@hack/clean.sh

.PHONY: generate
generate: ## Generate deepcopy code, CRDs and RBAC roles
	@hack/generate.sh

.PHONY: tidy
tidy: ## Tidy the go.mod of every module
	@for m in $(MODULES) test/controlplane/kubernetes hack/tools hack/tools/lint; do (cd $$m && GOWORK=off go mod tidy) || exit 1; done

.PHONY: fmt
fmt: ## Format every Go file
	@gofmt -w $(MODULES)

.PHONY: lint
lint: ## Lint every module
	@hack/lint.sh $(MODULES)

.PHONY: bench
bench: control-plane build ## Count requests, CPU and memory per machine over its life; ARGS=--machines=N
	@GOWORK=off go run -C test ./bench $(ARGS)

.PHONY: soak
soak: control-plane ## Thousands of machine lifecycles under random faults and restarts; LIFECYCLES=N, SEED=N
	@cd infra-providers && DROVER_SOAK_LIFECYCLES=$(or $(LIFECYCLES),10000) DROVER_SOAK_SEED=$(or $(SEED),1) GOWORK=off go test -run TestFaultRig -timeout 3h ./internal/inframachine

.PHONY: interop
interop: control-plane build ## Run every mixture of Drover and Cluster API, and clusterctl against Drover
	@GOWORK=off go run -C test ./interop $(ARGS)

.PHONY: e2e
e2e: control-plane build guest ## Boot containers with a systemd of their own that join, by cloud-init and by Ignition; needs root
	@bootstrap/hack/ignition.sh
	@cd test && DROVER_E2E=1 GOWORK=off go test -count=1 -v -run 'TestContainer|TestAWrongChecksum' -timeout 60m ./vm

.PHONY: e2e-vm
e2e-vm: control-plane build guest ## Boot a virtual machine that joins, runs a pod, is drained and deleted; needs root and QEMU
	@cd test && DROVER_E2E_VM=1 GOWORK=off go test -count=1 -v -run TestVirtualMachine -timeout 60m ./vm

.PHONY: guest
guest: ## Make the guest image and a static kubelet into bin, once; needs root and mmdebstrap
	@test/vm/guest.sh
	@cd test && GOWORK=off go run ./controlplane/cmd/build kubelet

.PHONY: build
build: $(MANAGERS) ## Build the managers into bin

.PHONY: $(MANAGERS)
bin/machine-controller:
	@cd machine-controller && GOWORK=off go build -o ../$@ .
bin/bootstrap:
	@cd bootstrap && GOWORK=off go build -o ../$@ .
bin/infra-sim bin/infra-qemu:
	@cd infra-providers && GOWORK=off go build -o ../$@ ./cmd/$(@:bin/infra-%=%)

.PHONY: control-plane
control-plane: ## Compile etcd, kube-apiserver and kube-controller-manager into bin/k8s, once
	@cd test && GOWORK=off go run ./controlplane/cmd/build

.PHONY: kubectl
kubectl: ## Compile kubectl into bin/k8s
	@cd test && GOWORK=off go run ./controlplane/cmd/build kubectl

.PHONY: manifests
manifests: ## Write dist/drover.yaml, which installs Drover with one kubectl apply
	@mkdir -p dist && cd api && GOWORK=off go tool -modfile=../hack/tools/go.mod kustomize build ../hack/release > ../dist/drover.yaml

.PHONY: clean
clean: ## Remove what was built, but not the compiled control plane
	@rm -rf dist $(MANAGERS)
