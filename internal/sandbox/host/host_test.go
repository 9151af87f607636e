package host_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/host"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

func TestExam(t *testing.T) { sandboxtest.Exam(t, host.New("")) }

func BenchmarkCosts(b *testing.B) { sandboxtest.Costs(b, host.New("")) }

// TestNothingBetween shows why host mode costs what plain execution costs; the benchmarks beside it show how much that
// is.
func TestNothingBetween(t *testing.T) {
	t.Parallel()
	t.Run("PERF-4 SBX-3 a command is a child of this very process: no helper and no shell stands between", func(t *testing.T) {
		sb, err := host.New("").Open(t.Context(), sandbox.Config{ID: "x", Workspace: t.TempDir(), Network: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = sb.Destroy(context.WithoutCancel(t.Context())) }()
		var out strings.Builder
		exit, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"/bin/sh", "-c", "echo $PPID"}, Stdout: &out})
		if err != nil || exit.Code != 0 || strings.TrimSpace(out.String()) != strconv.Itoa(os.Getpid()) {
			t.Errorf("got parent %q, want %d; %+v %v", out.String(), os.Getpid(), exit, err)
		}
	})
}

func TestClosedNetworkIsRefused(t *testing.T) {
	t.Parallel()
	t.Run("SBX-20 host says that it cannot close the network", func(t *testing.T) {
		_, err := host.New("").Open(t.Context(), sandbox.Config{ID: "x", Workspace: t.TempDir()})
		if !errors.Is(err, sandbox.ErrUnavailable) {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
	})
}
