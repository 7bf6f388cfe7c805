#!/usr/bin/env bash
# Runs the conformance suite of infra-kubevirt with KubeVirt's own virt-controller and virt-api on a real kube-apiserver. Only
# what runs on nodes is played. Arguments go to `go test`.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
export GOWORK=off
programs=$root/bin/kubevirt
mkdir -p "$programs"
(cd test/kubevirt && go run . "$programs" &&
  go build -o "$programs/" kubevirt.io/kubevirt/cmd/virt-controller kubevirt.io/kubevirt/cmd/virt-api)
# The kinds of CDI are generated from its types, as CDI does it.
(cd infra-providers && go tool -modfile="$root/hack/tools/go.mod" controller-gen crd:maxDescLen=0 \
  paths=kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1 "output:crd:dir=$programs/crds")
cd infra-providers
DROVER_KUBEVIRT=$programs exec go test -count=1 -timeout 1h -run '^(TestConformance|TestAdmission|TestDrainOfANode)$' "$@" ./kubevirt
