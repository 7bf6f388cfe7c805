#!/usr/bin/env bash
# Runs the conformance suite, machines with all that a spec may hold, a story, a count of calls and the fault rig
# against a real OpenStack. Arguments go to `go test`.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ -z ${OS_AUTH_URL:-} && -z ${OS_CLOUD:-} ]]; then
  cat >&2 <<'HOW'
There is no OpenStack to test against. Set either

  OS_CLOUD=<name>          of a cloud in a clouds.yaml that OS_CLIENT_CONFIG_FILE or the usual folders hold

or, as an openrc file does,

  OS_AUTH_URL=http://127.0.0.1:5000/v3 OS_USERNAME=demo OS_PASSWORD=... OS_PROJECT_NAME=demo
  OS_USER_DOMAIN_NAME=Default OS_PROJECT_DOMAIN_NAME=Default OS_REGION_NAME=RegionOne

and say what there is, if it is not called like this:

  OPENSTACK_FLAVOR=m1.small OPENSTACK_IMAGE=ubuntu OPENSTACK_NETWORK=net

An ordinary member of the project is enough. The project needs room for 64 servers of that flavor and as many
ports, two networks with three subnets, a security group, a key pair, two images and a server group; where there
is a Cinder, for 40 volumes of 1 or 2 GiB too, and for less than 16,000 GiB, to see a quota.
For more, name what the cloud has besides:

  OPENSTACK_HUGE_FLAVOR        a flavor that fits on no host, to see a lack of room
  OPENSTACK_EXTERNAL_NETWORK   a network that floating IPs come from, with a router between it and OPENSTACK_NETWORK
  DROVER_SOAK_LIFECYCLES       machines in the fault rig, 24 unless said otherwise; DROVER_SOAK_SEED for another run
HOW
  exit 2
fi

export DROVER_SOAK_LIFECYCLES=${DROVER_SOAK_LIFECYCLES:-24}
cd infra-providers
DROVER_E2E_OPENSTACK=1 GOWORK=off exec go test -count=1 -parallel 2 -timeout 3h -run '^TestReal' "$@" ./openstack
