#!/usr/bin/env bash
# Tests every module by itself, as its users get it, and closes with one line for all.
set -uo pipefail
cd "$(dirname "$0")/.."
export GOWORK=off
failed=()
for module in "$@"; do
  echo "== $module"
  (cd "$module" && go test ./...) || failed+=("$module")
done
if ((${#failed[@]})); then
  echo "FAIL: ${failed[*]}"
  exit 1
fi
