//go:build integration

package deploy_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// kubectl runs it against the cluster of KUBECONFIG and returns all that it says.
func kubectl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "kubectl", args...).CombinedOutput()
	return string(out), err
}

// TestServer asks a real API server whether it takes the manifests: nothing is made but a namespace of its own, which
// is deleted. A missing cluster fails: who runs this wants it tested.
func TestServer(t *testing.T) {
	if out, err := kubectl(t, "version"); err != nil {
		t.Fatalf("NOT TESTED: a Kubernetes cluster: install kubectl and set KUBECONFIG: %v\n%s", err, out)
	}
	overlays := map[string]string{"inspan-check": "", "inspan-check-bwrap": "components: [../k8s/bwrap]\n",
		"inspan-check-gateway": "components: [../k8s/gateway]\n", "inspan-check-callout": "components: [../k8s/gateway, ../k8s/callout]\n"}
	if out, err := kubectl(t, "get", "crd", "scaledobjects.keda.sh"); err != nil {
		t.Errorf("NOT TESTED: the component keda: the cluster has no ScaledObjects of KEDA: %v\n%s", err, out)
	} else {
		overlays["inspan-check-keda"] = "components: [../k8s/keda, ../k8s/gateway]\n"
	}
	for name, components := range overlays {
		t.Run("DEPL-5 ECO-9 a real API server takes every object of "+name+" and warns of nothing", func(t *testing.T) {
			dir, err := os.MkdirTemp(".", "overlay-") // kustomize takes relative paths alone
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			overlay := "namespace: " + name + "\nresources: [../k8s]\n" + components
			if err := os.WriteFile(dir+"/kustomization.yaml", []byte(overlay), 0o600); err != nil {
				t.Fatal(err)
			}
			all, err := kubectl(t, "kustomize", dir)
			if err != nil {
				t.Fatalf("%v\n%s", err, all)
			}
			for object := range strings.SplitSeq(all, "\n---\n") {
				if strings.Contains(object, "kind: Namespace\n") {
					if err := os.WriteFile(dir+"/namespace.yaml", []byte(object), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			t.Cleanup(func() {
				if out, err := kubectl(t, "delete", "namespace", name, "--ignore-not-found", "--wait=false"); err != nil {
					t.Errorf("delete namespace %s: %v\n%s", name, err, out)
				}
			})
			if out, err := kubectl(t, "apply", "-f", dir+"/namespace.yaml"); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			out, err := kubectl(t, "apply", "-k", dir, "--dry-run=server", "--validate=strict")
			if err != nil || strings.Contains(out, "Warning") || strings.Count(out, "created (server dry run)") < 20 {
				t.Errorf("got %v\n%s", err, out)
			}
			t.Log(out)
		})
	}
}

// TestServerChart has Helm itself render the chart, and asks the API server about the outcome as TestServer does.
func TestServerChart(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), "helm", "version").CombinedOutput(); err != nil {
		t.Fatalf("NOT TESTED: the chart: install helm: %v\n%s", err, out)
	}
	values := map[string]string{"plain": "upgrade=false", "gateway": "gateway.enabled=true", "callout": "gateway.enabled=true,callout.enabled=true",
		"upgrade": "upgrade=true", "registry": "image.registry=registry.example.com/,workspace.storageClassName=shared,nats.volume.storageClassName=fast,nats.volume.size=70Gi"}
	if out, err := kubectl(t, "get", "crd", "scaledobjects.keda.sh"); err != nil {
		t.Errorf("NOT TESTED: keda.enabled: the cluster has no ScaledObjects of KEDA: %v\n%s", err, out)
	} else {
		values["keda"] = "gateway.enabled=true,keda.enabled=true"
	}
	for name, set := range values {
		t.Run("DEPL-5 ECO-9 a real API server takes what Helm renders and warns of nothing: "+name, func(t *testing.T) {
			namespace := "inspan-chart-" + name
			helm := func(args ...string) string {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), "helm", append(args, "--namespace", namespace, "--set", set)...)
				var problem strings.Builder
				cmd.Stderr = &problem
				out, err := cmd.Output()
				if err != nil || strings.Contains(strings.ToLower(problem.String()), "warning") {
					t.Fatalf("helm %s: %v\n%s%s", strings.Join(args, " "), err, out, problem.String())
				}
				return string(out)
			}
			dir := t.TempDir()
			space := strings.ReplaceAll(string(read(t, "k8s/namespace.yaml")), "name: inspan", "name: "+namespace)
			all := map[string]string{"namespace.yaml": space, "chart.yaml": helm("template", "inspan", "helm/inspan")}
			for file, text := range all {
				if err := os.WriteFile(dir+"/"+file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if strings.Contains(all["chart.yaml"], "<no value>") {
				t.Error("a value is missing")
			}
			helm("lint", "--strict", "helm/inspan")
			t.Cleanup(func() {
				if out, err := kubectl(t, "delete", "namespace", namespace, "--ignore-not-found", "--wait=false"); err != nil {
					t.Errorf("delete namespace %s: %v\n%s", namespace, err, out)
				}
			})
			if out, err := kubectl(t, "apply", "-f", dir+"/namespace.yaml"); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			out, err := kubectl(t, "apply", "--namespace", namespace, "-f", dir+"/chart.yaml", "--dry-run=server", "--validate=strict")
			if err != nil || strings.Contains(out, "Warning") || strings.Count(out, "created (server dry run)") < 20 {
				t.Errorf("got %v\n%s", err, out)
			}
			t.Log(out)
			helm("install", "inspan", "helm/inspan", "--dry-run=server")
		})
	}
}
