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
