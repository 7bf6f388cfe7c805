#!/usr/bin/env bash
# Tests the alerts with Debian's Prometheus: their rules with promtool, and what fires while a real Prometheus scrapes real
# managers in which faults are injected. Prometheus is unpacked below bin/prometheus; nothing is installed on the host.
# Arguments go to `go test`.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
programs=$root/bin/prometheus/usr/bin
if [ ! -e "$programs/promtool" ]; then
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  chmod 0755 "$scratch"
  (cd "$scratch" && apt-get -qq -o APT::Sandbox::User=root download prometheus && dpkg-deb -x prometheus_*.deb root)
  mkdir -p "$root/bin"
  mv "$scratch/root" "$root/bin/prometheus"
fi
"$programs/promtool" check rules monitoring/alerts.yaml
"$programs/promtool" test rules monitoring/alerts_test.yaml
# The configuration of kube-state-metrics is tested with kube-state-metrics itself, which takes minutes to compile.
(cd test/kubestatemetrics && GOWORK=off go test -count=1 ./...)
cd test
DROVER_PROMETHEUS=$programs/prometheus GOWORK=off exec go test -count=1 -timeout 30m "$@" ./alerts
