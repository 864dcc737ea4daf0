{{- /* What templates/gateway.yaml asks for. */}}
{{- define "gateway.image" -}}
{{ .Values.gateway.image.repository }}:{{ .Values.gateway.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* The entry of spec.storage that has the homes: where pods have it, what the gateway mounts, and what nodes call it. */}}
{{- define "gateway.storage" -}}
{{- $name := .Values.gateway.homes }}
{{- $found := dict }}
{{- range .Values.spec.storage }}
{{- if eq .name $name }}{{- $found = . }}{{- end }}
{{- end }}
{{- if not $found }}
{{- fail (printf "gateway.homes: spec.storage has no entry named %q: homes must be where the gateway, login pods and nodes all see them; add one, or name another" $name) }}
{{- end }}
{{- $sub := $found.subPath | default "" }}
{{- if and $found.claim $sub }}
{{- fail (printf "gateway.homes: the entry %q of spec.storage has a claim and a subPath: sessions mount homes by the claim's own directories; use a claim of the homes alone" $name) }}
{{- end }}
{{- if $found.claim }}
{{- toJson (dict "mountPath" $found.mountPath "claim" $found.claim "volume" (dict "name" "homes" "persistentVolumeClaim" (dict "claimName" $found.claim))) }}
{{- else }}
{{- $path := ternary (printf "%s/%s" $found.hostPath $sub) $found.hostPath (ne $sub "") }}
{{- toJson (dict "mountPath" $found.mountPath "path" $path "volume" (dict "name" "homes" "hostPath" (dict "path" $path "type" "Directory"))) }}
{{- end }}
{{- end }}

{{- /* The namespaces of sessions, as the gateway takes them: what stands behind "*" counts for none. */}}
{{- define "gateway.people" -}}
{{- $all := list }}
{{- $over := false }}
{{- range dig "scheduler" "namespaces" (list) .Values.spec }}
{{- if eq (default "*" .namespace) "*" }}{{- $over = true }}
{{- else if and (not $over) .user }}{{- $all = append $all .namespace }}{{- end }}
{{- end }}
{{- toJson (dict "namespaces" (uniq $all)) }}
{{- end }}
