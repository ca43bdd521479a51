{{/* The pod of an agent, as a Deployment and a StatefulSet have it. */}}
{{- define "agent.pod" -}}
metadata:
  labels:
    {{- include "agent.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "agent.serviceAccount" . }}
  automountServiceAccountToken: true
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.podSecurityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
  - name: agent
    image: {{ include "agent.image" . | quote }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    args:
    - run
    # An end would be a crash loop, in which nobody can ask what is wrong.
    - --keep-trying
    - --namespace={{ .Release.Namespace }}
    {{- with .Values.localCluster.name }}
    - --cluster-name={{ . }}
    {{- end }}
    {{- range $key, $value := .Values.localCluster.labels }}
    - --cluster-labels={{ $key }}={{ $value }}
    {{- end }}
    - --manage-secret={{ .Values.localCluster.manageSecret }}
    {{- if dig "legacyToken" false (.Values.credentials | default dict) }}
    - --legacy-token
    {{- end }}
    - --data-dir=/var/lib/roster
    {{- if .Values.ha.enabled }}
    - --group-peers={{ include "agent.groupPeers" . }}
    - --group-address={{ include "agent.groupAddress" (dict "root" . "pod" "$(POD_NAME)") }}
    {{- end }}
    - --mesh-listen=:{{ .Values.mesh.port }}
    {{- with .Values.mesh.advertise }}
    - --mesh-advertise={{ . }}
    {{- end }}
    {{- with include "agent.meshService" . }}
    - --mesh-service={{ . }}
    {{- end }}
    - --http-listen=:{{ .Values.health.port }}
    {{- with include "agent.apiServerEndpoint" . }}
    - --apiserver-endpoint={{ . }}
    {{- end }}
    - --network-name={{ .Values.controller.network.name }}
    - --core-resource-source={{ .Values.controller.coreResourceSource.enabled }}
    {{- if .Values.controller.pprof }}
    - --pprof
    {{- end }}
    - --workers={{ .Values.controller.workers }}
    {{- with .Values.controller.kubeAPIQPS }}
    - --kube-api-qps={{ int . }}
    {{- end }}
    - --guard-live={{ .Values.guard.live }}
    {{- with .Values.consent.allow.kinds }}
    - --consent-kinds={{ join "," . }}
    {{- end }}
    {{- with .Values.consent.allow.secretTypes }}
    - --consent-secret-types={{ join "," . }}
    {{- end }}
    {{- with .Values.consent.allow.secretsAs }}
    - --consent-secrets-as={{ join "," . }}
    {{- end }}
    {{- with .Values.consent.allow.namespaces }}
    - --consent-namespaces={{ join "," . }}
    {{- end }}
    {{- $accept := (.Values.trust | default dict).accept | default "all" }}
    {{- if ne $accept "all" }}{{/* the default: an agent of the version before does not know the flag */}}
    - --trust-accept={{ $accept }}
    {{- end }}
    {{- with (.Values.trust | default dict).authorities }}
    - --trust-authorities={{ join "," . }}
    {{- end }}
    {{- with (.Values.renew | default dict).namespaces }}
    - --renew-namespaces={{ join "," . }}
    {{- end }}
    {{- if include "agent.publish" . }}
    - --publish-cluster-profiles
    {{- with .Values.publish.namespace }}
    - --publish-namespace={{ . }}
    {{- end }}
    {{- with .Values.publish.clusterSet }}
    - --publish-cluster-set={{ . }}
    {{- end }}
    {{- end }}
    - --log-format={{ .Values.controller.log.format }}
    - --log-level={{ include "agent.logLevel" . }}
    {{- with .Values.extraArgs }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- $limited := dig "limits" "memory" "" (.Values.resources | default dict) }}
    {{- if or $limited .Values.ha.enabled .Values.extraEnv }}
    env:
    {{- end }}
    {{- if .Values.ha.enabled }}
    - name: POD_NAME
      valueFrom:
        fieldRef:
          fieldPath: metadata.name
    {{- end }}
    {{- if $limited }}
    # What the garbage collector, and the bounds on what one peer may send, go by.
    - name: GOMEMLIMIT
      valueFrom:
        resourceFieldRef:
          resource: limits.memory
    {{- end }}
    {{- with .Values.extraEnv }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    ports:
    - name: mesh
      containerPort: {{ .Values.mesh.port }}
    - name: http
      containerPort: {{ .Values.health.port }}
    # The port is opened first, whatever the API server does: a start that waits for that is no reason to kill it.
    startupProbe:
      httpGet:
        path: /healthz
        port: http
      periodSeconds: 1
      failureThreshold: 60
    livenessProbe:
      httpGet:
        path: /healthz
        port: http
      timeoutSeconds: 5
      failureThreshold: 6
    # Ready is: caught up with the local API server, and at an address that others can be told. Not: joined.
    readinessProbe:
      httpGet:
        path: /readyz
        port: http
      periodSeconds: 2
      timeoutSeconds: 5
    {{- with .Values.resources }}
    resources:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with .Values.securityContext }}
    securityContext:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    volumeMounts:
    - name: data
      mountPath: /var/lib/roster
    {{- with .Values.extraVolumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- $claimed := and .Values.ha.enabled .Values.persistence.enabled }}
  {{- if or .Values.extraVolumes (not $claimed) }}
  volumes:
  {{- end }}
  {{- if not $claimed }}
  - name: data
    {{- if .Values.persistence.enabled }}
    persistentVolumeClaim:
      claimName: {{ .Values.persistence.existingClaim | default (include "agent.name" .) }}
    {{- else }}
    emptyDir: {}
    {{- end }}
  {{- end }}
  {{- with .Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with .Values.dnsConfig }}
  dnsConfig:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with include "agent.affinity" (dict "root" . "several" .Values.ha.enabled "labels" "agent.selectorLabels") }}
  affinity:
    {{- . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
  {{- range . }}
  {{- $selector := dict "labelSelector" (dict "matchLabels" (include "agent.selectorLabels" $ | fromYaml)) }}
  - {{- toYaml (merge (deepCopy .) $selector) | nindent 4 }}
  {{- end }}
  {{- end }}
{{- end }}
