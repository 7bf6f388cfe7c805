#!/usr/bin/env bash
# Tests each module by itself, without the workspace, and fails if any test fails. Failures are repeated at the end,
# after the logs of managers.
set -uo pipefail
cd "$(dirname "$0")/.."
export GOWORK=off
# Objects in caches are shared: a process that changes one panics.
export KUBE_CACHE_MUTATION_DETECTOR=true
if command -v apt-get >/dev/null; then
  bootstrap/hack/cloud-init.sh || echo "cloud-init is missing"
fi
# Tests also wait, for other processes and for time to pass: one package more than there are processors keeps these busy.
packages=$(($(getconf _NPROCESSORS_ONLN) + 1))
failed=()
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for module in "$@"; do
  echo "== $module"
  # The linter has the checks of vet.
  (cd "$module" && go test -vet=off -p "$packages" -timeout 40m ./... 2>&1 | tee -a "$log") || failed+=("$module")
done
if ((${#failed[@]})); then
  grep -E -A 4 '^ *--- FAIL|^panic: |^WARNING: DATA RACE' "$log" | cut -c 1-400 | tail -n 200
  echo "FAIL: ${failed[*]}"
  exit 1
fi
