#!/usr/bin/env bash
# Runs the conformance suite, machines with all fields of a spec, lifecycles, a count of calls and fault injection
# against a real OpenStack. Arguments go to `go test`.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ -z ${OS_AUTH_URL:-} && -z ${OS_CLOUD:-} ]]; then
  cat >&2 <<'HOW'
No OpenStack is configured. Set either

  OS_CLOUD=<name>          of a cloud in a clouds.yaml in OS_CLIENT_CONFIG_FILE or the usual folders

or, as in an openrc file,

  OS_AUTH_URL=http://127.0.0.1:5000/v3 OS_USERNAME=demo OS_PASSWORD=... OS_PROJECT_NAME=demo
  OS_USER_DOMAIN_NAME=Default OS_PROJECT_DOMAIN_NAME=Default OS_REGION_NAME=RegionOne

and the names of existing resources, if they differ from these:

  OPENSTACK_FLAVOR=m1.small OPENSTACK_IMAGE=ubuntu OPENSTACK_NETWORK=net

The role member in the project is enough. The project needs quota for 64 servers of that flavor and as many
ports, two networks with three subnets, a security group, a key pair, two images and a server group; with Cinder,
also for 40 volumes of 1 or 2 GiB, and for less than 16,000 GiB, to test a quota.
Further tests need:

  OPENSTACK_HUGE_FLAVOR        a flavor that fits on no host, to test a lack of capacity
  OPENSTACK_EXTERNAL_NETWORK   a network that floating IPs come from, with a router between it and OPENSTACK_NETWORK
  DROVER_SOAK_LIFECYCLES       machines of fault injection, by default 24; DROVER_SOAK_SEED for another run
HOW
  exit 2
fi

export DROVER_SOAK_LIFECYCLES=${DROVER_SOAK_LIFECYCLES:-24}
cd infra-providers
DROVER_E2E_OPENSTACK=1 GOWORK=off exec go test -count=1 -parallel 2 -timeout 3h -run '^TestReal' "$@" ./openstack
