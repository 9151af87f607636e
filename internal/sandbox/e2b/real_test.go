//go:build integration

package e2b_test

import (
	"os"
	"testing"

	"github.com/inspan/inspan/internal/sandbox/e2b"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
	"github.com/inspan/inspan/internal/secret"
)

// TestRealExam is the exam against the real service: it costs money.
func TestRealExam(t *testing.T) {
	key := secret.New(os.Getenv("INSPAN_E2B_API_KEY"))
	if key.Empty() {
		t.Fatal("NOT TESTED: the E2B cloud: set INSPAN_E2B_API_KEY, and INSPAN_E2B_URL, INSPAN_E2B_SANDBOX_URL and INSPAN_E2B_TEMPLATE where they are others")
	}
	b := e2b.New(e2b.Config{Key: key, URL: os.Getenv("INSPAN_E2B_URL"), SandboxURL: os.Getenv("INSPAN_E2B_SANDBOX_URL"), Template: os.Getenv("INSPAN_E2B_TEMPLATE")})
	sandboxtest.Exam(t, b)
}
