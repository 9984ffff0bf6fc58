{{- /*
A PodMonitor, or a ServiceMonitor with its Service, for one kind of agent. Its list: the chart's context, and
  suffix     of the name,
  labels     that the pods are found by,
  isNode     whether it is the nodes' agent, whose series name namespace and pod of the client.
*/ -}}
{{- define "brokerwire.monitor" -}}
{{- $ := index . 0 -}}
{{- $of := index . 1 -}}
{{- $monitor := $.Values.podMonitor -}}
{{- $is_service := $.Values.serviceMonitor.enabled -}}
{{- $name := printf "%s%s" (include "brokerwire.fullname" $) $of.suffix -}}
apiVersion: monitoring.coreos.com/v1
kind: {{ ternary "ServiceMonitor" "PodMonitor" $is_service }}
metadata:
  name: {{ $name }}
  namespace: {{ $.Release.Namespace }}
  labels:
    {{- include "brokerwire.labels" $ | nindent 4 }}
    {{- with $monitor.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- if not $is_service }}
  jobLabel: {{ $monitor.jobLabel }}
  {{- end }}
  selector:
    matchLabels:
      {{- if $is_service }}
      brokerwire/scrape: {{ $name }}
      {{- else }}
      {{- $of.labels | nindent 6 }}
      {{- end }}
  {{- if $is_service }}
  namespaceSelector:
    matchNames: [{{ $.Release.Namespace }}]
  {{- else if $of.isNode }}
  {{- else if $monitor.namespaces }}
  namespaceSelector:
    matchNames:
      {{- toYaml $monitor.namespaces | nindent 6 }}
  {{- else if $.Values.inject.enabled }}
  namespaceSelector:
    any: true
  {{- end }}
  {{ ternary "endpoints" "podMetricsEndpoints" $is_service }}:
    - {{- include "brokerwire.endpoint" $ | nindent 6 }}
      {{- if $of.isNode }}
      # The labels namespace and pod are the client's, and not the agent's own.
      honorLabels: true
      {{- end }}
      {{- if or $monitor.relabelings $is_service }}
      relabelings:
        {{- if $is_service }}
        # One Service before all of them: the job is each pod's own name.
        - sourceLabels: [__meta_kubernetes_pod_label_{{ regexReplaceAll "[^a-zA-Z0-9_]" $monitor.jobLabel "_" }}]
          regex: (.+)
          targetLabel: job
        {{- end }}
        {{- with $monitor.relabelings }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
      {{- with $monitor.metricRelabelings }}
      metricRelabelings:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- if $is_service }}
---
# Headless: only for the ServiceMonitor to find the pods of this namespace by.
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
  namespace: {{ $.Release.Namespace }}
  labels:
    {{- include "brokerwire.labels" $ | nindent 4 }}
    brokerwire/scrape: {{ $name }}
spec:
  clusterIP: None
  # An application that is not ready is the one to look at.
  publishNotReadyAddresses: true
  selector:
    {{- $of.labels | nindent 4 }}
  ports:
    - name: brokerwire
      port: 10920
      targetPort: brokerwire
      protocol: TCP
{{- end }}
{{- end -}}
