#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Drover Authors
# SPDX-License-Identifier: Apache-2.0
#
# Unpacks Debian's cloud-init and the Python libraries it needs below bin/cloud-init, for the tests that have it
# check the user data we render. Nothing is installed on the host.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=$PWD/bin/cloud-init
[ -x /usr/bin/python3 ] || { echo "cloud-init needs /usr/bin/python3: install it" >&2; exit 1; }
compile() { # once, and not at each start: as the packages do when they are installed
  /usr/bin/python3 -m compileall -q --invalidation-mode unchecked-hash "$target/usr/lib/python3/dist-packages"
}
if [ -e "$target/usr/bin/cloud-init" ]; then
  [ -e "$target/usr/lib/python3/dist-packages/cloudinit/__pycache__" ] || compile
  exit 0
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 0755 "$scratch"
cd "$scratch"
apt=(-qq -o APT::Sandbox::User=root)
download() { # of cloud-init and of what it needs to validate user data; each release of Debian has other libraries
  apt-cache "${apt[@]}" depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances \
    cloud-init python3-jsonschema >dependencies &&
    grep -x 'python3-[a-z0-9-]*' dependencies | grep -vx python3-minimal | sort -u |
    xargs apt-get "${apt[@]}" download cloud-init
}
if ! download 2>/dev/null; then # the lists of the host are missing or old
  echo "cloud-init: reading the lists of apt into a temporary folder" >&2
  rm -f ./*.deb
  mkdir -p lists/partial cache/archives/partial
  apt+=(-o "Dir::State::lists=$scratch/lists" -o "Dir::Cache=$scratch/cache")
  apt-get "${apt[@]}" update
  download
fi
for package in *.deb; do dpkg-deb -x "$package" root; done
mkdir -p "${target%/*}"
mv root "$target"
compile
