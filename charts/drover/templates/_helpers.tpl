{{/*
The programs that are to be installed, as JSON: a map from the program's name to its settings.
*/}}
{{- define "drover.programs" -}}
{{- $programs := dict -}}
{{- range $name, $settings := .Values.managers -}}
  {{- if not (has $name (list "machine-controller" "bootstrap")) -}}
    {{- fail (printf "managers.%s: there is no such manager: machine-controller and bootstrap are known" $name) -}}
  {{- end -}}
  {{- if ($settings | default dict).enabled -}}
    {{- $_ := set $programs $name $settings -}}
  {{- end -}}
{{- end -}}
{{- $clouds := list -}}
{{- range $path, $_ := .Files.Glob "files/manager/infra-*.yaml" -}}
  {{- $clouds = append $clouds (trimSuffix ".yaml" (trimPrefix "files/manager/infra-" $path)) -}}
{{- end -}}
{{- range $cloud, $settings := .Values.infrastructure -}}
  {{- if not (has $cloud $clouds) -}}
    {{- fail (printf "infrastructure.%s: there is no such provider: %s are known" $cloud (join ", " (sortAlpha $clouds))) -}}
  {{- end -}}
  {{- if dig "enabled" true ($settings | default dict) -}}
    {{- $_ := set $programs (printf "infra-%s" $cloud) ($settings | default dict) -}}
  {{- end -}}
{{- end -}}
{{- if not $programs -}}
  {{- fail "nothing would be installed: enable one of managers, or name a provider in infrastructure" -}}
{{- end -}}
{{- toJson $programs -}}
{{- end -}}

{{/*
The full name of a program's image. A digest of the release belongs to the tag of its version. Takes root, program and settings.
*/}}
{{- define "drover.image" -}}
{{- $image := .root.Values.image -}}
{{- $digest := .settings.digest -}}
{{- if and (not $digest) (not $image.tag) }}{{ $digest = get (.root.Files.Get "files/digests.yaml" | fromYaml) .program }}{{ end -}}
{{- printf "%s/drover-%s:%s%s" ($image.registry | default (index .root.Chart.Annotations "drover.io/registry") | default "localhost") .program ($image.tag | default .root.Chart.AppVersion) (ternary (printf "@%s" $digest) "" (not (empty $digest))) -}}
{{- end -}}

{{/*
The labels of every object of a program. Takes root and program.
*/}}
{{- define "drover.labels" -}}
app.kubernetes.io/name: drover-{{ .program }}
app.kubernetes.io/part-of: drover
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
{{- end -}}

{{/*
The arguments that every manager gets. Takes root, program and settings.
*/}}
{{- define "drover.args" -}}
- --leader-elect
- --log-format={{ .root.Values.log.format }}
- --v={{ .root.Values.log.level }}
{{- if .root.Values.metrics.secure }}
- --metrics-secure
{{- end }}
{{- with .root.Values.watchFilter }}
- --watch-filter={{ . }}
{{- end }}
{{- with .root.Values.watchNamespace }}
- --namespace={{ . }}
{{- end }}
{{- with .root.Values.tracing.endpoint }}
- --tracing-endpoint={{ . }}
- --tracing-sampling-rate-per-million={{ $.root.Values.tracing.samplingRatePerMillion | int }}
{{- end }}
{{- $settings := dict "leader-elect" "replicas" "log-format" "log.format" "v" "log.level" "watch-filter" "watchFilter" "namespace" "watchNamespace" "metrics-secure" "metrics.secure" "tracing-endpoint" "tracing.endpoint" "tracing-sampling-rate-per-million" "tracing.samplingRatePerMillion" }}
{{- range .settings.args }}
{{- $flag := first (splitList "=" .) }}
{{- with get $settings (trimPrefix "--" $flag) }}
{{- fail (printf "%s: args must not have %s: use the setting %s of the chart" $.program $flag .) }}
{{- end }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{/*
The name of a role or binding that is not in the release's namespace. Takes root and name.
*/}}
{{- define "drover.clusterName" -}}
{{- printf "%s:%s" .name .root.Release.Namespace -}}
{{- end -}}
