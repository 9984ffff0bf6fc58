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
{{- $image := .Values.image -}}
{{- if not $image.repository -}}
{{- fail "image.repository is needed: build the image with tools/build_image.sh, push it to your registry, and name it here with image.digest" -}}
{{- end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository ($image.tag | default .Chart.AppVersion) -}}
{{- end -}}
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
{{- if or .Values.web.tls.secretName $monitor.tlsConfig }}
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
