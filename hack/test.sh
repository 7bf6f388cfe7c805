#!/usr/bin/env bash
# Tests every module by itself, as its users get it, and fails if any does. What failed is said
# again at the end, where it is not buried under the logs of managers.
set -uo pipefail
cd "$(dirname "$0")/.."
export GOWORK=off
# What is read from a cache is shared: whoever changes it ends the process.
export KUBE_CACHE_MUTATION_DETECTOR=true
if command -v apt-get >/dev/null; then
  bootstrap/hack/cloud-init.sh || echo "cloud-init could not be had: as root, apt-get update helps"
fi
failed=()
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for module in "$@"; do
  echo "== $module"
  (cd "$module" && go test -timeout 20m ./... 2>&1 | tee -a "$log") || failed+=("$module")
done
if ((${#failed[@]})); then
  grep -E -A 4 '^ *--- FAIL|^panic: |^WARNING: DATA RACE' "$log" | cut -c 1-400 | tail -n 200
  echo "FAIL: ${failed[*]}"
  exit 1
fi
