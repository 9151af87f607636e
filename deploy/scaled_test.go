package deploy_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// scaling is how far a role scales, and how many messages one instance is to have waiting.
type scaling struct{ most, waiting int }

// scalings: an executor waits for models and a toolrunner for commands, so they have few messages and many instances; the
// others decide within milliseconds.
var scalings = map[events.Service]scaling{events.Planner: {8, 200}, events.Gatekeeper: {8, 200}, events.Executor: {40, 32},
	events.Toolrunner: {20, 16}, events.Persister: {8, 500}}

// scaled renders the objects by which KEDA scales each role by all of its consumers.
func scaled() []byte {
	var b bytes.Buffer
	b.WriteString("# Made from internal/topology: go test ./deploy -run Scaled -rewrite. One trigger for each consumer of a role.\n")
	for i, role := range events.Services() {
		if i > 0 {
			b.WriteString("---\n")
		}
		s := scalings[role]
		fmt.Fprintf(&b, `apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: %[1]s
  labels:
    app.kubernetes.io/name: %[1]s
    app.kubernetes.io/instance: inspan
    app.kubernetes.io/component: %[1]s
    app.kubernetes.io/part-of: inspan
spec:
  scaleTargetRef: {name: %[1]s}
  minReplicaCount: 2
  maxReplicaCount: %[2]d
  pollingInterval: 5
  # An instance that is taken away finishes what it does, which costs minutes: so not for a short lull.
  cooldownPeriod: 300
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:
        scaleDown: {stabilizationWindowSeconds: 300}
  triggers:
`, role, s.most)
		for _, c := range topology.Consumers(station, role) {
			fmt.Fprintf(&b, `    - type: nats-jetstream
      metadata:
        natsServerMonitoringEndpoint: nats-headless.inspan.svc.cluster.local:8222
        account: %s
        stream: %s
        consumer: %s
        lagThreshold: "%d"
`, topology.StreamsAccount(station), c.Stream, c.Name, s.waiting)
		}
	}
	return b.Bytes()
}

func TestScaled(t *testing.T) {
	t.Parallel()
	path := filepath.Join("k8s", "keda", "scaledobjects.yaml")
	if *rewrite {
		if err := os.WriteFile(path, scaled(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("ECO-9b there is a ScaledObject for each role, with a trigger for each of its consumers", func(t *testing.T) {
		if !bytes.Equal(read(t, path), scaled()) {
			t.Error("it is not what the table of consumers says: go test ./deploy -run Scaled -rewrite")
		}
	})
	t.Run("ECO-9b each scales a Deployment that there is", func(t *testing.T) {
		all := manifests(t)
		for object := range strings.SplitSeq(string(read(t, path)), "---\n") {
			var o struct {
				Spec struct {
					Target struct{ Name string } `yaml:"scaleTargetRef"`
					Min    int                   `yaml:"minReplicaCount"`
					Max    int                   `yaml:"maxReplicaCount"`
				}
			}
			if err := yaml.Unmarshal([]byte(object), &o); err != nil {
				t.Fatal(err)
			}
			if find(t, all, "Deployment", o.Spec.Target.Name); o.Spec.Min < 2 || o.Spec.Max <= o.Spec.Min {
				t.Errorf("%+v", o)
			}
		}
	})
	t.Run("the accounts of NATS have the name that KEDA asks for", func(t *testing.T) {
		if !strings.Contains(string(read(t, "k8s/users.conf")), `"`+topology.StreamsAccount(station)+`": {`) {
			t.Errorf("no account %s", topology.StreamsAccount(station))
		}
	})
}

// TestGatewayComponent looks at the workload that is there where the component gateway is used.
func TestGatewayComponent(t *testing.T) {
	t.Parallel()
	all := slices.Concat(manifests(t), objects(t, "k8s/gateway/gateway.yaml"))
	t.Run("DEPL-5 ECO-9a gateway is a workload that scales by itself, with probes, limits, few rights and a disruption budget", func(t *testing.T) {
		m := find(t, all, "Deployment", events.Gateway)
		workload(t, all, m)
		known := known()
		for _, v := range m.Spec.Template.Spec.Containers[0].Env {
			if strings.HasPrefix(v.Name, "INSPAN_") && !known[v.Name] {
				t.Errorf("no one reads %s", v.Name)
			}
		}
	})
}

// TestCalloutComponent looks at what is there where the component callout is used.
func TestCalloutComponent(t *testing.T) {
	t.Parallel()
	own := objects(t, "k8s/callout/callout.yaml")
	all := slices.Concat(manifests(t), objects(t, "k8s/gateway/gateway.yaml"), own)
	t.Run("PLUS-22 DEPL-5 ECO-9a callout is a workload with probes, limits, few rights and a disruption budget, and connects as its own user", func(t *testing.T) {
		m := find(t, all, "Deployment", topology.CalloutUser)
		workload(t, all, m)
		env, names := map[string]string{}, known()
		for _, v := range m.Spec.Template.Spec.Containers[0].Env {
			if name := strings.TrimSuffix(v.Name, "_FILE"); !names[name] {
				t.Errorf("no one reads %s", v.Name)
			}
			env[v.Name] = v.Value
		}
		if env["INSPAN_NATS_USER"] != topology.CalloutUser {
			t.Errorf("it connects as %q", env["INSPAN_NATS_USER"])
		}
	})
	t.Run("PLUS-22 SAFE-6 the key that says who a person is reaches callout alone", func(t *testing.T) {
		key := "secretName: callout-key"
		if text := string(read(t, "k8s/callout/callout.yaml")); strings.Count(text, key) != 1 || !strings.Contains(text, "items: [{key: callout.nk") {
			t.Errorf("the key is not mounted once:\n%s", text)
		}
		for _, name := range []string{"k8s/gateway/gateway.yaml", "k8s/nats.yaml", "k8s/executor.yaml", "k8s/toolrunner.yaml", "k8s/planner.yaml", "k8s/gatekeeper.yaml", "k8s/persister.yaml"} {
			if strings.Contains(string(read(t, name)), "callout") {
				t.Errorf("%s knows of callout", name)
			}
		}
		if text := string(read(t, "k8s/callout/kustomization.yaml")); strings.Contains(text, "key: callout.nk") {
			t.Error("the server is given the seed")
		}
	})
	t.Run("PLUS-22 DEPL-5 callout reaches NATS, names and public addresses over TLS, and nothing reaches it but the monitoring", func(t *testing.T) {
		find(t, own, "NetworkPolicy", "provider")
		for _, m := range own {
			if m.Kind == "Service" || m.Kind == "Ingress" {
				t.Errorf("it has a %s", m.Kind)
			}
		}
		text := string(read(t, "k8s/callout/callout.yaml"))
		policy := text[strings.Index(text, "kind: NetworkPolicy"):]
		if strings.Contains(policy, "Ingress") || strings.Count(policy, "port: 443") != 1 || strings.Count(policy, "port:") != 1 || !strings.Contains(policy, "except: [10.0.0.0/8,") {
			t.Errorf("%s", policy)
		}
	})
}
