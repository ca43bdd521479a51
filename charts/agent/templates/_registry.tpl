{{- define "registry.selectorLabels" -}}
app.kubernetes.io/name: {{ include "registry.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "registry.labels" -}}
{{ include "registry.selectorLabels" . }}
app.kubernetes.io/version: {{ include "agent.version" (dict "root" . "tag" .Values.registry.image.tag) }}
app.kubernetes.io/component: registry-api
app.kubernetes.io/part-of: roster
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- with include "agent.commonLabels" . }}
{{ . }}
{{- end }}
{{- end }}

{{/* "true" with registry.enabled. Values of a release of the version before have nothing of it. */}}
{{- define "registry.enabled" -}}
{{- with .Values.registry }}
{{- if and .enabled (not (and .image .replicas)) }}
{{- fail "registry.enabled needs registry.image and registry.replicas, which values of an older release lack: use --reset-then-reuse-values in place of --reuse-values" }}
{{- end }}
{{- if .enabled }}true{{ end }}
{{- end }}
{{- end }}

{{/* The port that its servers listen on. Values of an older release lack it. */}}
{{- define "registry.port" -}}
{{ int (.Values.registry.port | default 10250) }}
{{- end }}

{{/* The pod of a server of the registry API. It keeps nothing, so it has no volume. */}}
{{- define "registry.pod" -}}
metadata:
  labels:
    {{- include "registry.labels" . | nindent 4 }}
spec:
  serviceAccountName: {{ include "registry.name" . }}
  automountServiceAccountToken: true
  enableServiceLinks: false
  terminationGracePeriodSeconds: 30
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- include "agent.onePod" . | nindent 2 }}
  {{- with include "agent.affinity" (dict "root" . "several" (gt (int .Values.registry.replicas) 1) "labels" "registry.selectorLabels") }}
  affinity:
    {{- . | nindent 4 }}
  {{- end }}
  containers:
  - name: apiserver
    image: "{{ .Values.registry.image.repository }}:{{ .Values.registry.image.tag | default .Chart.AppVersion }}"
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    args:
    - aggregated
    - --listen=:{{ include "registry.port" . }}
    - --namespace={{ .Release.Namespace }}
    - --service={{ include "registry.name" . }}
    - --secret-namespace={{ include "agent.privateNamespace" . }}
    - --log-format={{ .Values.controller.log.format }}
    - --log-level={{ include "agent.logLevel" . }}
    {{- if dig "limits" "memory" "" (.Values.registry.resources | default dict) }}
    env:
    # What the garbage collector goes by.
    - name: GOMEMLIMIT
      valueFrom:
        resourceFieldRef:
          resource: limits.memory
    {{- end }}
    ports:
    - name: https
      containerPort: {{ include "registry.port" . }}
    # While it ends, it still answers who has not heard of that.
    lifecycle:
      preStop:
        sleep:
          seconds: 10
    startupProbe:
      httpGet:
        path: /livez
        port: https
        scheme: HTTPS
      periodSeconds: 1
      failureThreshold: 60
    livenessProbe:
      httpGet:
        path: /livez
        port: https
        scheme: HTTPS
      timeoutSeconds: 5
      failureThreshold: 6
    # Ready is: it knows the roles, and the API server knows its CA.
    readinessProbe:
      httpGet:
        path: /readyz
        port: https
        scheme: HTTPS
      periodSeconds: 2
      timeoutSeconds: 5
    {{- with .Values.registry.resources }}
    resources:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with .Values.securityContext }}
    securityContext:
      {{- toYaml . | nindent 6 }}
    {{- end }}
{{- end }}
