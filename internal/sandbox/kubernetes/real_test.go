//go:build integration

package kubernetes_test

import (
	"os"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox/kubernetes"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// TestRealExam is the exam against a real cluster.
func TestRealExam(t *testing.T) {
	cfg := kubernetes.Config{URL: os.Getenv("INSPAN_KUBERNETES_URL"), TokenFile: os.Getenv("INSPAN_KUBERNETES_TOKEN_FILE"), CAFile: os.Getenv("INSPAN_KUBERNETES_CA_FILE"),
		Namespace: os.Getenv("INSPAN_KUBERNETES_NAMESPACE"), Image: os.Getenv("INSPAN_KUBERNETES_IMAGE"), RuntimeClass: os.Getenv("INSPAN_KUBERNETES_RUNTIME_CLASS")}
	if cfg.Image == "" {
		t.Fatal("NOT TESTED: a Kubernetes cluster: set INSPAN_KUBERNETES_IMAGE, and INSPAN_KUBERNETES_URL, _TOKEN_FILE, _CA_FILE, _NAMESPACE, _RUNTIME_CLASS and _ENFORCES where they are needed")
	}
	if list := os.Getenv("INSPAN_KUBERNETES_ENFORCES"); list != "" {
		cfg.Enforces = strings.Split(list, ",")
	}
	sandboxtest.Exam(t, kubernetes.New(cfg))
}
