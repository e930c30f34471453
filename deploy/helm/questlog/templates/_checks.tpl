{{/* Fails with all problems of the values that the schema cannot express. */}}
{{- define "questlog.checks" -}}
{{- $v := .Values -}}
{{- $problems := list -}}
{{- if not $v.kafka.brokers -}}{{- $problems = append $problems "kafka.brokers: required, for example [kafka-0.example.com:9092]" -}}{{- end -}}
{{- if not $v.schemaRegistry.url -}}{{- $problems = append $problems "schemaRegistry.url: required, for example http://registry.example.com:8081" -}}{{- end -}}
{{- if not $v.clickhouse.url -}}{{- $problems = append $problems "clickhouse.url: required, for example http://clickhouse.example.com:8123" -}}{{- end -}}
{{- if not $v.clickhouse.existingSecret -}}{{- $problems = append $problems "clickhouse.existingSecret: required, a Secret with the user and the password of ClickHouse" -}}{{- end -}}
{{- if not $v.adminToken.existingSecret -}}{{- $problems = append $problems "adminToken.existingSecret: required, a Secret with the token of operators" -}}{{- end -}}
{{- if contains "@" $v.clickhouse.url -}}{{- $problems = append $problems "clickhouse.url: must not contain a user or a password; use clickhouse.existingSecret" -}}{{- end -}}
{{- with $v.kafka.sasl -}}
{{- if and (ne .mechanism "none") (not .existingSecret) -}}{{- $problems = append $problems (printf "kafka.sasl.existingSecret: required with kafka.sasl.mechanism=%s" .mechanism) -}}{{- end -}}
{{- if and (eq .mechanism "oauthbearer") (not .tokenUrl) -}}{{- $problems = append $problems "kafka.sasl.tokenUrl: required with kafka.sasl.mechanism=oauthbearer" -}}{{- end -}}
{{- if and (eq .mechanism "plain") (not $v.kafka.tls.enabled) -}}{{- $problems = append $problems "kafka.tls.enabled: required with kafka.sasl.mechanism=plain, because the password would be readable on the network" -}}{{- end -}}
{{- end -}}
{{- with $v.kafka.tls -}}
{{- if and .existingSecret (not .enabled) -}}{{- $problems = append $problems "kafka.tls.enabled: must be true with kafka.tls.existingSecret" -}}{{- end -}}
{{- if ne (empty .certKey) (empty .keyKey) -}}{{- $problems = append $problems "kafka.tls.certKey, kafka.tls.keyKey: set both or neither" -}}{{- end -}}
{{- if and .certKey (not .existingSecret) -}}{{- $problems = append $problems "kafka.tls.existingSecret: required with kafka.tls.certKey" -}}{{- end -}}
{{- end -}}
{{- if eq $v.uploads.store "folder" -}}{{- $problems = append $problems "uploads.store: the pods do not share a folder, so uploads need a bucket; use s3 or off" -}}{{- end -}}
{{- if and (eq $v.uploads.store "s3") (not $v.uploads.bucket) -}}{{- $problems = append $problems "uploads.bucket: required with uploads.store=s3" -}}{{- end -}}
{{- range $component := list "linker" "projector" -}}
{{- $c := get $v $component -}}
{{- $name := ternary "autoscaling.maxReplicas" "replicas" $c.autoscaling.enabled -}}
{{- $replicas := int (ternary $c.autoscaling.maxReplicas $c.replicas $c.autoscaling.enabled) -}}
{{- if gt $replicas (int $v.partitions) -}}{{- $problems = append $problems (printf "%s.%s: %d is more than partitions (%d); further %ss would have no work" $component $name $replicas (int $v.partitions) $component) -}}{{- end -}}
{{- end -}}
{{- range $component := list "ingest" "linker" "projector" -}}
{{- with (get $v $component).autoscaling -}}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) -}}{{- $problems = append $problems (printf "%s.autoscaling.minReplicas: must not exceed maxReplicas" $component) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $v.ingress.enabled (not $v.ingress.hosts) -}}{{- $problems = append $problems "ingress.hosts: required with ingress.enabled" -}}{{- end -}}
{{- if and $v.httpRoute.enabled (not $v.httpRoute.parentRefs) -}}{{- $problems = append $problems "httpRoute.parentRefs: required with httpRoute.enabled" -}}{{- end -}}
{{- if and $v.metrics.serviceMonitor.enabled $v.networkPolicy.enabled (not $v.networkPolicy.metricsFrom) -}}{{- $problems = append $problems "networkPolicy.metricsFrom: required with metrics.serviceMonitor.enabled, because Prometheus cannot reach the pods otherwise" -}}{{- end -}}
{{- if $problems -}}
{{- fail (printf "\n\nThe values of the chart have problems:\n\n- %s\n" (join "\n- " $problems)) -}}
{{- end -}}
{{- end -}}
