#!/usr/bin/env bash
# Tests the alerts with Debian's Prometheus: their rules with promtool, and what fires while a real Prometheus scrapes real
# managers in which faults are injected. Arguments go to `go test`.
set -euo pipefail
cd "$(dirname "$0")/.."
programs=$(hack/prometheus.sh)
"$programs/promtool" check rules monitoring/alerts.yaml
"$programs/promtool" test rules monitoring/alerts_test.yaml
# The configuration of kube-state-metrics is tested with kube-state-metrics itself, which takes minutes to compile.
(cd test/kubestatemetrics && GOWORK=off go test -count=1 ./...)
cd test
DROVER_PROMETHEUS=$programs/prometheus GOWORK=off exec go test -count=1 -timeout 30m "$@" ./alerts
