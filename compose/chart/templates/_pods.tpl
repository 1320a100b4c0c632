{{/* What the pods of all services share. Each is given (dict "root" $ "kind" "broker" ...). */}}

{{/* host:port of every name server. */}}
{{- define "ariane.nameServers" -}}
{{- $servers := list -}}
{{- range $index := until (int .Values.nameServers.replicas) -}}
{{- $servers = append $servers (printf "namesrv-%d.namesrv.%s.svc:9876" $index $.Release.Namespace) -}}
{{- end -}}
{{- join "," $servers -}}
{{- end -}}

{{- define "ariane.labels" -}}
app: {{ .kind }}
{{- with .broker }}
broker: {{ . }}
{{- end }}
{{- end -}}

{{/* Labels of a pod, and where Prometheus reads it. */}}
{{- define "ariane.podMetadata" -}}
labels:
  {{- include "ariane.labels" . | nindent 2 }}
annotations: {prometheus.io/scrape: "true", prometheus.io/port: "9464", prometheus.io/scheme: https}
{{- end -}}

{{/* The start of a pod's specification; spread over machines unless it is one of a kind. */}}
{{- define "ariane.pod" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
automountServiceAccountToken: false
{{- with .root.Values.images.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .root.Values.pod }}
{{ toYaml . }}
{{- end }}
{{- if not .lone }}
# Not both on one machine, where there are more.
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "ariane.labels" . | nindent 8 }}
{{- end }}
{{- end -}}

{{/* The start of a container: image, rights, memory. */}}
{{- define "ariane.container" -}}
- name: {{ .kind }}
  image: {{ .root.Values.images.registry }}/{{ .kind }}:{{ .root.Values.images.tag | default .root.Chart.AppVersion }}
  imagePullPolicy: {{ .root.Values.images.pullPolicy }}
  resources:
    {{- toYaml .resources | nindent 4 }}
  securityContext:
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: {drop: [ALL]}
{{- end -}}

{{/* Environment that closes a service; "rules" is the file that keeps what admin has told. */}}
{{- define "ariane.closed" -}}
{{- $start := printf "ARIANE_%s" (.kind | upper | replace "-" "_") -}}
- {name: {{ $start }}_ACCESS, value: closed}
- name: {{ $start }}_SUPER_USERS
  value: {{ .root.Values.superUsers | quote }}
{{- with .rules }}
- {name: {{ $start }}_ACCESS_RULES_FILE, value: {{ . }}}
{{- end }}
- {name: {{ $start }}_TLS_CERTIFICATE, value: /run/ariane/certificate.pem}
- {name: {{ $start }}_TLS_KEY, value: /run/ariane/key.pem}
- {name: {{ $start }}_TLS_MEMBERS, value: /run/ariane/members.pem}
- {name: {{ $start }}_TLS_USERS, value: /run/ariane/users.pem}
- {name: {{ $start }}_METRICS_LISTEN, value: "0.0.0.0:{{ .metrics | default 9464 }}"}
{{- with .root.Values.otlpEndpoint }}
- name: {{ $start }}_OTLP_ENDPOINT
  value: {{ . | quote }}
{{- end }}
{{- range $name, $value := index .root.Values.settings .kind }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end -}}

{{- define "ariane.databaseUrl" -}}
valueFrom: {secretKeyRef: {name: {{ .Values.database.secret }}, key: {{ .Values.database.key }}}}
{{- end -}}

{{/* "starts" times five seconds is how long it may take to start; "ready" is the question of readiness. */}}
{{- define "ariane.probes" -}}
# Recovery of a store takes its time; then a process that does not answer is started again.
startupProbe: {exec: {command: [python, /opt/health.py, "127.0.0.1:{{ .port }}"]}, timeoutSeconds: 10, periodSeconds: 5, failureThreshold: {{ .starts }}}
{{- if .ready }}
# Ready is who is primary, or a replica that has all: a rollout goes on to the primary only then.
{{- end }}
readinessProbe: {exec: {command: [python, /opt/health.py, "127.0.0.1:{{ .port }}"{{ with .ready }}, {{ . }}{{ end }}]}, timeoutSeconds: 10, periodSeconds: 5}
livenessProbe: {exec: {command: [python, /opt/health.py, "127.0.0.1:{{ .port }}"]}, periodSeconds: 20, timeoutSeconds: 10, failureThreshold: 6}
{{- end -}}

{{/* A disk that outlives the pod. */}}
{{- define "ariane.disk" -}}
- metadata:
    name: {{ .name }}
  spec:
    accessModes: [ReadWriteOnce]
    {{- with .root.Values.storageClass }}
    storageClassName: {{ . }}
    {{- end }}
    resources:
      requests: {storage: {{ .size }}}
{{- end -}}

{{/* One pod at a time may be taken away. */}}
{{- define "ariane.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .broker | default .kind }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "ariane.labels" . | nindent 6 }}
{{- end -}}
