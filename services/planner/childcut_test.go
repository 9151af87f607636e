package planner

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestChildHalfBegun(t *testing.T) {
	t.Parallel()
	t.Run("SUB-4 SAFE-3 SAFE-7 a planner that dies at any operation of a child's beginning leaves a child that goes on with its run.created", func(t *testing.T) {
		t.Parallel()
		halves := 0
		for left := range 16 {
			w := newTheater(t, 1)
			task := letter{events.TaskSubject("s1"), `{"id":"p","agent":"a","task":"do","plan":{"steps":[{"id":"s","description":"d","agent":"a","child":"own"}]}}`, 1}
			if err := w.roles[0].Input(t.Context(), task); err != nil {
				t.Fatal(err)
			}
			gatekeeper, err := runlog.NewLedger(runlog.LedgerConfig{Station: "s1", By: events.Gatekeeper, Journal: w.st.JournalOf(events.Gatekeeper), Entropy: rand.Reader})
			if err != nil {
				t.Fatal(err)
			}
			_, err = gatekeeper.Write(t.Context(), "p", func(run.State, time.Time) ([]events.Payload, error) {
				return []events.Payload{&events.StepAllowedData{Event: "step_start", Step: "s", Agent: "a", Autonomy: 3}}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			of, err := w.roles[0].cfg.Ledger.Fresh(t.Context(), "p")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			w.kill, w.left, w.late = cancel, left, true
			_ = w.roles[0].Event(ctx, runlog.ReceivedEvent{Run: "p", Kind: events.StepAllowed, Step: "s", State: of, Deliveries: 1})
			cancel()
			w.left = -1
			r := w.planner()
			for _, id := range w.st.Runs() {
				s, err := r.cfg.Ledger.Fresh(t.Context(), id)
				if err != nil || s.Created.ChildOf == nil {
					continue
				}
				if s.Plan != nil && s.Plan.Steps[0].Status == events.StepIsPending {
					halves++
				}
				for deliveries := uint64(1); ; deliveries++ {
					err := r.Event(t.Context(), runlog.ReceivedEvent{Run: id, Kind: events.RunCreated, State: s, Deliveries: deliveries})
					if err == nil {
						break
					}
					if _, again := errors.AsType[*kernel.RetryAfter](err); !again || deliveries > 3 {
						t.Fatal(err)
					}
					if s, err = r.cfg.Ledger.Fresh(t.Context(), id); err != nil {
						t.Fatal(err)
					}
				}
				if s, err = r.cfg.Ledger.Fresh(t.Context(), id); err != nil || s.Plan == nil || s.Plan.Steps[0].Status == events.StepIsPending {
					t.Errorf("after %d operations no step of the child is ready: %v", left, err)
				}
			}
		}
		if halves == 0 {
			t.Error("no planner died between the plan and its first step")
		}
	})
}
