{{- /*
Of a value that the schema refuses helm tells the schema's words for it. What people get wrong is compared here and told with
what is wrong, where, and what to do. No text repeats a value that may be a secret.
*/ -}}
{{- define "brokerwire.check" -}}
{{- $told := dict "wrong" (list) -}}
{{- $is := list $told "^sha256:[0-9a-f]{64}$" "must be sha256: and 64 hexadecimal digits, as the push prints it, or empty for the tag" -}}
{{- include "brokerwire.checkText" (concat $is (list "image.digest" .Values.image.digest)) -}}
{{- include "brokerwire.checkText" (concat $is (list "rollups.image.digest" .Values.rollups.image.digest)) -}}
{{- $is = list $told "^[0-9]+(ms|s|m|h)$" "must be a duration such as 30s or 1m" -}}
{{- include "brokerwire.checkText" (concat $is (list "podMonitor.interval" (.Values.podMonitor.interval | default "none"))) -}}
{{- include "brokerwire.checkText" (concat $is (list "podMonitor.scrapeTimeout" .Values.podMonitor.scrapeTimeout)) -}}
{{- $is = list $told "^[0-9]+(\\.[0-9]+)?(Ki|Mi|Gi)$" "must be a size as Kubernetes has it, such as 256Mi" -}}
{{- include "brokerwire.checkText" (concat $is (list "sidecar.journalSize" (.Values.sidecar.journalSize | default "none"))) -}}
{{- $is = list $told "^[1-9][0-9]*[mg]$" "must be a heap as Java has it, such as 2g or 1536m" -}}
{{- include "brokerwire.checkText" (concat $is (list "rollups.memory" (.Values.rollups.memory | default "none"))) -}}
{{- $is = list $told "^(@hourly|@daily|\\S+ \\S+ \\S+ \\S+ \\S+)$" "must be five fields as in cron, such as 10 * * * *, or @hourly" -}}
{{- include "brokerwire.checkText" (concat $is (list "rollups.schedule" (.Values.rollups.schedule | default "none"))) -}}
{{- $is = list $told "^[^\\s,]+:[0-9]+(,[^\\s,]+:[0-9]+)*$" "must be host:port, or several with commas and no blanks between" -}}
{{- include "brokerwire.checkText" (concat $is (list "rollups.kafka" .Values.rollups.kafka)) -}}
{{- range $key := list "runAsUser" "runAsGroup" -}}
{{- $id := get $.Values.sidecar $key -}}
{{- if and (not (kindIs "invalid" $id)) (lt (int64 $id) 1) -}}
{{- $_ := set $told "wrong" (append $told.wrong (printf "sidecar.%s must be 1 or more, not %d: root without capabilities cannot look into another root's processes either; give the application's id, or leave it empty for 65532 (docs/install.md)" $key (int64 $id))) -}}
{{- end -}}
{{- end -}}
{{- range $name, $hash := .Values.web.basicAuthUsers -}}
{{- if not (regexMatch "^\\$2[abxy]\\$[0-9]{2}\\$.{53}$" $hash) -}}
{{- $_ := set $told "wrong" (append $told.wrong (printf "web.basicAuthUsers.%s must be a bcrypt hash and is not: run `htpasswd -nBC 10 %s` and give what is behind the colon; a password does not belong into values" $name $name)) -}}
{{- end -}}
{{- end -}}
{{- with .Values.rollups.report.pushgateway -}}
{{- if not (regexMatch "^https?://[^@/\\s]+(/[^@\\s]*)?$" .) -}}
{{- $_ := set $told "wrong" (append $told.wrong "rollups.report.pushgateway must be a URL such as http://pushgateway.monitoring:9091, without a user or a password, which would stand in the pod's arguments") -}}
{{- end -}}
{{- end -}}
{{- $kinds := .Files.Get "files/config-kinds.json" | fromJson -}}
{{- include "brokerwire.checkConfig" (list $told $kinds "config" "config" .Values.config) -}}
{{- range $key, $value := .Values.rollups.sparkConf -}}
{{- if and (include "brokerwire.isSecret" (list $kinds $key $value)) (not (regexMatch "^\\$\\{env[.:]" (toString $value))) -}}
{{- $_ := set $told "wrong" (append $told.wrong (printf "rollups.sparkConf has %s in clear text, which would stand in a ConfigMap: give it as a variable of rollups.env with valueFrom.secretKeyRef, and write ${env.VARIABLE} here" $key)) -}}
{{- end -}}
{{- end -}}
{{- range .Values.rollups.env -}}
{{- if and (hasKey . "value") (include "brokerwire.isSecret" (list $kinds .name .value)) -}}
{{- $_ := set $told "wrong" (append $told.wrong (printf "rollups.env has %s in clear text, which would stand in the pod: put it into a Secret and write valueFrom.secretKeyRef" .name)) -}}
{{- end -}}
{{- end -}}
{{- with $told.wrong -}}
{{- fail (printf "\n\n  %s\n" (join "\n  " .)) -}}
{{- end -}}
{{- end -}}

