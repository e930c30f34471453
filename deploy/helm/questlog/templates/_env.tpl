{{- define "questlog.secretEnv" -}}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret }}
      key: {{ .key }}
{{- end -}}

{{/* Settings of every process: the connections to Kafka, the registry, ClickHouse, and S3. */}}
{{- define "questlog.env" -}}
{{- $v := .Values -}}
- name: QUESTLOG_HOST
  value: {{ $v.listenHost | quote }}
- name: QUESTLOG_ADMIN_HOST
  value: {{ $v.listenHost | quote }}
- name: QUESTLOG_DEMO
  value: "off"
- name: QUESTLOG_LOG_LEVEL
  value: {{ $v.logLevel }}
- name: QUESTLOG_LOG_FORMAT
  value: json
- name: QUESTLOG_PREFIX
  value: {{ $v.prefix | quote }}
- name: QUESTLOG_PARTITIONS
  value: {{ $v.partitions | quote }}
- name: KAFKA_BROKERS
  value: {{ join "," $v.kafka.brokers | quote }}
- name: KAFKA_REPLICATION_FACTOR
  value: {{ $v.kafka.replicationFactor | quote }}
{{- if $v.kafka.tls.enabled }}
- name: KAFKA_TLS
  value: "on"
{{- with $v.kafka.tls }}
{{- if and .existingSecret .caKey }}
- name: KAFKA_TLS_CA_FILE
  value: /etc/questlog/kafka/{{ .caKey }}
{{- end }}
{{- if .certKey }}
- name: KAFKA_TLS_CERT_FILE
  value: /etc/questlog/kafka/{{ .certKey }}
- name: KAFKA_TLS_KEY_FILE
  value: /etc/questlog/kafka/{{ .keyKey }}
{{- end }}
{{- end }}
{{- end }}
{{- with $v.kafka.sasl }}
{{- if ne .mechanism "none" }}
- name: KAFKA_SASL_MECHANISM
  value: {{ .mechanism }}
{{ include "questlog.secretEnv" (dict "name" "KAFKA_SASL_USERNAME" "secret" .existingSecret "key" .usernameKey) }}
{{ include "questlog.secretEnv" (dict "name" "KAFKA_SASL_PASSWORD" "secret" .existingSecret "key" .passwordKey) }}
{{- end }}
{{- if eq .mechanism "oauthbearer" }}
- name: KAFKA_OAUTH_TOKEN_URL
  value: {{ .tokenUrl | quote }}
{{- with .scope }}
- name: KAFKA_OAUTH_SCOPE
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- with $v.schemaRegistry }}
- name: SCHEMA_REGISTRY_URL
  value: {{ .url | quote }}
{{- if .existingSecret }}
{{ include "questlog.secretEnv" (dict "name" "SCHEMA_REGISTRY_USERNAME" "secret" .existingSecret "key" .usernameKey) }}
{{ include "questlog.secretEnv" (dict "name" "SCHEMA_REGISTRY_PASSWORD" "secret" .existingSecret "key" .passwordKey) }}
{{- end }}
{{- if .tls.existingSecret }}
- name: SCHEMA_REGISTRY_TLS_CA_FILE
  value: /etc/questlog/registry/{{ .tls.caKey }}
{{- end }}
{{- end }}
{{- with $v.clickhouse }}
- name: CLICKHOUSE_URL
  value: {{ .url | quote }}
- name: CLICKHOUSE_DATABASE
  value: {{ .database | quote }}
{{ include "questlog.secretEnv" (dict "name" "CLICKHOUSE_USERNAME" "secret" .existingSecret "key" .usernameKey) }}
{{ include "questlog.secretEnv" (dict "name" "CLICKHOUSE_PASSWORD" "secret" .existingSecret "key" .passwordKey) }}
{{- if .tls.existingSecret }}
- name: CLICKHOUSE_TLS_CA_FILE
  value: /etc/questlog/clickhouse/{{ .tls.caKey }}
{{- end }}
{{- end }}
- name: QUESTLOG_UPLOADS
  value: {{ $v.uploads.store | quote }}
{{- with $v.uploads }}
{{- if eq .store "s3" }}
- name: QUESTLOG_S3_BUCKET
  value: {{ .bucket | quote }}
- name: QUESTLOG_S3_REGION
  value: {{ .region | quote }}
{{- with .endpoint }}
- name: QUESTLOG_S3_ENDPOINT
  value: {{ . | quote }}
{{- end }}
{{- with .publicEndpoint }}
- name: QUESTLOG_S3_PUBLIC_ENDPOINT
  value: {{ . | quote }}
{{- end }}
{{- if .existingSecret }}
{{ include "questlog.secretEnv" (dict "name" "QUESTLOG_S3_ACCESS_KEY_ID" "secret" .existingSecret "key" .accessKeyIdKey) }}
{{ include "questlog.secretEnv" (dict "name" "QUESTLOG_S3_SECRET_ACCESS_KEY" "secret" .existingSecret "key" .secretAccessKeyKey) }}
{{- end }}
{{- end }}
{{- end }}
{{- with $v.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Settings of one component, in addition to `questlog.env`. */}}
{{- define "questlog.componentEnv" -}}
{{- $v := .root.Values -}}
{{- if eq .component "ingest" }}
- name: QUESTLOG_WORKERS
  value: {{ $v.ingest.workers | quote }}
- name: QUESTLOG_CORS_ORIGINS
  value: {{ $v.ingest.corsOrigins | quote }}
{{- with $v.ingest.publicUrl }}
- name: QUESTLOG_PUBLIC_URL
  value: {{ . | quote }}
{{- end }}
{{- with $v.ingest.trustedProxies }}
- name: QUESTLOG_TRUSTED_PROXIES
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- if eq .component "operations" }}
- name: QUESTLOG_URL
  value: http://{{ include "questlog.fullname" .root }}-ingest:{{ $v.ingest.service.port }}
{{- $service := printf "%s-operations" (include "questlog.fullname" .root) }}
{{- $inNamespace := printf "%s.%s" $service .root.Release.Namespace }}
- name: QUESTLOG_ADMIN_ALLOWED_HOSTS
  value: {{ compact (list $service $inNamespace (printf "%s.svc" $inNamespace) $v.operations.allowedHosts) | join "," | quote }}
{{ include "questlog.secretEnv" (dict "name" "QUESTLOG_ADMIN_TOKEN" "secret" $v.adminToken.existingSecret "key" $v.adminToken.key) }}
{{- with $v.clickhouse.reader }}
{{- if .existingSecret }}
{{ include "questlog.secretEnv" (dict "name" "CLICKHOUSE_READER_URL" "secret" .existingSecret "key" .urlKey) }}
{{- end }}
{{- end }}
{{- end }}
{{- with (get $v .component).extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}
