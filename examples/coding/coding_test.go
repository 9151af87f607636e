package main

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/harness"
)

func TestCoding(t *testing.T) {
	t.Parallel()
	t.Run("SDK-16 SDK-10 SDK-11 three tickets end with none remaining and all three in completed", func(t *testing.T) {
		t.Parallel()
		h := &CodingHarness{tickets: tickets(), coder: coder(), reviewer: reviewer()}
		if err := harness.Run(t.Context(), h, config(h.tickets)); err != nil {
			t.Fatal(err)
		}
		s := h.State()
		if s.TicketsRemaining != 0 || !slices.Equal(s.Completed, []string{"T-1", "T-2", "T-3"}) || h.CurrentStep() != 3 || !h.IsComplete() {
			t.Errorf("got %+v after %d steps", s, h.CurrentStep())
		}
		last := h.StepHistory()[2]
		if !slices.Equal(last.StateDelta.Modified, []string{"completed", "ticketsRemaining"}) || !last.Output.Success || last.Output.FilesChanged[0] != "t-3.go" {
			t.Errorf("got %+v", last)
		}
	})
	t.Run("SDK-16 SDK-21 a ticket that fails stops it there, and the next run goes on with it", func(t *testing.T) {
		t.Parallel()
		var worked []string
		broken := true
		flaky := harness.NewAgent(harness.AgentConfig[CodingState, Ticket, CodeResult]{Effect: harness.Idempotent, Run: func(_ context.Context, p params) (CodeResult, error) {
			worked = append(worked, p.Input.ID)
			if p.Input.ID == "T-2" && broken {
				return CodeResult{}, errors.New("the build is broken")
			}
			return CodeResult{true, []string{"x.go"}}, nil
		}})
		store := harness.WithStore(&harness.MemoryStore{})
		h := &CodingHarness{tickets: tickets(), coder: flaky, reviewer: reviewer()}
		if err := harness.Run(t.Context(), h, config(h.tickets), store); err == nil || h.State().TicketsRemaining != 2 {
			t.Fatalf("got %v, %+v", err, h.State())
		}
		broken = false
		h = &CodingHarness{tickets: tickets(), coder: flaky, reviewer: reviewer()}
		if err := harness.Run(t.Context(), h, config(h.tickets), store); err != nil || !slices.Equal(worked, []string{"T-1", "T-2", "T-2", "T-3"}) {
			t.Errorf("got %v, worked on %v", err, worked)
		}
	})
	t.Run("TEST-6 the program runs", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		if err := run(t.Context(), nil, &out); err != nil || !strings.Contains(out.String(), "ticketsRemaining 0, completed [T-1 T-2 T-3]") {
			t.Errorf("got %v\n%s", err, out.String())
		}
	})
}
