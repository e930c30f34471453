{{/* Secrets that are mounted as files: name of the volume and of the Secret. */}}
{{- define "questlog.certificates" -}}
{{- $found := dict -}}
{{- if and .Values.kafka.tls.enabled .Values.kafka.tls.existingSecret -}}
{{- $_ := set $found "kafka" .Values.kafka.tls.existingSecret -}}
{{- end -}}
{{- with .Values.schemaRegistry.tls.existingSecret -}}{{- $_ := set $found "registry" . -}}{{- end -}}
{{- with .Values.clickhouse.tls.existingSecret -}}{{- $_ := set $found "clickhouse" . -}}{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{- define "questlog.volumeMounts" -}}
- name: tmp
  mountPath: /tmp
{{- range $name, $_ := include "questlog.certificates" . | fromJson }}
- name: {{ $name }}-certificates
  mountPath: /etc/questlog/{{ $name }}
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "questlog.volumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: 64Mi
{{- range $name, $secret := include "questlog.certificates" . | fromJson }}
- name: {{ $name }}-certificates
  secret:
    secretName: {{ $secret }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Part of a pod that all pods share: (dict "root" $ "serviceAccount" "…"). */}}
{{- define "questlog.podDefaults" -}}
automountServiceAccountToken: false
# Kubernetes would otherwise set QUESTLOG_… variables for the Services, and Questlog rejects unknown settings.
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
{{- end -}}

{{/*
Commands with which the pods of a component wait before they start. In an upgrade, the consumers of a component's records start
before the component. In a rollback, the writers of the records that a component reads start before the component.
*/}}
{{- define "questlog.waits" -}}
{{- if eq . "projector" -}}
wait-for-writers: [ingest, operations, linker]
{{- else if eq . "linker" -}}
wait-for-consumers: [projector]
wait-for-writers: [ingest, operations]
{{- else -}}
wait-for-consumers: [projector, linker]
{{- end -}}
{{- end -}}

{{- define "questlog.autoscaler" -}}
{{- if ne .Values.autoscaling.kind "auto" -}}
{{ .Values.autoscaling.kind }}
{{- else if .Capabilities.APIVersions.Has "keda.sh/v1alpha1" -}}
keda
{{- else -}}
hpa
{{- end -}}
{{- end -}}
