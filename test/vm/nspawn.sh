#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Drover Authors
# SPDX-License-Identifier: Apache-2.0
#
# Boots a root folder under systemd-nspawn, in the network namespace of the same name and in control groups of its own:
# a kubelet makes groups beside the one it is in, which must not be the host's.
set -euo pipefail
root=$1 name=$2
for hierarchy in /sys/fs/cgroup/*/; do
  [ -e "$hierarchy/cgroup.procs" ] || continue
  mkdir -p "$hierarchy$name"
  if [ -e "$hierarchy/cpuset.cpus" ]; then
    cat "$hierarchy/cpuset.cpus" > "$hierarchy$name/cpuset.cpus"
    cat "$hierarchy/cpuset.mems" > "$hierarchy$name/cpuset.mems"
  fi
  echo $$ > "$hierarchy$name/cgroup.procs"
done
exec systemd-nspawn --quiet -D "$root" -M "$name" --boot --register=no --keep-unit --network-namespace-path="/run/netns/$name" \
  --capability=all --system-call-filter='bpf keyctl add_key perf_event_open' --bind=/dev/kmsg --resolv-conf=off --console=pipe
