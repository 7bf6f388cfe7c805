#!/usr/bin/env bash
# Compiles the control plane and kubectl of another version of Kubernetes into bin/k8s-VERSION, to run tests against it:
#
#   hack/kubernetes.sh v1.35.4
#   cd test && KUBEBUILDER_ASSETS=$PWD/../bin/k8s-v1.35.4 GOWORK=off go test ./install ./schema
#
# Needs `make control-plane` before, whose etcd is used.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:?a version of Kubernetes, such as v1.35.4}
minor=${version#v1.}
target=$PWD/bin/k8s-$version
export GOWORK=off GOFLAGS=-mod=mod
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
published=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/.*"GoMod": "\(.*\)",/\1/p')
{
  printf 'module drover.io/kubernetes\n\n%s\n\nrequire k8s.io/kubernetes %s\n' "$(grep '^go ' "$published")" "$version"
  # Kubernetes replaces its own modules by folders of its repository; they are published with the same minor version.
  sed -n 's|^\t\(k8s.io/[a-z-]*\) => ./staging/.*|replace \1 => \1 v0.'"$minor"'|p' "$published"
} >go.mod
cat >tools.go <<'GO'
package tools

import (
	_ "k8s.io/kubectl/pkg/cmd"
	_ "k8s.io/kubernetes/cmd/kube-apiserver/app"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)
GO
go mod tidy
mkdir -p "$target"
stamp=k8s.io/component-base/version
for program in kube-apiserver kube-controller-manager kubectl; do
  go build -buildvcs=false -ldflags "-X $stamp.gitVersion=$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=${minor%%.*}" \
    -o "$target/$program" "k8s.io/kubernetes/cmd/$program"
done
ln -sf ../k8s/etcd "$target/etcd"
