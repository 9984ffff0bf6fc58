{{- /* Names, labels and the image: what all other templates share. */ -}}

{{- define "brokerwire.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "brokerwire.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "brokerwire.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "brokerwire.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "brokerwire.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ include "brokerwire.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "brokerwire.image" -}}
{{- if not .Values.image.repository -}}
{{- fail "image.repository is needed: build the image with tools/build_image.sh, push it to your registry, and name it here with image.digest" -}}
{{- end -}}
{{- include "brokerwire.reference" (list .Values.image .Chart.AppVersion) -}}
{{- end -}}

{{- /* One image of the values, by digest where it has one. */ -}}
{{- define "brokerwire.reference" -}}
{{- $image := index . 0 -}}
{{- $name := list $image.registry $image.repository | compact | join "/" -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $name $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name ($image.tag | default (index . 1)) -}}
{{- end -}}
{{- end -}}

{{- define "brokerwire.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
{{- toYaml . }}
{{- end }}
{{- end -}}

{{- /*
What the sidecars' pods are found by. A release of its own looks after all of its namespace; where the chart is another's
dependency it looks after the pods of that release, or two applications in one namespace would do everything twice.
*/ -}}
{{- define "brokerwire.agentLabels" -}}
brokerwire/agent: "true"
{{- if not .Chart.IsRoot }}
brokerwire/release: {{ .Release.Name }}
{{- end }}
{{- end -}}

{{- define "brokerwire.nodeLabels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
brokerwire/node-agent: "true"
{{- end -}}

{{- /* Whether the sidecar serves TLS, users or a file of the user's own. */ -}}
{{- define "brokerwire.webSecret" -}}
{{- $web := .Values.web -}}
{{- if $web.existingSecret -}}
{{- $web.existingSecret -}}
{{- else if or $web.tls.secretName $web.basicAuthUsers -}}
{{- include "brokerwire.fullname" . }}-web
{{- end -}}
{{- end -}}

{{- /* What every monitor says of the port. */ -}}
{{- define "brokerwire.endpoint" -}}
{{- $monitor := .Values.podMonitor -}}
port: brokerwire
path: {{ dig "web" "telemetry_path" "/metrics" .Values.config }}
interval: {{ $monitor.interval }}
{{- with $monitor.scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
{{- $scheme := $monitor.scheme -}}
{{- if and (not $scheme) (or $monitor.tlsConfig (and .Values.web.tls.secretName (not .Values.web.existingSecret))) -}}
{{- $scheme = "https" -}}
{{- end -}}
{{- if and (not $scheme) .Values.web.existingSecret -}}
{{- fail (printf "podMonitor.scheme is needed with web.existingSecret: https where the web.yaml in the Secret %s has a tls_server_config, http where it has none; the chart cannot look into it" .Values.web.existingSecret) -}}
{{- end }}
{{- if eq $scheme "https" }}
scheme: https
tlsConfig:
  {{- $monitor.tlsConfig | default (dict "insecureSkipVerify" true) | toYaml | nindent 2 }}
{{- end }}
{{- with $monitor.basicAuthSecret }}
{{- if .name }}
basicAuth:
  username:
    name: {{ .name }}
    key: {{ .usernameKey }}
  password:
    name: {{ .name }}
    key: {{ .passwordKey }}
{{- end }}
{{- end }}
{{- end -}}
