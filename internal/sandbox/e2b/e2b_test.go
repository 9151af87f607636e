package e2b_test

import (
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox/e2b"
	"github.com/inspan/inspan/internal/sandbox/e2b/e2btest"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
	"github.com/inspan/inspan/internal/secret"
)

// cloud starts a double of the service, and a backend for it.
func cloud(t testing.TB) (*e2btest.Server, *e2b.Backend) {
	t.Helper()
	s := e2btest.New(t.TempDir())
	t.Cleanup(s.Close)
	return s, backend(s)
}

func backend(s *e2btest.Server) *e2b.Backend { return e2b.New(config(s)) }

func config(s *e2btest.Server) e2b.Config {
	return e2b.Config{Key: secret.New(e2btest.Key), URL: s.URL, SandboxURL: s.URL, Retry: time.Millisecond}
}

// BenchmarkCosts is against the double on this machine: what is measured is this side, without the way to a service and
// what that does.
func BenchmarkCosts(b *testing.B) {
	_, backend := cloud(b)
	sandboxtest.Costs(b, backend)
}

// TestExam is not parallel, because it counts what the whole process allocates.
func TestExam(t *testing.T) {
	_, b := cloud(t)
	sandboxtest.Exam(t, b)
}
