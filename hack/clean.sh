#!/usr/bin/env bash
# Fails if the working tree differs from the last commit, and shows how.
set -euo pipefail
cd "$(dirname "$0")/.."
if [[ -n $(git status --porcelain) ]]; then
  echo "make verify changed or found files that are not committed:"
  git status --short
  git diff | head -n 100
  exit 1
fi
