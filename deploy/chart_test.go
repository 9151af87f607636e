package deploy_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/goccy/go-yaml"

	"github.com/inspan/inspan/internal/topology"
)

// chartDir is the Helm chart. Chart.yaml, values.yaml and the notes are written by hand; the rest is made of what
// kustomize takes, so that there is one source.
const chartDir = "helm/inspan"

// replaced are the places of the manifests that values fill in.
var replaced = []struct{ from, to string }{
	{`(?m)^(\s+)image: inspan/(\w+)$`, `${1}image: "{{ .Values.image.registry }}inspan/${2}:{{ .Values.image.tag }}"`},
	{`(?m)^(\s+)image: nats:.*$`, `${1}image: "{{ .Values.nats.image }}"`},
	{`(?m)^(\s+)app\.kubernetes\.io/part-of: inspan$`, "${0}\n${1}app.kubernetes.io/managed-by: {{ .Release.Service }}"},
	{`\.inspan\.svc\.`, `.{{ .Release.Namespace }}.svc.`},
}

// templates are the files of the chart that are made, by their path in it.
func templates(t *testing.T) map[string]string {
	t.Helper()
	var k struct{ Resources []string }
	if err := yaml.Unmarshal(read(t, "k8s/kustomization.yaml"), &k); err != nil {
		t.Fatal(err)
	}
	const head = "{{- /* Made from deploy/k8s: go test ./deploy -run Chart -rewrite */ -}}\n"
	made := map[string]string{}
	for _, name := range k.Resources {
		if name == "namespace.yaml" { // helm install --create-namespace
			continue
		}
		made["templates/"+name] = head + fill(name, string(read(t, "k8s/"+name)))
	}
	for _, name := range []string{"gateway/gateway.yaml", "callout/callout.yaml", "keda/scaledobjects.yaml", "keda/network.yaml"} {
		of, file := filepath.Split(name)
		of = strings.Trim(of, "/")
		at := "templates/" + of + "-" + file
		if of+".yaml" == file {
			at = "templates/" + file
		}
		made[at] = head + "{{- if .Values." + of + ".enabled }}\n" + fill(file, string(read(t, "k8s/"+name))) + "{{- end }}\n"
	}
	made["templates/nats-config.yaml"] = head + `apiVersion: v1
kind: ConfigMap
metadata:
  name: nats-config
  labels:
    app.kubernetes.io/part-of: inspan
    app.kubernetes.io/managed-by: {{ .Release.Service }}
data:
  nats.conf: |
{{ .Files.Get "files/nats.conf" | indent 4 }}
  users.conf: |
{{- if .Values.upgrade }}
{{ .Files.Get "files/upgrade.conf" | indent 4 }}
{{- else if .Values.callout.enabled }}
{{ .Files.Get "files/callout.conf" | indent 4 }}
{{- else }}
{{ .Files.Get "files/users.conf" | indent 4 }}
{{- end }}
`
	for _, name := range []string{"nats.conf", "users.conf", "upgrade/upgrade.conf", "callout/callout.conf"} {
		made["files/"+filepath.Base(name)] = string(read(t, "k8s/"+name))
	}
	return made
}

