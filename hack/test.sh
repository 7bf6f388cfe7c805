#!/usr/bin/env bash
# Tests every module by itself, as its users get it, and fails if any does.
set -uo pipefail
cd "$(dirname "$0")/.."
export GOWORK=off
# What is read from a cache is shared: whoever changes it ends the process.
export KUBE_CACHE_MUTATION_DETECTOR=true
if command -v apt-get >/dev/null; then
  bootstrap/hack/cloud-init.sh || echo "cloud-init could not be had: as root, apt-get update helps"
fi
failed=()
for module in "$@"; do
  echo "== $module"
  (cd "$module" && go test -timeout 20m ./...) || failed+=("$module")
done
if ((${#failed[@]})); then
  echo "FAIL: ${failed[*]}"
  exit 1
fi