{{- /* Tell of a text that is neither empty nor as it must be. Its list: told, pattern, words, place, value. */ -}}
{{- define "brokerwire.checkText" -}}
{{- $told := index . 0 -}}
{{- $value := index . 4 -}}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "") (regexMatch (index . 1) (toString $value))) -}}
{{- $_ := set $told "wrong" (append $told.wrong (printf "%s %s, not %s" (index . 3) (index . 2) (toJson $value))) -}}
{{- end -}}
{{- end -}}

{{- /* Walk the configuration. Its list: told, kinds, the place as it is shown, the same with [] for any of a list, value. */ -}}
{{- define "brokerwire.checkConfig" -}}
{{- $told := index . 0 -}}
{{- $kinds := index . 1 -}}
{{- $shown := index . 2 -}}
{{- $path := index . 3 -}}
{{- $value := index . 4 -}}
{{- if kindIs "map" $value -}}
{{- range $key, $child := $value -}}
{{- if and (kindIs "string" $child) (include "brokerwire.isSecret" (list $kinds $key $child)) -}}
{{- $_ := set $told "wrong" (append $told.wrong (printf "%s.%s is a secret in clear text, which would stand in an annotation of every pod: put it into a file of a mounted Secret and write file:/path" $shown $key)) -}}
{{- end -}}
{{- include "brokerwire.checkConfig" (list $told $kinds (printf "%s.%s" $shown $key) (printf "%s.%s" $path $key) $child) -}}
{{- end -}}
{{- else if kindIs "slice" $value -}}
{{- range $index, $child := $value -}}
{{- include "brokerwire.checkConfig" (list $told $kinds (printf "%s[%d]" $shown $index) (printf "%s[]" $path) $child) -}}
{{- end -}}
{{- else if hasKey $kinds.paths $path -}}
{{- $kind := get $kinds.kinds (get $kinds.paths $path) -}}
{{- if not (and (kindIs "string" $value) (regexMatch $kind.pattern $value)) -}}
{{- $_ := set $told "wrong" (append $told.wrong (printf "%s must be %s, not %s" $shown $kind.words (toJson $value))) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Whether a setting holds a secret, by its name or as a private key: "yes" or nothing. Its list: kinds, name, value. */ -}}
{{- define "brokerwire.isSecret" -}}
{{- $kinds := index . 0 -}}
{{- $name := index . 1 -}}
{{- $value := toString (index . 2) -}}
{{- if not (hasPrefix "file:" $value) -}}
{{- if or (contains "PRIVATE KEY" $value) (and (regexMatch $kinds.secret $name) (not (regexMatch $kinds.not_secret $name))) -}}
yes
{{- end -}}
{{- end -}}
{{- end -}}