// fill puts values into a manifest.
func fill(name, text string) string {
	for _, r := range replaced {
		text = regexp.MustCompile(r.from).ReplaceAllString(text, r.to)
	}
	text = regexp.MustCompile(`(?m)^( *)resources:\n *requests: \{storage: 20Gi\}$`).ReplaceAllStringFunc(text, func(claim string) string {
		of, at := ".Values.workspace", claim[:strings.Index(claim, "resources:")]
		if name == "nats.yaml" {
			of = ".Values.nats.volume"
		}
		return strings.Replace(claim, "20Gi", "{{ "+of+".size }}", 1) + "\n" + at + "{{- if " + of + ".storageClassName }}\n" +
			at + "storageClassName: {{ " + of + ".storageClassName }}\n" + at + "{{- end }}"
	})
	role := strings.TrimSuffix(name, ".yaml")
	many := "  replicas: {{ .Values.replicas." + role + " }}\n"
	if role != "gateway" && role != "callout" { // KEDA does not scale them
		many = "  {{- if not .Values.keda.enabled }}\n" + many + "  {{- end }}\n"
	}
	text = strings.Replace(text, "  replicas: 2\n", many, 1)
	switch name {
	case "config.yaml":
		text = strings.TrimRight(text, "\n") + "\n  {{- range $name, $value := .Values.config }}\n  {{ $name }}: {{ $value | quote }}\n  {{- end }}\n"
	case "setup.yaml": // a job cannot be changed: each release has its own
		text = strings.Replace(text, "kind: Job\nmetadata:\n  name: setup\n", "kind: Job\nmetadata:\n  name: setup-{{ .Release.Revision }}\n", 1)
		const user = "{{ if .Values.upgrade }}upgrade{{ else }}setup{{ end }}"
		text = strings.Replace(text, "value: setup\n", "value: "+user+"\n", 1)
		text = strings.Replace(text, "key: setup}", "key: "+user+"}", 1)
	case "nats.yaml": // servers read their configuration at their start
		text = strings.Replace(text, "  template:\n    metadata:\n", "  template:\n    metadata:\n      annotations:\n"+
			"        checksum/config: {{ printf \"%s%s%v%v\" (.Files.Get \"files/nats.conf\") (.Files.Get \"files/users.conf\") .Values.upgrade .Values.callout.enabled | sha256sum }}\n", 1)
		const last = "            - name: NATS_ROUTE_PASSWORD\n"
		text = strings.Replace(text, last, "            {{- if .Values.upgrade }}\n            - name: NATS_UPGRADE_PASSWORD\n"+
			"              valueFrom:\n                secretKeyRef: {name: nats-passwords, key: upgrade}\n            {{- end }}\n"+
			"            {{- if .Values.callout.enabled }}\n            - name: NATS_CALLOUT_PASSWORD\n"+
			"              valueFrom:\n                secretKeyRef: {name: nats-passwords, key: callout}\n            - name: NATS_CALLOUT_ISSUER\n"+
			"              valueFrom:\n                secretKeyRef: {name: callout-key, key: issuer}\n            {{- end }}\n"+last, 1)
	}
	return text
}

// rendered are the objects of the chart with these values.
func rendered(t *testing.T, change func(values map[string]any)) []manifest {
	t.Helper()
	texts := renderedText(t, change)
	var all []manifest
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if strings.TrimSpace(texts[name]) != "" {
			all = append(all, parsedObjects(t, name, []byte(texts[name]))...)
		}
	}
	return all
}

