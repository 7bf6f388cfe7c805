#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Drover Authors
# SPDX-License-Identifier: Apache-2.0
#
# Compiles Ignition, in the version that bootstrap/go.mod pins, into bin/ignition, for the tests that have it write what
# we render to a root directory. Relabelling for SELinux is left out: a test has no policy.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$PWD/../bin/ignition
[ -e "$target" ] && exit 0
GOWORK=off go mod download github.com/coreos/ignition/v2
source=$(GOWORK=off go list -m -f '{{.Dir}}' github.com/coreos/ignition/v2)
scratch=$(mktemp -d)
trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT
chmod 0755 "$scratch"
cp -r "$source" "$scratch/ignition"
chmod -R u+w "$scratch/ignition"
(cd "$scratch" && apt-get -qq -o APT::Sandbox::User=root download libblkid-dev libblkid1 && for package in *.deb; do dpkg-deb -x "$package" "$scratch/blkid"; done)
lib=$(dirname "$(find "$scratch/blkid" -name libblkid.so -print -quit)")
ln -sf "$(basename "$(find "$scratch/blkid" -name 'libblkid.so.1.*' -print -quit)")" "$lib/libblkid.so.1" || true
mkdir -p "${target%/*}"
cd "$scratch/ignition"
GOFLAGS="${GOFLAGS-} -mod=mod" GOWORK=off CGO_ENABLED=1 CGO_CFLAGS="-I$scratch/blkid/usr/include" \
  CGO_LDFLAGS="-L$lib -L$(dirname "$(find "$scratch/blkid" -name 'libblkid.so.1.*' -print -quit)")" \
  go build -ldflags "-X github.com/coreos/ignition/v2/internal/distro.selinuxRelabel=false" -o "$target" ./internal
