{{- define "tandem.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* The version of MutatingAdmissionPolicies to write; empty: this cluster serves none that Tandem writes. Who renders without a cluster gets v1beta1. */}}
{{- define "tandem.mutating" -}}
{{- $api := .Capabilities.APIVersions }}
{{- if $api.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy" -}} v1
{{- else if or ($api.Has "admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy") (not ($api.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy")) -}} v1beta1
{{- end }}
{{- end }}
