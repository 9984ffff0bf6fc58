{{- /* What the CronJob and the SparkApplication share. The context is the chart's. */ -}}

{{- define "brokerwire.rollups.name" -}}
{{- include "brokerwire.fullname" . }}-rollups
{{- end -}}

{{- /* Refuse what would not run, or would not be kept secret: with what is wrong, where, and what to do. */ -}}
{{- define "brokerwire.rollups.check" -}}
{{- $rollups := .Values.rollups -}}
{{- if not $rollups.image.repository -}}
{{- fail "rollups.image.repository is needed: build the image with tools/build_image.sh --rollups, push it to your registry, and name it here" -}}
{{- end -}}
{{- if not $rollups.kafka -}}
{{- fail "rollups.kafka is needed: the bootstrap servers of the cluster that the journals go to" -}}
{{- end -}}
{{- if and (hasPrefix "/" $rollups.tables) (not $rollups.claim) -}}
{{- fail "rollups.claim is needed where rollups.tables is a path: without a volume the tables are gone with the pod" -}}
{{- end -}}
{{- if and (hasPrefix "/" $rollups.tables) (not (hasPrefix "/var/lib/brokerwire/" $rollups.tables)) -}}
{{- fail (printf "rollups.tables is %s, and the claim is mounted at /var/lib/brokerwire: give a folder below that" $rollups.tables) -}}
{{- end -}}
{{- if and (eq $rollups.kind "cronjob") (not (regexMatch "^(local(\\[[0-9*]+\\])?|spark://.+)$" $rollups.master)) -}}
{{- fail (printf "rollups.master is %s: the CronJob runs Spark in its own pod (local[2]) or asks a standalone master (spark://HOST:7077); for executors in pods of their own take rollups.kind=sparkapplication" $rollups.master) -}}
{{- end -}}
{{- range $key, $value := $rollups.kafkaOptions -}}
{{- if and (regexMatch "(?i)(password|jaas|secret|keystore\\.key$)" $key) (not (hasPrefix "file:/" $value)) -}}
{{- fail (printf "rollups.kafkaOptions has %s in clear text, which would stand in the pod's arguments: put it into a Secret, name that in rollups.secrets, and write file:/etc/brokerwire-secrets/NAME/KEY" $key) -}}
{{- end -}}
{{- $secret := regexReplaceAll "^(file:)?/etc/brokerwire-secrets/([^/]+)/.*$" $value "${2}" -}}
{{- if and (ne $secret $value) (not (has $secret $rollups.secrets)) -}}
{{- fail (printf "rollups.kafkaOptions: %s is in the Secret %s, which is not mounted: add it to rollups.secrets" $key $secret) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Where the journals are and the tables go, as arguments. */ -}}
{{- define "brokerwire.rollups.arguments" -}}
{{- $rollups := .Values.rollups -}}
{{- $arguments := list "--kafka" $rollups.kafka "--topic" $rollups.topic -}}
{{- range $key, $value := $rollups.kafkaOptions -}}
{{- $arguments = concat $arguments (list "--kafka-option" (printf "%s=%s" $key $value)) -}}
{{- end -}}
{{- concat $arguments (list "--tables" $rollups.tables) | toYaml -}}
{{- end -}}

{{- /* Which of the topic is in the tables; beside them, so that both are kept or lost together. */ -}}
{{- define "brokerwire.rollups.checkpoint" -}}
{{- printf "%s-checkpoint" (trimSuffix "/" .Values.rollups.tables) -}}
{{- end -}}

{{- /* Beside the heap the JVM needs room for its code, its threads and buffers: half as much again. */ -}}
{{- define "brokerwire.rollups.resources" -}}
{{- $rollups := .Values.rollups -}}
{{- if $rollups.resources -}}
{{- toYaml $rollups.resources -}}
{{- else -}}
{{- $heap := $rollups.memory | trimSuffix "g" | trimSuffix "m" | int64 -}}
{{- if hasSuffix "g" $rollups.memory -}}
{{- $heap = mul $heap 1024 -}}
{{- end -}}
{{- $room := printf "%dMi" (div (mul $heap 3) 2) -}}
requests:
  cpu: "1"
  memory: {{ $room }}
limits:
  memory: {{ $room }}
{{- end -}}
{{- end -}}

{{- define "brokerwire.rollups.mounts" -}}
- name: tmp
  mountPath: /tmp
{{- if .Values.rollups.claim }}
- name: tables
  mountPath: /var/lib/brokerwire
{{- end }}
{{- range .Values.rollups.secrets }}
- name: secret-{{ . }}
  mountPath: /etc/brokerwire-secrets/{{ . }}
  readOnly: true
{{- end }}
{{- end -}}

{{- define "brokerwire.rollups.volumes" -}}
- name: tmp
  emptyDir: {}
{{- with .Values.rollups.claim }}
- name: tables
  persistentVolumeClaim:
    claimName: {{ . }}
{{- end }}
{{- range .Values.rollups.secrets }}
- name: secret-{{ . }}
  secret:
    secretName: {{ . }}
{{- end }}
{{- end -}}
