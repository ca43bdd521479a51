{{/* "true" when a Job is to upgrade the CRDs: what helm finds in the cluster is older than what it carries. */}}
{{- define "agent.upgradesCRDs" -}}
{{- if eq .Values.crds.upgrade "always" -}}
true
{{- else if eq .Values.crds.upgrade "auto" -}}
{{- $version := "cluster-registry.k8s.cisco.com/schema-version" -}}
{{- range $path, $content := .Files.Glob "crds/*.yaml" -}}
{{- $carried := $content | toString | fromYaml -}}
{{- $found := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $carried.metadata.name -}}
{{- /* helm template finds nothing: who renders without a cluster applies crds/ himself */ -}}
{{- if $found -}}
{{- if lt (int (dig "metadata" "annotations" $version "0" $found)) (int (index $carried.metadata.annotations $version)) -}}
true
{{- break -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "agent.crdsLabels" -}}
app.kubernetes.io/name: {{ include "agent.name" . }}-crds
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: crds
app.kubernetes.io/part-of: roster
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with include "agent.commonLabels" . }}
{{ . }}
{{- end }}
{{- end }}

{{- define "agent.crdsHook" -}}
helm.sh/hook: pre-install,pre-upgrade
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* What the pods of Jobs and tests share with the agent's. */}}
{{- define "agent.onePod" -}}
{{- with .Values.imagePullSecrets -}}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{ end -}}
{{- with .Values.podSecurityContext -}}
securityContext:
  {{- toYaml . | nindent 2 }}
{{ end -}}
{{- with .Values.dnsConfig -}}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{ end -}}
{{- with .Values.nodeSelector -}}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{ end -}}
{{- with .Values.tolerations -}}
tolerations:
  {{- toYaml . | nindent 2 }}
{{ end -}}
{{- end }}
