#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Drover Authors
# SPDX-License-Identifier: Apache-2.0
#
# Compiles the containerd that NodeProfiles have hosts download by default, once, and packs it as its project does: a
# statically linked archive with the folder bin, below bin/guest.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=$PWD/bin/guest
version=$(cd test/vm/containerd && GOWORK=off go list -m -f '{{.Version}}' github.com/containerd/containerd/v2)
[ "$(cat "$target/containerd.version" 2>/dev/null)" = "$version" ] && exit 0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/bin"
cd test/vm/containerd
for program in containerd containerd-shim-runc-v2 ctr; do
  GOWORK=off CGO_ENABLED=0 go build -trimpath -tags 'static_build,netgo,osusergo,no_btrfs,no_zfs,no_devmapper' \
    -ldflags "-s -w -X github.com/containerd/containerd/v2/version.Version=$version" \
    -o "$scratch/bin/$program" "github.com/containerd/containerd/v2/cmd/$program"
done
tar -czf "$target/containerd.tgz" -C "$scratch" bin
echo "$version" >"$target/containerd.version"
