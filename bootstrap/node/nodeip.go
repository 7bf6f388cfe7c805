// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/node/quote"
)

const (
	nodeIPField  = "spec.kubelet.nodeIP"
	nodeIPScript = scriptFolder + "/node-ip.sh"

	// nodeIPFile has the flag of the kubelet. It outlives a reboot, so that a Node keeps its address.
	nodeIPFile = "/var/lib/drover/node-ip.env"
)

// interfaceName is a name of a network interface that is one word in every language on the host.
var interfaceName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,126}$`)

// chooseNodeIP writes the flag for the addresses of the Node, of what ip lists. An address stays as long as it is one of those
// that can be chosen: the order of IPv6 addresses changes whenever a router announces another prefix.
const chooseNodeIP = `#!/bin/bash
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin
file=` + nodeIPFile + `
families=(FAMILIES)
interfaces=(INTERFACES)
subnets=(SUBNETS)
missing() {
  echo "bootstrap: ` + nodeIPField + `: $1" >&2
  exit 1
}
usable() { # family, arguments of ip: the addresses that a Node can have
  local address rest
  while read -r _ _ _ address rest; do
    case " $rest" in *' deprecated '* | *' tentative '* | *' dadfailed '* | *' temporary '*) continue ;; esac
    if [[ $address != 169.254.* ]]; then echo "${address%/*}"; fi
  done < <(ip -o "-$1" address show up scope global "${@:2}" 2>/dev/null)
}
gateway() { # family: the interface of its default route
  local kind rest metric lowest='' device=''
  while read -r kind rest; do
    metric=0
    if [[ " $rest " =~ ' metric '([0-9]+)' ' ]]; then metric=${BASH_REMATCH[1]}; fi
    if [ "$kind" = default ] && [[ " $rest " =~ ' dev '([^ ]+)' ' ]] && { [ -z "$lowest" ] || [ "$metric" -lt "$lowest" ]; }; then
      lowest=$metric device=${BASH_REMATCH[1]}
    fi
  done < <(ip -o "-$1" route show default 2>/dev/null)
  echo "$device"
}
type ip >/dev/null 2>&1 || missing "the host has no program ip: install iproute2"
known=
if [ -e "$file" ]; then known=$(<"$file"); fi
device=
for name in "${interfaces[@]}"; do
  if ip link show dev "$name" >/dev/null 2>&1; then device=$name; break; fi
done
if [ ${#interfaces[@]} -gt 0 ] && [ -z "$device" ]; then missing "the host has no interface ${interfaces[*]}"; fi
chosen=()
for family in "${families[@]}"; do
  within=()
  for subnet in "${subnets[@]}"; do
    case $family$subnet in 4*:*) ;; 4* | 6*:*) within+=("$subnet") ;; esac
  done
  if [ ${#interfaces[@]} = 0 ] && [ ${#within[@]} = 0 ]; then
    device=$(gateway "$family")
    if [ -z "$device" ]; then missing "the host has no default route for IPv$family"; fi
  fi
  found=()
  for subnet in "${within[@]:-}"; do
    mapfile -t found < <(usable "$family" ${device:+dev "$device"} ${subnet:+to "$subnet"})
    if [ ${#found[@]} -gt 0 ]; then break; fi
  done
  if [ ${#found[@]} = 0 ]; then
    missing "the host has no IPv$family address${device:+ of the interface $device}${within:+ in ${within[*]}} that is global and neither temporary, deprecated nor tentative"
  fi
  address=${found[0]}
  for each in "${found[@]}"; do
    case ",${known##*=}," in *",$each,"*) address=$each ;; esac
  done
  chosen+=("$address")
done
mkdir -p "${file%/*}"
IFS=,
echo "DROVER_NODE_IP=--node-ip=${chosen[*]}" >"$file"
`

// addNodeIP has the addresses of the Node chosen before each start of the kubelet.
func addNodeIP(n *Node, _ distribution, in Input) error {
	ip := in.Spec.Kubelet.NodeIP
	if len(ip.IPFamilies) == 0 {
		if len(ip.Interfaces)+len(ip.Subnets) > 0 {
			return invalid(nodeIPField+".ipFamilies", "must be IPv4, IPv6 or both")
		}
		return nil
	}
	if err := checkNodeIP(ip); err != nil {
		return err
	}
	if _, fixed := in.Spec.Kubelet.ExtraArgs["node-ip"]; fixed {
		return invalid("spec.kubelet.extraArgs[node-ip]", "excludes spec.kubelet.nodeIP: remove one of them, which may be in the NodeProfile")
	}
	families := make([]string, 0, len(ip.IPFamilies))
	for _, f := range ip.IPFamilies {
		families = append(families, strings.TrimPrefix(string(f), "IPv"))
	}
	script := strings.NewReplacer("FAMILIES", words(families), "INTERFACES", words(ip.Interfaces), "SUBNETS", words(ip.Subnets)).Replace(chooseNodeIP)
	n.Files = append(n.Files, File{Path: nodeIPScript, Mode: 0o755, Content: []byte(script)})
	return nil
}

// words are the elements of an array of bash.
func words(all []string) string {
	quoted := make([]string, 0, len(all))
	for _, each := range all {
		quoted = append(quoted, quote.Shell(each))
	}
	return strings.Join(quoted, " ")
}

// checkNodeIP repeats what the API server checks by rules, which older ones may not have had.
func checkNodeIP(ip bootstrapv1.NodeIP) error {
	for i, f := range ip.IPFamilies {
		if f != corev1.IPv4Protocol && f != corev1.IPv6Protocol || slices.Index(ip.IPFamilies, f) != i {
			return invalid(nodeIPField+".ipFamilies", "must be IPv4, IPv6 or both")
		}
	}
	for i, name := range ip.Interfaces {
		if !interfaceName.MatchString(name) {
			return invalid(nodeIPField+".interfaces["+itoa(i)+"]", "must be the name of a network interface, of letters, digits, underscores, dots and hyphens")
		}
	}
	has := map[corev1.IPFamily]bool{}
	for i, subnet := range ip.Subnets {
		prefix, err := netip.ParsePrefix(subnet)
		if err != nil || prefix.Masked() != prefix || prefix.Addr().Is4In6() {
			return invalid(nodeIPField+".subnets["+itoa(i)+"]", "must be a CIDR block such as 10.0.0.0/16, without bits of a host")
		}
		family := corev1.IPv6Protocol
		if prefix.Addr().Is4() {
			family = corev1.IPv4Protocol
		}
		has[family] = true
	}
	for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		if wanted := slices.Contains(ip.IPFamilies, family); len(has) > 0 && has[family] != wanted {
			return invalid(nodeIPField+".subnets", "must have a subnet of each of ipFamilies and none of another family")
		}
	}
	return nil
}

// writeNodeIP waits for the addresses of the Node: an interface may get its own late.
func (n *Node) writeNodeIP(line func(string, ...any)) {
	if !n.hasFile(nodeIPScript) {
		return
	}
	line("report Running NodeIP")
	line("wait=1 end=$(($(now) + 1800))")
	line("until %s; do", nodeIPScript)
	line("  if [ \"$(now)\" -ge $end ]; then exit 1; fi")
	line("  report Retrying NodeIP")
	line("  sleep $wait")
	line("  wait=$((wait < 30 ? wait * 2 : wait))")
	line("done")
}
