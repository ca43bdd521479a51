{{/* The name of the headless Service that gives each agent of this cluster a name of its own. */}}
{{- define "agent.group" -}}
{{ include "agent.name" . }}-group
{{- end }}

{{/* HOST:PORT where the other agents of this cluster reach the mesh port of a pod: root, pod. */}}
{{- define "agent.groupAddress" -}}
{{ .pod }}.{{ include "agent.group" .root }}.{{ .root.Release.Namespace }}.svc:{{ .root.Values.mesh.port }}
{{- end }}

{{- define "agent.groupPeers" -}}
{{- $peers := list }}
{{- range $i := until 3 }}
{{- $peers = append $peers (include "agent.groupAddress" (dict "root" $ "pod" (printf "%s-%d" (include "agent.name" $) $i))) }}
{{- end }}
{{- join "," $peers }}
{{- end }}

{{/* Pods that stand in for each other are better on nodes of their own: root, several, labels is what they have. */}}
{{- define "agent.affinity" -}}
{{- $affinity := deepCopy (.root.Values.affinity | default dict) }}
{{- if and .several (not $affinity.podAntiAffinity) }}
{{- $apart := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" (include .labels .root | fromYaml)) }}
{{- $_ := set $affinity "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list (dict "weight" 100 "podAffinityTerm" $apart))) }}
{{- end }}
{{- with $affinity }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{/*
An agent that is alone and the three that follow it, or the other way round, must not run at the same time: they have
one key, and would be taken for a cloned cluster.
*/}}
{{- define "agent.checkHA" -}}
{{- if and .Values.ha.enabled .Values.persistence.existingClaim }}
{{- fail "persistence.existingClaim is one volume, and with ha.enabled each of three agents has its own: leave it out" }}
{{- end }}
{{- $other := .Values.ha.enabled | ternary "Deployment" "StatefulSet" }}
{{- $found := lookup "apps/v1" $other .Release.Namespace (include "agent.name" .) | default dict }}
{{- if and .Values.replicas (or (dig "spec" "replicas" 0 $found) (dig "status" "replicas" 0 $found)) }}
{{- fail (printf "ha.enabled=%v cannot be changed while agents run: first helm upgrade with ha.enabled=%v and replicas=0, and wait until their pods are gone" .Values.ha.enabled (not .Values.ha.enabled)) }}
{{- end }}
{{- end }}
