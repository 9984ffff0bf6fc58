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
{{- $kinds := .Files.Get "files/config-kinds.json" | fromJson -}}
{{- range $key, $value := $rollups.kafkaOptions -}}
{{- if include "brokerwire.isSecret" (list $kinds $key $value) -}}
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

{{- /* One step: the chart's context, the name of its container, command and arguments. */ -}}
{{- define "brokerwire.rollups.step" -}}
{{- $ := index . 0 -}}
{{- $rollups := $.Values.rollups -}}
{{- $is_local := hasPrefix "local" $rollups.master -}}
name: {{ index . 1 }}
image: {{ include "brokerwire.reference" (list $rollups.image $.Chart.AppVersion) | quote }}
imagePullPolicy: {{ $.Values.image.pullPolicy }}
args:
  {{- concat (index . 2) (list "--master" $rollups.master "--memory" $rollups.memory) | toYaml | nindent 2 }}
{{- if or $rollups.env $rollups.sparkConf (not $is_local) }}
env:
  {{- if $rollups.sparkConf }}
  - name: SPARK_CONF_DIR
    value: /etc/brokerwire-spark
  {{- end }}
  {{- if not $is_local }}
  # The executors connect to the driver, and no name leads to this pod.
  - name: SPARK_LOCAL_HOSTNAME
    valueFrom:
      fieldRef:
        fieldPath: status.podIP
  {{- end }}
  {{- with $rollups.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
resources:
  {{- include "brokerwire.rollups.resources" $ | nindent 2 }}
securityContext:
  {{- include "brokerwire.securityContext" $ | nindent 2 }}
volumeMounts:
  {{- include "brokerwire.rollups.mounts" $ | nindent 2 }}
  {{- if $rollups.sparkConf }}
  - name: spark
    mountPath: /etc/brokerwire-spark
    readOnly: true
  {{- end }}
{{- end -}}
{{- /* A CronJob: the chart's context, its name, its schedule, and its containers, one after the other. */ -}}
{{- define "brokerwire.rollups.cronjob" -}}
{{- $name := index . 1 -}}
{{- $schedule := index . 2 -}}
{{- $steps := index . 3 -}}
{{- with index . 0 -}}
{{- $rollups := .Values.rollups -}}
apiVersion: batch/v1
kind: CronJob
metadata:
  name: {{ $name }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "brokerwire.labels" . | nindent 4 }}
spec:
  schedule: {{ $schedule | quote }}
  timeZone: Etc/UTC
  # Two would write the same hours; what is read twice changes nothing, but costs.
  concurrencyPolicy: Forbid
  successfulJobsHistoryLimit: 1
  failedJobsHistoryLimit: 3
  jobTemplate:
    spec:
      backoffLimit: 2
      template:
        metadata:
          labels:
            app.kubernetes.io/name: {{ include "brokerwire.name" . }}-rollups
            app.kubernetes.io/instance: {{ .Release.Name }}
        spec:
          restartPolicy: Never
          automountServiceAccountToken: false
          {{- with include "brokerwire.pullSecrets" . }}
          imagePullSecrets:
            {{- . | nindent 12 }}
          {{- end }}
          securityContext:
            runAsNonRoot: true
            runAsUser: 65532
            runAsGroup: 65532
            fsGroup: 65532
            seccompProfile:
              type: RuntimeDefault
          {{- with initial $steps }}
          # One after the other: each works on what the one before it has written.
          initContainers:
            {{- range . }}
            - {{- . | nindent 14 }}
            {{- end }}
          {{- end }}
          containers:
            - {{- last $steps | nindent 14 }}
          volumes:
            {{- include "brokerwire.rollups.volumes" . | nindent 12 }}
            {{- if $rollups.sparkConf }}
            - name: spark
              configMap:
                name: {{ include "brokerwire.rollups.name" . }}-spark
            {{- end }}
{{- end -}}
{{- end -}}
