{{- /*
The sidecar: one description for both ways in. The pieces take the context of this chart, which is
`.Subcharts.brokerwire` in an application's chart; `brokerwire.pod` finds it by itself.
*/ -}}

{{- define "brokerwire.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $derived := dict -}}
{{- if include "brokerwire.webSecret" . -}}
{{- $_ := set $derived "web" (dict "config_file" "/etc/brokerwire-web/web.yaml") -}}
{{- end -}}
{{- /* Senders have any uid; none but the pod's containers have the volume. */ -}}
{{- $sources := dict -}}
{{- if .Values.sidecar.statisticsSocket -}}
{{- $_ := set $sources "librdkafka" (dict "unix_socket" "/run/brokerwire/statistics.sock" "unix_socket_mode" "0666") -}}
{{- end -}}
{{- if .Values.sidecar.readPodAnnotations -}}
{{- $_ := set $sources "pod_annotations" "/etc/brokerwire/annotations" -}}
{{- end -}}
{{- with $sources -}}
{{- $_ := set $derived "sources" . -}}
{{- end -}}
{{- /* Whose the records are, from files that the kubelet writes: see brokerwire.volumes. */ -}}
{{- if hasKey $config "journal" -}}
{{- $labels := dict "namespace" "file:/etc/brokerwire/namespace" "pod" "file:/etc/brokerwire/pod" "service" "file:/etc/brokerwire/service" -}}
{{- $_ := set $derived "journal" (dict "labels" $labels) -}}
{{- end -}}
{{- merge $config $derived | toYaml -}}
{{- end -}}

{{- define "brokerwire.container" -}}
{{- $sidecar := .Values.sidecar -}}
name: brokerwire
image: {{ include "brokerwire.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args:
  - run
  - --config
  - /etc/brokerwire/brokerwire.yaml
{{- with .Values.extraEnv }}
env:
  {{- toYaml . | nindent 2 }}
{{- end }}
ports:
  - name: brokerwire
    containerPort: 10920
    protocol: TCP
{{- /* No readiness and no startup probe: a monitor that is ill must not take its application out of service. */}}
{{- if not .Values.web.tls.clientAuth }}
livenessProbe:
  {{- if .Values.web.existingSecret }}
  # Only its author knows whether that file asks for TLS.
  tcpSocket:
    port: brokerwire
  {{- else }}
  httpGet:
    path: /-/healthy
    port: brokerwire
    scheme: {{ ternary "HTTPS" "HTTP" (not (empty .Values.web.tls.secretName)) }}
  {{- end }}
  periodSeconds: 30
  timeoutSeconds: 5
  failureThreshold: 4
{{- end }}
resources:
  {{- toYaml $sidecar.resources | nindent 2 }}
securityContext:
  {{- include "brokerwire.securityContext" . | nindent 2 }}
  runAsNonRoot: true
  runAsUser: {{ $sidecar.runAsUser | default 65532 | int64 }}
  runAsGroup: {{ $sidecar.runAsGroup | default 65532 | int64 }}
volumeMounts:
  - name: brokerwire-config
    mountPath: /etc/brokerwire
    readOnly: true
  {{- if include "brokerwire.webSecret" . }}
  - name: brokerwire-web
    mountPath: /etc/brokerwire-web
    readOnly: true
  {{- end }}
  {{- if .Values.web.tls.secretName }}
  - name: brokerwire-tls
    mountPath: /etc/brokerwire-tls
    readOnly: true
  {{- end }}
  {{- if $sidecar.statisticsSocket }}
  - name: brokerwire-run
    mountPath: /run/brokerwire
  {{- end }}
  {{- if hasKey .Values.config "journal" }}
  - name: brokerwire-journal
    mountPath: /var/lib/brokerwire
  {{- end }}
  {{- range $sidecar.secrets }}
  - name: brokerwire-secret-{{ . }}
    mountPath: /etc/brokerwire-secrets/{{ . }}
    readOnly: true
  {{- end }}
{{- end -}}

{{- define "brokerwire.securityContext" -}}
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
capabilities:
  drop:
    - ALL
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- /* The configuration is an annotation of the pod, which a volume shows as a file: it needs no object of its own in
each namespace, and a change of it rolls the pods. */ -}}
{{- define "brokerwire.volumes" -}}
- name: brokerwire-config
  downwardAPI:
    items:
      - path: brokerwire.yaml
        fieldRef:
          fieldPath: metadata.annotations['brokerwire/config']
      {{- if .Values.sidecar.readPodAnnotations }}
      {{- /* One that the pod does not have is an empty file. */}}
      {{- range list "port" "path" "scheme" "scrape" }}
      - path: annotations/{{ . }}
        fieldRef:
          fieldPath: metadata.annotations['prometheus.io/{{ . }}']
      {{- end }}
      {{- end }}
      {{- if hasKey .Values.config "journal" }}
      - path: namespace
        fieldRef:
          fieldPath: metadata.namespace
      - path: pod
        fieldRef:
          fieldPath: metadata.name
      - path: service
        fieldRef:
          fieldPath: metadata.labels['app.kubernetes.io/name']
      {{- end }}
{{- with include "brokerwire.webSecret" . }}
- name: brokerwire-web
  secret:
    secretName: {{ . }}
{{- end }}
{{- with .Values.web.tls.secretName }}
- name: brokerwire-tls
  secret:
    secretName: {{ . }}
{{- end }}
{{- if .Values.sidecar.statisticsSocket }}
- name: brokerwire-run
  emptyDir:
    medium: Memory
    sizeLimit: 1Mi
{{- end }}
{{- if hasKey .Values.config "journal" }}
- name: brokerwire-journal
  emptyDir:
    sizeLimit: {{ .Values.sidecar.journalSize }}
{{- end }}
{{- range .Values.sidecar.secrets }}
- name: brokerwire-secret-{{ . }}
  secret:
    secretName: {{ . }}
{{- end }}
{{- end -}}

{{- define "brokerwire.annotations" -}}
brokerwire/config: {{ include "brokerwire.config" . | toJson }}
{{- end -}}

{{- define "brokerwire.podLabels" -}}
brokerwire/agent: "true"
brokerwire/release: {{ .Release.Name }}
{{- end -}}

{{- /* `native` or `container`. */ -}}
{{- define "brokerwire.mode" -}}
{{- $is_new := semverCompare ">=1.29.0-0" .Capabilities.KubeVersion.Version -}}
{{- if and (eq .Values.sidecar.mode "native") (not $is_new) -}}
{{- fail (printf "sidecar.mode=native needs Kubernetes 1.29, this is %s: set sidecar.mode=container" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- if eq .Values.sidecar.mode "auto" -}}
{{- ternary "native" "container" $is_new -}}
{{- else -}}
{{- .Values.sidecar.mode -}}
{{- end -}}
{{- end -}}

{{- /*
The ids that the sidecar needs to look into the application's processes: the values', else those of the application. The
kernel compares the gid, too. Its list: this chart's context, the pod's spec.
*/ -}}
{{- define "brokerwire.applicationIds" -}}
{{- $sidecar := (index . 0).Values.sidecar -}}
{{- $spec := index . 1 -}}
{{- $pod := $spec.securityContext | default dict -}}
{{- $own := (first $spec.containers).securityContext | default dict -}}
{{- range $key := list "runAsUser" "runAsGroup" -}}
{{- $id := get $sidecar $key -}}
{{- if kindIs "invalid" $id -}}
{{- $id = get (ternary $own $pod (hasKey $own $key)) $key -}}
{{- end -}}
{{- if or (kindIs "invalid" $id) (kindIs "string" $id) -}}
{{- fail (printf "sidecar.processAccess needs the application's uid and gid, and its pod template has no %s: set runAsUser and runAsGroup in the pod's securityContext, or sidecar.%s" $key $key) -}}
{{- end -}}
{{- if and (eq $key "runAsUser") (lt (int64 $id) 1) -}}
{{- fail "sidecar.processAccess: the application runs as root, which a sidecar without capabilities may not look into: give the application another uid, or leave processAccess off" -}}
{{- end }}
{{ $key }}: {{ int64 $id }}
{{- end -}}
{{- end -}}

{{- /*
The one line for an application's chart:

  template:
    {{- include "brokerwire.pod" (list . (include "shop.podTemplate" .)) | nindent 4 }}

where `shop.podTemplate` is the application's own pod template (metadata and spec). It comes back with the sidecar,
its volumes, the annotation and the label. The list of init containers begins with the native sidecar, so that it
also sees what the other init containers connect to.
*/ -}}
{{- define "brokerwire.pod" -}}
{{- $caller := index . 0 -}}
{{- $template := index . 1 | fromYaml -}}
{{- if hasKey $template "Error" -}}
{{- fail (printf "brokerwire.pod: the pod template is no YAML: %s" $template.Error) -}}
{{- end -}}
{{- if not (kindIs "map" $template.spec) -}}
{{- fail "brokerwire.pod: the second of its list must be a pod template as YAML, with metadata and spec" -}}
{{- end -}}
{{- $self := get (get $caller "Subcharts" | default dict) "brokerwire" | default $caller -}}
{{- if not (hasKey $self.Values "sidecar") -}}
{{- fail "brokerwire.pod: this chart has no dependency named brokerwire (or it has an alias)" -}}
{{- end -}}
{{- $metadata := $template.metadata | default dict -}}
{{- $_ := set $metadata "annotations" (merge ($metadata.annotations | default dict) (include "brokerwire.annotations" $self | fromYaml)) -}}
{{- $_ := set $metadata "labels" (merge ($metadata.labels | default dict) (include "brokerwire.podLabels" $self | fromYaml)) -}}
{{- $spec := $template.spec -}}
{{- $container := include "brokerwire.container" $self | fromYaml -}}
{{- if $self.Values.sidecar.processAccess -}}
{{- range $key, $id := include "brokerwire.applicationIds" (list $self $spec) | fromYaml -}}
{{- $_ := set $container.securityContext $key $id -}}
{{- end -}}
{{- end -}}
{{- if eq (include "brokerwire.mode" $self) "native" -}}
{{- $_ := set $container "restartPolicy" "Always" -}}
{{- $_ := set $spec "initContainers" (prepend ($spec.initContainers | default list) $container) -}}
{{- else -}}
{{- $_ := set $spec "containers" (append $spec.containers $container) -}}
{{- end -}}
{{- if $self.Values.sidecar.statisticsSocket -}}
{{- $mount := dict "name" "brokerwire-run" "mountPath" "/run/brokerwire" -}}
{{- range $spec.containers -}}
{{- if ne .name "brokerwire" -}}
{{- $_ := set . "volumeMounts" (append (.volumeMounts | default list) $mount) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (or $self.Values.sidecar.processAccess $self.Values.sidecar.shareProcessNamespace) (not $spec.hostPID) -}}
{{- $_ := set $spec "shareProcessNamespace" true -}}
{{- end -}}
{{- with include "brokerwire.pullSecrets" $self | fromYamlArray -}}
{{- $_ := set $spec "imagePullSecrets" (concat ($spec.imagePullSecrets | default list) . | uniq) -}}
{{- end -}}
{{- $_ := set $spec "volumes" (concat ($spec.volumes | default list) (include "brokerwire.volumes" $self | fromYamlArray)) -}}
{{- toYaml (dict "metadata" $metadata "spec" $spec) -}}
{{- end -}}

{{- /* A value as CEL: like JSON, but CEL wants all values of a map or list to be of one type, and `dyn` is one. */ -}}
{{- define "brokerwire.cel" -}}
{{- $parts := list -}}
{{- if kindIs "map" . -}}
{{- range $key, $value := . -}}
{{- $parts = append $parts (printf "%s: dyn(%s)" (toJson $key) (include "brokerwire.cel" $value)) -}}
{{- end -}}
{ {{- join ", " $parts -}} }
{{- else if kindIs "slice" . -}}
{{- range . -}}
{{- $parts = append $parts (printf "dyn(%s)" (include "brokerwire.cel" .)) -}}
{{- end -}}
[{{- join ", " $parts -}}]
{{- else -}}
{{- toJson . -}}
{{- end -}}
{{- end -}}
