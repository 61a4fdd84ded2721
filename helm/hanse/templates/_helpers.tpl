{{- /* Names, labels, and what both kinds of pods share. */ -}}

{{- define "hanse.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end -}}

{{- define "hanse.peers" -}}{{ include "hanse.name" . }}-peers{{- end -}}
{{- define "hanse.access" -}}{{ include "hanse.name" . }}-access{{- end -}}
{{- define "hanse.agent" -}}{{ include "hanse.name" . }}-agent{{- end -}}

{{- define "hanse.labels" -}}
app.kubernetes.io/name: hanse
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- /* What selects pods: dict "root" . "part" "global" */ -}}
{{- define "hanse.selector" -}}
app.kubernetes.io/name: hanse
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "hanse.image" -}}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{- end -}}

{{- define "hanse.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "hanse.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "hanse.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{- /* The Secret of certificates: one that is named, or that of cert-manager. dict "root" . "tls" .. "name" .. */ -}}
{{- define "hanse.tlsSecret" -}}
{{- if .tls.secret }}{{ .tls.secret }}{{ else if .tls.issuer.name }}{{ .name }}-tls{{ end }}
{{- end -}}

{{- /* Where an agent of this release finds the replicas, as a list in JSON. */ -}}
{{- define "hanse.addresses" -}}
{{- if .Values.agent.replicas }}{{ toJson .Values.agent.replicas }}
{{- else if .Values.replica.enabled }}
{{- $root := . }}{{ $all := list }}
{{- range $n := until (int .Values.replica.count) }}
{{- $all = append $all (printf "%s-%d.%s.%s.svc:7311" (include "hanse.name" $root) $n (include "hanse.peers" $root) $root.Release.Namespace) }}
{{- end }}{{ toJson $all }}
{{- else }}{{ fail "agent.replicas: name HOST:PORT of every global replica, since this release has none of its own" }}
{{- end }}
{{- end -}}

{{- define "hanse.common" -}}
{{- $found := dict "log_format" "json" "prometheus" (printf "0.0.0.0:%d" (int .Values.metrics.port)) }}
{{- with .Values.otlp }}{{ $_ := set $found "otlp" . }}{{ end }}
{{- toJson $found }}
{{- end -}}
