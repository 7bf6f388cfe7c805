#!/usr/bin/env bash
# Generates deepcopy code, CRDs and RBAC roles, the one manifest that `kubectl apply` takes, and the reference
# of fields, metrics and conditions.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
export GOWORK=off

# tool runs a pinned tool in the folder of a module.
tool() { (cd "$1" && shift && go tool -modfile="$root/hack/tools/go.mod" "$@"); }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Upstream's kinds: CRDs from their Go types, plus the defaults and rules of hack/crds.
tool api controller-gen crd paths=sigs.k8s.io/cluster-api/api/core/v1beta2 "output:crd:dir=$scratch"
cp hack/crds/*.yaml "$scratch"
mkdir "$scratch/out"
tool api kustomize build "$scratch" -o "$scratch/out"
rm -rf api/crds/bases && mkdir -p api/crds/bases
for file in "$scratch"/out/*.yaml; do
  kind=${file##*_customresourcedefinition_}
  kind=${kind%.cluster.x-k8s.io.yaml}
  cp "$file" "api/crds/bases/cluster.x-k8s.io_$kind.yaml"
done

# Our kinds.
tool api controller-gen object:headerFile="$root/hack/boilerplate.go.txt" crd \
  paths=./infrastructure/... paths=./bootstrap/... paths=./policy/... output:crd:dir=crds/bases
# What a client cannot decode stops the informers of all namespaces: the API server accepts lower case letters and any offset
# in times, any array in the place of a string with a format, numbers of any size where a string is allowed too, and quantities
# with a fraction in the exponent.
for file in api/crds/bases/*.yaml; do
  awk '
    { match($0, /^ */); indent = substr($0, 1, RLENGTH) }
    /^ *x-kubernetes-int-or-string: true$/ {
      if (previous ~ /^ *pattern: /) print indent "maxLength: 32"
      else print indent "maximum: 2147483647\n" indent "minimum: 0"
    }
    /^ *pattern: \^\(\\\+\|-\)\?\(\(\[0-9\]/ { $0 = indent "pattern: ^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$" }
    { print; previous = $0 }
    /^ *format: date-time$/ { print indent "pattern: ^[1-8][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$" }
    /^ *format: (date-time|uuid)$/ { print indent "minItems: 1\n" indent "maxItems: 0" }
  ' "$file" > "$scratch/bounded" && cp "$scratch/bounded" "$file"
done
# An object nested as deeply as a request may be is deeper in the list of all objects, or with the record of who manages its
# fields, which no client or API server can decode then. So objects without a schema, as fragments of the kubelet's
# configuration are, have a few levels.
for file in api/crds/bases/bootstrap.drover.io_*.yaml; do
  awk '
    # value writes the schema of any value in which so many levels are below.
    function value(levels, array, indent) {
      print indent "nullable: true"
      print indent "x-kubernetes-preserve-unknown-fields: true"
      if (array || !levels) print indent "maxItems: 0"
      if (!levels) { print indent "maxProperties: 0"; return }
      print indent "additionalProperties:"
      value(levels - 1, 0, indent "  ")
      if (!array) { print indent "items:"; value(levels - 1, 1, indent "  ") }
    }
    { match($0, /^ */); indent = substr($0, 1, RLENGTH) }
    /^ *x-kubernetes-preserve-unknown-fields: true$/ && previous == indent "type: object" { print indent "additionalProperties:"; value(5, 0, indent "  "); previous = ""; next }
    { print; previous = $0 }
  ' "$file" > "$scratch/bounded" && cp "$scratch/bounded" "$file"
done
(cd api/crds && printf 'resources:\n' && printf -- '- %s\n' bases/*.yaml) > api/crds/kustomization.yaml

# What each manager may do, from the markers in its code.
role() { # module, ClusterRole's name, folder of the role, packages…
  local module=$1 name=$2 folder=$3
  shift 3
  tool "$module" controller-gen "rbac:roleName=$name" "${@/#/paths=}" "output:rbac:dir=$folder"
}
role machine-controller drover-machine-controller config/rbac ./...
role bootstrap drover-bootstrap config/rbac ./...
for command in infra-providers/cmd/*; do
  cloud=$(basename "$command")
  role infra-providers "drover-infra-$cloud" "config/rbac/$cloud" ./internal/... "./$cloud/..." "./cmd/$cloud/..."
done

# The plugin compares what is installed with these roles.
roles=kubectl-drover/internal/check/roles
rm -rf "$roles" && mkdir "$roles"
cp machine-controller/config/rbac/role.yaml "$roles/machine-controller.yaml"
cp bootstrap/config/rbac/role.yaml "$roles/bootstrap.yaml"
for folder in infra-providers/config/rbac/*; do
  cp "$folder/role.yaml" "$roles/infra-$(basename "$folder").yaml"
done

# The reference of metrics, from their declarations. All infrastructure providers have the same ones.
page=$root/docs/reference/metrics.md
cp hack/reference/metrics.txt "$scratch/metrics.md"
metrics() { # title, module, command
  printf '\n## %s\n\n' "$1"
  (cd "$2" && go run "$3" metrics)
}
{
  metrics machine-controller machine-controller .
  metrics bootstrap bootstrap .
  metrics infra-CLOUD infra-providers ./cmd/sim
} >> "$scratch/metrics.md"
cp "$scratch/metrics.md" "$page"

# The pages of the fields of each kind, from the Go types: our own, and upstream's, whose module is a dependency of ours.
upstream=$(cd api && go list -m -f '{{.Dir}}' sigs.k8s.io/cluster-api/api)
for source in "$root/api" "$upstream/core/v1beta2"; do
  tool api crd-ref-docs --renderer=markdown --log-level=ERROR --source-path="$source" --output-path="$scratch/fields.md" \
    --config="$root/hack/reference/fields/config.yaml" --templates-dir="$root/hack/reference/fields/templates"
  cat "$scratch/fields.md" >> "$scratch/pages.md"
done
rm -rf docs/reference/api && mkdir -p docs/reference/api
awk '
  /^page: / { page = "docs/reference/api/" $2 ".md"; blank = 0; next }
  !NF { blank = 1; next }
  { if (blank && started[page]) print "" > page; started[page] = 1; blank = 0; print > page }
' "$scratch/pages.md"

# The reference page of all conditions, from the table of their reasons.
(cd api && go run ./reason/page) > "$scratch/conditions.md"
cp "$scratch/conditions.md" docs/reference/conditions.md
