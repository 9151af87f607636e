package host_test

import (
	"errors"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/host"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

func TestExam(t *testing.T) { sandboxtest.Exam(t, host.New("")) }

func BenchmarkCosts(b *testing.B) { sandboxtest.Costs(b, host.New("")) }

func TestClosedNetworkIsRefused(t *testing.T) {
	t.Parallel()
	t.Run("SBX-20 host says that it can not close the network", func(t *testing.T) {
		_, err := host.New("").Open(t.Context(), sandbox.Config{ID: "x", Workspace: t.TempDir()})
		if !errors.Is(err, sandbox.ErrUnavailable) {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
	})
}
