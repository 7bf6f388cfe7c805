#!/usr/bin/env bash
# Lints every module by itself with the pinned golangci-lint.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
export GOWORK=off
mkdir -p bin
(cd hack/tools/lint && go build -o "$root/bin/golangci-lint" github.com/golangci/golangci-lint/v2/cmd/golangci-lint)
for module in "$@"; do
  echo "== $module"
  (cd "$module" && "$root/bin/golangci-lint" run --allow-serial-runners --config "$root/.golangci.yml" ./...)
done
