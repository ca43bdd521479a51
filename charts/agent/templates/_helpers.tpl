{{/*
The name of everything here. It does not follow the release: a cluster has one agent, and its rights and
its ServiceAccount are known by this name outside of the chart.
*/}}
{{- define "agent.name" -}}
cluster-registry-controller
{{- end }}

{{- define "agent.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "agent.name" .) }}
{{- end }}

{{- define "agent.privateNamespace" -}}
{{ .Release.Namespace }}-private
{{- end }}

{{- define "agent.readersNamespace" -}}
{{ .Release.Namespace }}-readers
{{- end }}

{{- define "agent.selectorLabels" -}}
app.kubernetes.io/name: {{ include "agent.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "agent.labels" -}}
{{ include "agent.selectorLabels" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/component: agent
app.kubernetes.io/part-of: roster
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* The address of the API server as an https URL, or nothing. */}}
{{- define "agent.apiServerEndpoint" -}}
{{- with .Values.apiServerEndpointAddress | default .Values.controller.apiServerEndpointAddress -}}
{{- if contains "://" . }}{{ . }}{{ else }}https://{{ . }}{{ end -}}
{{- end -}}
{{- end }}

{{- define "agent.logLevel" -}}
{{ .Values.controller.log.level | default (gt (int .Values.controller.log.verbosity) 0 | ternary "debug" "info") }}
{{- end }}

{{/* What no schema can say. */}}
{{- define "agent.check" -}}
{{- $name := .Values.localCluster.name }}
{{- if and .Values.replicas $name (not (regexMatch "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$" $name)) }}
{{- fail (printf "localCluster.name %s is not a name that an object can have: use lower case letters, digits, - and ." $name) }}
{{- end }}
{{- if gt (len .Release.Namespace) 55 }}
{{- fail (printf "namespace %s is too long: %s-readers and %s-private must be names of namespaces too" .Release.Namespace .Release.Namespace .Release.Namespace) }}
{{- end }}
{{- end }}
