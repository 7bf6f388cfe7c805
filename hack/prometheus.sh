#!/usr/bin/env bash
# Unpacks Debian's Prometheus below bin/prometheus, once, and prints the folder of its programs. Nothing is installed on the host.
set -euo pipefail
cd "$(dirname "$0")/.."
programs=$PWD/bin/prometheus/usr/bin
if [ ! -e "$programs/promtool" ]; then
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  chmod 0755 "$scratch"
  (cd "$scratch" && apt-get -qq -o APT::Sandbox::User=root download prometheus && dpkg-deb -x prometheus_*.deb root) >&2
  mkdir -p bin
  mv "$scratch/root" bin/prometheus
fi
echo "$programs"
