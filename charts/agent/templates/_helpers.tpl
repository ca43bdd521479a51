{{/*
The name of everything of the agent. It does not follow the release: a cluster has one agent, and its rights and
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

{{/* A label that tells the version: the tag of an image, or that of the chart. */}}
{{- define "agent.version" -}}
{{ .tag | default .root.Chart.AppVersion | splitList "@" | first | trunc 63 | trimAll "-_." | quote }}
{{- end }}

{{/* Labels of your own, of everything that the chart makes. Values of a release of the version before have none. */}}
{{- define "agent.commonLabels" -}}
{{- with .Values.commonLabels }}{{ toYaml . }}{{ end -}}
{{- end }}

{{- define "agent.labels" -}}
{{ include "agent.selectorLabels" . }}
app.kubernetes.io/version: {{ include "agent.version" (dict "root" . "tag" .Values.image.tag) }}
app.kubernetes.io/component: agent
app.kubernetes.io/part-of: roster
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- with include "agent.commonLabels" . }}
{{ . }}
{{- end }}
{{- end }}

{{/* How many older versions of a Deployment or StatefulSet are kept, or nothing. */}}
{{- define "agent.revisions" -}}
{{- if not (has (toString .Values.revisionHistoryLimit) (list "" "<nil>")) -}}
revisionHistoryLimit: {{ int .Values.revisionHistoryLimit }}
{{- end -}}
{{- end }}

{{/* The address of the API server as an https URL, or nothing. */}}
{{- define "agent.apiServerEndpoint" -}}
{{- with .Values.apiServerEndpointAddress | default .Values.controller.apiServerEndpointAddress -}}
{{- if contains "://" . }}{{ . }}{{ else }}https://{{ . }}{{ end -}}
{{- end -}}
{{- end }}

{{/* NAMESPACE/NAME of the Service whose address the agent advertises, or nothing. */}}
{{- define "agent.meshService" -}}
{{- if not (or .Values.mesh.advertise (eq .Values.mesh.service.type "ClusterIP")) -}}
{{ .Release.Namespace }}/{{ include "agent.name" . }}-mesh
{{- end -}}
{{- end }}

{{/* The namespace that ClusterProfiles are published in, or nothing. Values of a release of the version before have none. */}}
{{- define "agent.publish" -}}
{{- with .Values.publish }}{{ if .clusterProfiles }}{{ .namespace | default $.Release.Namespace }}{{ end }}{{ end -}}
{{- end }}

