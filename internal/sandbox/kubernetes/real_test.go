//go:build integration

package kubernetes_test

import (
	"os"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/kubernetes"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// real is the cluster of the variables. A missing one fails: who runs this wants it tested.
func real(t *testing.T) *kubernetes.Backend {
	t.Helper()
	cfg := kubernetes.Config{URL: os.Getenv("INSPAN_KUBERNETES_URL"), TokenFile: os.Getenv("INSPAN_KUBERNETES_TOKEN_FILE"), CAFile: os.Getenv("INSPAN_KUBERNETES_CA_FILE"),
		Namespace: os.Getenv("INSPAN_KUBERNETES_NAMESPACE"), Image: os.Getenv("INSPAN_KUBERNETES_IMAGE"), RuntimeClass: os.Getenv("INSPAN_KUBERNETES_RUNTIME_CLASS"),
		WarmPool: os.Getenv("INSPAN_KUBERNETES_WARM_POOL")}
	if cfg.Image == "" && cfg.WarmPool == "" {
		t.Fatal("NOT TESTED: a Kubernetes cluster: set INSPAN_KUBERNETES_IMAGE or _WARM_POOL, and INSPAN_KUBERNETES_URL, _TOKEN_FILE, _CA_FILE, _NAMESPACE, _RUNTIME_CLASS and _ENFORCES where they are needed")
	}
	if list := os.Getenv("INSPAN_KUBERNETES_ENFORCES"); list != "" {
		cfg.Enforces = strings.Split(list, ",")
	}
	t.Setenv(sandboxtest.NeedVariable, string(sandbox.Kubernetes))
	return kubernetes.New(cfg)
}

// TestRealExam is the exam against a real cluster.
func TestRealExam(t *testing.T) { sandboxtest.Exam(t, real(t)) }

// TestRealEscape is the escape list, for which the cluster has to keep the network closed.
func TestRealEscape(t *testing.T) { sandboxtest.Escape(t, real(t)) }

// TestRealReap deletes what lost tests of this computer left in the cluster, and leaves the living alone.
func TestRealReap(t *testing.T) {
	b := real(t)
	box := open(t, b, sandbox.Config{Network: true})
	n, err := b.Reap(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if out, err := sh(t, box, "echo lives", sandbox.Cmd{}); err != nil || out != "lives\n" {
		t.Errorf("got %q, %v", out, err)
	}
	t.Logf("%d deleted", n)
	if n, err := b.Reap(t.Context()); n != 0 || err != nil {
		t.Errorf("again: got %d, %v", n, err)
	}
}
