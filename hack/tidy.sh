#!/usr/bin/env bash
# Gives the modules the same versions of what they share, so that each package is compiled once, and tidies them.
set -euo pipefail
cd "$(dirname "$0")/.."
GOWORK='' go work sync
export GOWORK=off

# What Kubernetes' libraries are built of. The control plane of the tests and the generators are modules of their own: of what
# they share with the others they get the same versions of these and no more, as the rest decides how an API server behaves
# (cel-go, gRPC, etcd) and what a generator writes.
libraries=(
  github.com/fxamacker/cbor/v2 github.com/prometheus/client_golang github.com/prometheus/common github.com/prometheus/procfs
  go.yaml.in/yaml/v2 go.yaml.in/yaml/v3 golang.org/x/net golang.org/x/oauth2 golang.org/x/time google.golang.org/protobuf
  k8s.io/api k8s.io/apiextensions-apiserver k8s.io/apimachinery k8s.io/utils
  sigs.k8s.io/structured-merge-diff/v6
)
for module in test/controlplane/kubernetes hack/tools; do
  required=$(go list -C "$module" -m all)
  versions=$(go list -C test -m -f '{{.Path}}@{{.Version}}' "${libraries[@]}" |
    awk 'NR == FNR { required[$1]; next } { split($0, part, "@") } part[1] in required' <(echo "$required") -)
  # shellcheck disable=SC2086 # one argument for each version
  go get -C "$module" $versions
done

for module in "$@"; do
  (cd "$module" && go mod tidy)
done
