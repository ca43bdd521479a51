{{/*
The rules that files/rights.yaml gives: who is one that it names, in is the place.
*/}}
{{- define "agent.rights" -}}
{{- $when := dict "mesh.service" (include "agent.meshService" .root) "rbac.broadSecretRead" .root.Values.rbac.broadSecretRead "publish.clusterProfiles" (include "agent.publish" .root) -}}
{{- range index (.root.Files.Get "files/rights.yaml" | fromYaml) .who .in }}
{{- if or (not .when) (index $when .when) }}
# {{ .why }}
- apiGroups: {{ toJson .apiGroups }}
  resources: {{ toJson .resources }}
  {{- with .resourceNames }}
  resourceNames: {{ toJson . }}
  {{- end }}
  verbs: {{ toJson .verbs }}
{{- end }}
{{- end }}
{{- end }}

{{/*
A Role with the rights of who in a place, and its binding: name, namespace, and labels, which are the agent's by default.
*/}}
{{- define "agent.role" -}}
{{- $labels := .labels | default "agent.labels" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels:
    {{- include $labels .root | nindent 4 }}
rules:
{{- include "agent.rights" . }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels:
    {{- include $labels .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .name }}
subjects:
{{ include (printf "agent.subject.%s" .who) .root }}
{{- end }}

{{/*
The ClusterRole of the chart's own rights, one that is the sum of all with a label, and their bindings: name, label.
The chart's own has not that label: Kubernetes, which fills in the sum, would make it again where helm uninstall takes
both away at once.
*/}}
{{- define "agent.clusterRole" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .name }}-aggregated
  labels:
    {{- include "agent.labels" .root | nindent 4 }}
aggregationRule:
  clusterRoleSelectors:
  - matchLabels:
      cluster-registry.k8s.cisco.com/{{ .label }}: "true"
# rules are filled in by Kubernetes
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .name }}
  labels:
    {{- include "agent.labels" .root | nindent 4 }}
rules:
{{- include "agent.rights" (merge (dict "in" "cluster") .) }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "agent.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .name }}-aggregated
subjects:
{{ include (printf "agent.subject.%s" .who) .root }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .name }}-chart
  labels:
    {{- include "agent.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .name }}
subjects:
{{ include (printf "agent.subject.%s" .who) .root }}
{{- end }}

{{- define "agent.subject.agent" -}}
- kind: ServiceAccount
  name: {{ include "agent.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{- define "agent.subject.reader" -}}
- apiGroup: rbac.authorization.k8s.io
  kind: Group
  name: system:serviceaccounts:{{ include "agent.readersNamespace" . }}
{{- end }}

{{- define "agent.subject.registry" -}}
- kind: ServiceAccount
  name: {{ include "registry.name" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}
