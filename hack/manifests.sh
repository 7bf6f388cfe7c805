#!/usr/bin/env bash
# Writes dist/drover.yaml, which installs Drover, and dist/drover-infra-<cloud>.yaml for each further cloud.
set -euo pipefail
cd "$(dirname "$0")/../api"
export GOWORK=off
mkdir -p ../dist
build() { go tool -modfile=../hack/tools/go.mod kustomize build "$1" > "../dist/$2.yaml"; }
build ../hack/release drover
for folder in ../infra-providers/config/manager/*; do
  cloud=${folder##*/}
  if [[ -d ../infra-providers/config/$cloud ]]; then
    build "../infra-providers/config/$cloud" "drover-infra-$cloud"
  fi
done
