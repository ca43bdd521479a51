{{/* The name of everything of the page for others. */}}
{{- define "ui.name" -}}
cluster-registry-ui
{{- end }}

{{- define "ui.selectorLabels" -}}
app.kubernetes.io/name: {{ include "ui.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ui.labels" -}}
{{ include "ui.selectorLabels" . }}
app.kubernetes.io/version: {{ include "agent.version" (dict "root" . "tag" .Values.image.tag) }}
app.kubernetes.io/component: ui
app.kubernetes.io/part-of: roster
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- with include "agent.commonLabels" . }}
{{ . }}
{{- end }}
{{- end }}

{{/* "true" with ui.enabled. Values of a release of the version before have nothing of it. */}}
{{- define "ui.enabled" -}}
{{- with .Values.ui }}
{{- if and .enabled (not .tlsSecretName) }}
{{- fail "ui.enabled needs ui.tlsSecretName, a Secret with the certificate that the page is served with: visitors send tokens of this cluster" }}
{{- end }}
{{- if .enabled }}true{{ end }}
{{- end }}
{{- end }}

{{/* The pod of the page. It keeps nothing but who has signed in. */}}
{{- define "ui.pod" -}}
metadata:
  labels:
    {{- include "ui.labels" . | nindent 4 }}
spec:
  serviceAccountName: {{ include "ui.name" . }}
  automountServiceAccountToken: true
  enableServiceLinks: false
  terminationGracePeriodSeconds: 10
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- include "agent.onePod" . | nindent 2 }}
  containers:
  - name: ui
    image: {{ include "agent.image" . | quote }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    command:
    - /agentctl
    - ui
    - --listen=:8443
    - --tls-cert-file=/tls/tls.crt
    - --tls-private-key-file=/tls/tls.key
    - --namespace={{ .Release.Namespace }}
    {{- if dig "limits" "memory" "" (.Values.ui.resources | default dict) }}
    env:
    # What the garbage collector goes by.
    - name: GOMEMLIMIT
      valueFrom:
        resourceFieldRef:
          resource: limits.memory
    {{- end }}
    ports:
    - name: https
      containerPort: 8443
    # Ready is: it has read the clusters and the rules. No probe ends it: that would sign everybody out.
    readinessProbe:
      httpGet:
        path: /readyz
        port: https
        scheme: HTTPS
      periodSeconds: 2
      timeoutSeconds: 5
    {{- with .Values.ui.resources }}
    resources:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with .Values.securityContext }}
    securityContext:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    volumeMounts:
    - name: tls
      mountPath: /tls
      readOnly: true
  volumes:
  - name: tls
    secret:
      secretName: {{ .Values.ui.tlsSecretName }}
{{- end }}