{{/* The image, with its tag. */}}
{{- define "agent.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* The name of everything of the registry API. */}}
{{- define "registry.name" -}}
cluster-registry-api
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
{{- range $key, $value := .Values.localCluster.labels }}
{{- if or (hasPrefix "cluster-registry.k8s.cisco.com/" $key) (not (regexMatch "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$" $key)) }}
{{- fail (printf "localCluster.labels: %s is not a label key, or one that agents set" $key) }}
{{- end }}
{{- end }}
{{- with .Values.publish }}
{{- if and (not .clusterProfiles) (or .namespace .clusterSet) }}
{{- fail "publish.namespace and publish.clusterSet have no effect without publish.clusterProfiles=true" }}
{{- end }}
{{- if eq (toString .namespace) (include "agent.privateNamespace" $) }}
{{- fail (printf "publish.namespace %s holds the key of this cluster: name one that others may read" .namespace) }}
{{- end }}
{{- end }}
{{- if and .Values.rbac.broadSecretRead (.Values.renew | default dict).namespaces }}
{{- fail "renew.namespaces does not go with rbac.broadSecretRead=true: every member of the group could read there the credentials for all others" }}
{{- end }}
{{- range (.Values.renew | default dict).namespaces }}
{{- if has . (list $.Release.Namespace (include "agent.privateNamespace" $) (include "agent.readersNamespace" $)) }}
{{- fail (printf "renew.namespaces: %s is the agent's own: name one in which another tool reads Secrets" .) }}
{{- end }}
{{- end }}
{{- $service := .Values.mesh.service }}
{{- if and $service.nodePort (eq $service.type "ClusterIP") }}
{{- fail (printf "mesh.service.nodePort %v has no effect with mesh.service.type ClusterIP: set the type to NodePort or LoadBalancer, or leave the port out" $service.nodePort) }}
{{- end }}
{{- if and .Values.controller.pprof (ne .Values.service.type "ClusterIP") }}
{{- fail (printf "controller.pprof would show the agent's memory to everybody who reaches the Service: it does not go with service.type %s" .Values.service.type) }}
{{- end }}
{{- if eq (int .Values.mesh.port) (int .Values.health.port) }}
{{- fail (printf "mesh.port and health.port are both %v: give one of them another port" .Values.mesh.port) }}
{{- end }}
{{- if not (or .Values.networkPolicy.enabled (and (empty .Values.networkPolicy.metricsNamespaces) (empty .Values.networkPolicy.egress))) }}
{{- fail "networkPolicy.metricsNamespaces and networkPolicy.egress have no effect without networkPolicy.enabled=true" }}
{{- end }}
{{- range $label := list "app.kubernetes.io/name" "app.kubernetes.io/instance" }}
{{- if hasKey ($.Values.podLabels | default dict) $label }}
{{- fail (printf "podLabels must not set %s, which selects the agent's pods" $label) }}
{{- end }}
{{- end }}
{{- include "agent.checkExtras" . }}
{{- include "agent.checkHA" . }}
{{- range (.Values.registry | default dict).callers }}
{{- if has . (list "system:unauthenticated" "system:anonymous") }}
{{- fail (printf "registry.callers must not have %s: the registry API goes by who a caller is" .) }}
{{- end }}
{{- end }}
{{- if gt (len .Release.Namespace) 55 }}
{{- fail (printf "namespace %s is too long: %s-readers and %s-private must be names of namespaces too" .Release.Namespace .Release.Namespace .Release.Namespace) }}
{{- end }}
{{- end }}

{{/* What no schema can say of labels and containers of your own. */}}
{{- define "agent.checkExtras" -}}
{{- $others := dict "podLabels" .Values.podLabels }}
{{- range $name, $of := .Values.monitoring }}
{{- $_ := set $others (printf "monitoring.%s.labels" $name) ($of | default dict).labels }}
{{- end }}
{{- range $key, $value := .Values.commonLabels }}
{{- if or (hasPrefix "app.kubernetes.io/" $key) (hasPrefix "helm.sh/" $key) }}
{{- fail (printf "commonLabels must not set %s, which the chart sets" $key) }}
{{- end }}
{{- if or (contains "cluster-registry.k8s.cisco.com/" $key) (hasPrefix "rbac.authorization.k8s.io/" $key) }}
{{- fail (printf "commonLabels must not set %s, which agents or Kubernetes would obey" $key) }}
{{- end }}
{{- range $name, $labels := $others }}
{{- if hasKey ($labels | default dict) $key }}
{{- fail (printf "commonLabels and %s both set %s: set it in one of them" $name $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- range .Values.extraArgs }}
{{- $flag := . | trimPrefix "-" | trimPrefix "-" | splitList "=" | first }}
{{- if or (hasPrefix "consent-" $flag) (has $flag (list "trust-authorities" "cluster-labels" "group-peers" "renew-namespaces")) }}
{{- fail (printf "extraArgs must not set --%s, which would add to what the chart's own values say: set those" $flag) }}
{{- end }}
{{- end }}
{{- range .Values.extraVolumes }}
{{- if eq .name "data" }}
{{- fail "extraVolumes must not have data, which is the agent's own volume" }}
{{- end }}
{{- end }}
{{- range .Values.extraEnv }}
{{- if has .name (list "POD_NAME" "GOMEMLIMIT") }}
{{- fail (printf "extraEnv must not set %s, which the chart sets" .name) }}
{{- end }}
{{- end }}
{{- with .Values.monitoring.podMonitor }}
{{- if and .enabled ($.Values.monitoring.serviceMonitor | default dict).enabled }}
{{- fail "monitoring.podMonitor and monitoring.serviceMonitor would read the same metrics twice: enable one of them" }}
{{- end }}
{{- end }}
{{- end }}