// renderedText are the templates of the chart with these values by their paths, as Helm makes them of what they use of
// it.
func renderedText(t *testing.T, change func(values map[string]any)) map[string]string {
	t.Helper()
	var values map[string]any
	if err := yaml.Unmarshal(read(t, chartDir+"/values.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	change(values)
	funcs := template.FuncMap{
		"indent": func(n int, s string) string {
			return strings.Repeat(" ", n) + strings.ReplaceAll(s, "\n", "\n"+strings.Repeat(" ", n))
		},
		"quote":     func(s any) string { return `"` + s.(string) + `"` },
		"sha256sum": func(string) string { return "0" },
	}
	data := map[string]any{"Values": values, "Files": chartFiles{t}, "Release": map[string]any{"Name": "inspan", "Namespace": "elsewhere", "Service": "Helm", "Revision": 3}}
	all := map[string]string{}
	for name := range templates(t) {
		if !strings.HasPrefix(name, "templates/") {
			continue
		}
		parsed, err := template.New(name).Funcs(funcs).Option("missingkey=error").Parse(string(read(t, chartDir+"/"+name)))
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := parsed.Execute(&b, data); err != nil {
			t.Fatal(err)
		}
		all[name] = b.String()
	}
	return all
}

// chartFiles are the files of the chart beside its templates.
type chartFiles struct{ t *testing.T }

// Get is what templates call.
func (f chartFiles) Get(name string) string { return string(read(f.t, chartDir+"/"+name)) }

func TestChart(t *testing.T) {
	t.Parallel()
	made := templates(t)
	if *rewrite {
		for name, text := range made {
			if err := os.WriteFile(filepath.Join(chartDir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Run("ECO-9a the chart is made of the manifests, and has nothing else", func(t *testing.T) {
		for name, text := range made {
			if string(read(t, chartDir+"/"+name)) != text {
				t.Errorf("%s is not what the manifests say: go test ./deploy -run Chart -rewrite", name)
			}
		}
		for _, dir := range []string{"templates", "files"} {
			entries, err := os.ReadDir(filepath.Join(chartDir, dir))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if _, ok := made[dir+"/"+e.Name()]; !ok && e.Name() != "NOTES.txt" {
					t.Errorf("%s/%s comes from nowhere", dir, e.Name())
				}
			}
		}
	})
	t.Run("ECO-9a each volume has a size and a storage class of its own", func(t *testing.T) {
		type claim struct {
			StorageClassName string `yaml:"storageClassName"`
			Resources        struct {
				Requests struct{ Storage string }
			}
		}
		all := renderedText(t, func(v map[string]any) {
			v["workspace"] = map[string]any{"size": "5Gi", "storageClassName": "shared"}
			v["nats"].(map[string]any)["volume"] = map[string]any{"size": "70Gi", "storageClassName": "fast"}
		})
		var workspace struct{ Spec claim }
		tail := all["templates/toolrunner.yaml"]
		if err := yaml.Unmarshal([]byte(tail[strings.LastIndex(tail, "\n---\n")+5:]), &workspace); err != nil {
			t.Fatal(err)
		}
		var nats struct {
			Spec struct {
				VolumeClaimTemplates []struct{ Spec claim } `yaml:"volumeClaimTemplates"`
			}
		}
		for part := range strings.SplitSeq(all["templates/nats.yaml"], "\n---\n") {
			if strings.Contains(part, "kind: StatefulSet") {
				if err := yaml.Unmarshal([]byte(part), &nats); err != nil {
					t.Fatal(err)
				}
			}
		}
		if len(nats.Spec.VolumeClaimTemplates) != 1 {
			t.Fatalf("%+v", nats)
		}
		data := nats.Spec.VolumeClaimTemplates[0].Spec
		if workspace.Spec.StorageClassName != "shared" || workspace.Spec.Resources.Requests.Storage != "5Gi" ||
			data.StorageClassName != "fast" || data.Resources.Requests.Storage != "70Gi" {
			t.Errorf("workspace %+v, data of NATS %+v", workspace.Spec, data)
		}
	})
	t.Run("ECO-9a with its own values the chart has every object of the manifests, as it is there", func(t *testing.T) {
		got := rendered(t, func(map[string]any) {})
		for _, want := range manifests(t) {
			switch want.Kind {
			case "Namespace":
				continue
			case "Job":
				want.Metadata.Name += "-3"
			}
			have := find(t, got, want.Kind, want.Metadata.Name)
			if len(want.Spec.Template.Spec.Containers) != len(have.Spec.Template.Spec.Containers) || have.Spec.Replicas != want.Spec.Replicas {
				t.Errorf("%s %s differs", want.Kind, want.Metadata.Name)
			}
			for i, c := range have.Spec.Template.Spec.Containers {
				if from := want.Spec.Template.Spec.Containers[i].Image; c.Image != from && c.Image != from+":0.1.0" {
					t.Errorf("%s runs %s, want %s", want.Metadata.Name, c.Image, from)
				}
			}
			if have.Kind == "Deployment" {
				workload(t, got, have)
			}
		}
		for _, m := range got {
			if m.Kind == "ScaledObject" || m.Metadata.Name == "gateway" || m.Metadata.Name == "callout" {
				t.Errorf("%s %s is there, and nobody asked for it", m.Kind, m.Metadata.Name)
			}
		}
	})
	t.Run("ECO-9b with KEDA each service is scaled and has no number of its own, and the gateway is there when asked for", func(t *testing.T) {
		got := rendered(t, func(v map[string]any) {
			v["keda"], v["gateway"] = map[string]any{"enabled": true}, map[string]any{"enabled": true}
			v["config"] = map[string]any{"INSPAN_LOG_LEVEL_X": "debug"}
			v["image"] = map[string]any{"registry": "registry.example.com/", "tag": "9"}
		})
		for _, name := range []string{"planner", "gatekeeper", "executor", "toolrunner", "persister"} {
			find(t, got, "ScaledObject", name)
			if m := find(t, got, "Deployment", name); m.Spec.Replicas != 0 {
				t.Errorf("%s has %d replicas beside KEDA", name, m.Spec.Replicas)
			} else if image := m.Spec.Template.Spec.Containers[0].Image; image != "registry.example.com/inspan/"+name+":9" {
				t.Errorf("%s runs %s", name, image)
			}
		}
		if m := find(t, got, "Deployment", "gateway"); m.Spec.Replicas != 2 {
			t.Errorf("gateway has %d replicas", m.Spec.Replicas)
		}
		if find(t, got, "ConfigMap", "inspan").Data["INSPAN_LOG_LEVEL_X"] != "debug" {
			t.Error("a setting of the values is missing")
		}
		env := map[string]string{}
		for _, v := range find(t, got, "Job", "setup-3").Spec.Template.Spec.Containers[0].Env {
			env[v.Name] = v.Value
		}
		if env["INSPAN_NATS_USER"] != topology.SetupUser {
			t.Errorf("the job connects as %q", env["INSPAN_NATS_USER"])
		}
		if conf := find(t, got, "ConfigMap", "nats-config").Data["users.conf"]; strings.TrimSpace(conf) != strings.TrimSpace(string(read(t, "k8s/users.conf"))) {
			t.Error("the users of NATS differ")
		}
	})
	t.Run("PLUS-22 ECO-9a people of a provider are let in where that is asked for, and the server then asks callout", func(t *testing.T) {
		for _, enabled := range []bool{false, true} {
			got := rendered(t, func(v map[string]any) { v["callout"] = map[string]any{"enabled": enabled} })
			text := fmt.Sprint(find(t, got, "ConfigMap", "nats-config").Data["users.conf"], find(t, got, "StatefulSet", "nats"))
			for _, word := range []string{"auth_callout", "$NATS_CALLOUT_ISSUER", "NATS_CALLOUT_PASSWORD ", "NATS_CALLOUT_ISSUER "} {
				if strings.Contains(text, word) != enabled {
					t.Errorf("callout %v: %q is there: %v", enabled, word, !enabled)
				}
			}
			if enabled {
				m := find(t, got, "Deployment", "callout")
				workload(t, got, m)
				if image := m.Spec.Template.Spec.Containers[0].Image; image != "inspan/inspan:0.1.0" || m.Spec.Replicas != 2 {
					t.Errorf("%d of %s", m.Spec.Replicas, image)
				}
				find(t, got, "NetworkPolicy", "provider")
			}
		}
	})
	t.Run("SAFE-6 who may change streams is there for an upgrade alone", func(t *testing.T) {
		for _, upgrade := range []bool{false, true} {
			got := rendered(t, func(v map[string]any) { v["upgrade"] = upgrade })
			text := fmt.Sprint(find(t, got, "ConfigMap", "nats-config").Data["users.conf"], find(t, got, "StatefulSet", "nats"),
				find(t, got, "Job", "setup-3"))
			for _, word := range []string{"$NATS_UPGRADE_PASSWORD", "NATS_UPGRADE_PASSWORD ", "INSPAN_NATS_USER upgrade"} {
				if strings.Contains(text, word) != upgrade {
					t.Errorf("upgrade %v: %q is there: %v", upgrade, word, !upgrade)
				}
			}
		}
	})
}
