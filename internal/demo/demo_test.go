package demo

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestDemo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	store := t.TempDir()
	var out strings.Builder
	gates := 0
	err := Run(ctx, Options{Examples: filepath.Join("..", "..", "examples"), Store: store, Sandbox: "auto", Out: &out,
		See: func(f events.Fact, p events.Payload, _ run.State) { t.Log(f.Sequence, p.Kind()) },
		Approve: func(context.Context, *events.GateOpenedData) (bool, string, error) {
			gates++
			return true, "", nil
		}})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	t.Run("GATE-2 the agent fixes a real module, stops at the gate before the critical step, and commits", func(t *testing.T) {
		code, err := os.ReadFile(filepath.Join(store, "workspace", "session", "demo", "invoice.go"))
		if err != nil || !strings.Contains(string(code), "+ 50) / 100") {
			t.Errorf("the file is not fixed: %v", err)
		}
		if gates != 1 || !strings.Contains(out.String(), "invoice: round line totals half up") || !strings.Contains(out.String(), "Result: completed (agent_done), 2 of 2 steps.") {
			t.Errorf("%d gates\n%s", gates, out.String())
		}
	})
	t.Log(out.String())
}
