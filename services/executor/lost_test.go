package executor

import (
	"context"
	"crypto/rand"
	"testing"

	"github.com/inspan/inspan/internal/kernel/kerneltest"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/streaming"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/pkg/tool"
)

// talker answers every request in one way.
type talker struct {
	asked int
	do    func(n int, sink llm.Sink) (llm.Answer, error)
}

func (m *talker) Model(string) (llm.Model, string, error) { return m, "test", nil }

func (m *talker) Ask(_ context.Context, _ llm.Request, sink llm.Sink) (llm.Answer, error) {
	m.asked++
	return m.do(m.asked, sink)
}

// stored puts events into a fresh log and returns an executor over it, and the state.
func stored(t *testing.T, m *talker, payloads ...events.Payload) (*Role, *runlog.Ledger, run.State) {
	t.Helper()
	s, err := mem.New("s1", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := runlog.NewLedger(runlog.LedgerConfig{Station: "s1", By: events.Executor, Journal: s.JournalOf(events.Executor), Entropy: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	kerneltest.Seed(t, s.Journal(), runtest.New("s1", "r1").Append(payloads...)...)
	tools, err := tool.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(Config{Ledger: l, Timers: s.Timers(), Blobs: s.Blobs(), Live: streaming.New(s.Live()), Models: m, Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	state, _, err := l.State(t.Context(), "r1")
	if err != nil {
		t.Fatal(err)
	}
	return r, l, state
}

func limited(tokens int64) []events.Payload {
	c := runtest.Created()
	c.Options.MaxTokens = tokens
	return []events.Payload{c, runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a")}
}

func TestLostRequests(t *testing.T) {
	t.Parallel()
	done := func(int, llm.Sink) (llm.Answer, error) {
		return llm.Answer{Text: "done", Finish: llm.Done, Usage: llm.Usage{Input: 10, Output: 1}}, nil
	}
	t.Run("PLUS-3 a turn whose delivery comes again counts the request of the one before, of which no one knows", func(t *testing.T) {
		t.Parallel()
		for _, again := range []struct {
			deliveries uint64
			lost       int
		}{{1, 0}, {2, 1}, {3, 2}} {
			r, l, s := stored(t, &talker{do: done}, limited(1_000_000)...)
			if err := r.Event(t.Context(), runlog.ReceivedEvent{Run: "r1", Kind: events.StepAllowed, Sequence: s.Sequence, Step: "a", State: s, Deliveries: again.deliveries}); err != nil {
				t.Fatal(err)
			}
			after, _, err := l.State(t.Context(), "r1")
			if err != nil || after.Lost.Requests != again.lost || (after.Lost.Tokens > 0) != (again.lost > 0) || after.Step("a").Status != events.StepIsCompleted {
				t.Errorf("delivery %d: %v %+v", again.deliveries, err, after.Lost)
			}
		}
	})
	t.Run("PLUS-3 what the requests before may have used can use the budget up; the model is not asked then", func(t *testing.T) {
		t.Parallel()
		m := &talker{do: done}
		r, l, s := stored(t, m, limited(20_000)...)
		if err := r.DueAgain(t.Context(), "r1", "turn", "a", s, 3); err != nil {
			t.Fatal(err)
		}
		after, _, err := l.State(t.Context(), "r1")
		if err != nil || m.asked != 0 || after.Step("a").RunReason != events.FinishTokens {
			t.Errorf("%v, asked %d times: %+v", err, m.asked, after.Step("a"))
		}
	})
	t.Run("PLUS-3 an answer that was cut counts as what was set aside, one that never began as nothing", func(t *testing.T) {
		t.Parallel()
		for _, begun := range []bool{true, false} {
			m := &talker{do: func(_ int, sink llm.Sink) (llm.Answer, error) {
				if begun {
					sink(llm.Delta{Text: "I beg"})
				}
				return llm.Answer{}, &llm.Error{Class: llm.Transient, Err: context.DeadlineExceeded}
			}}
			r, l, s := stored(t, m, limited(1_000_000)...)
			if err := r.Event(t.Context(), runlog.ReceivedEvent{Run: "r1", Kind: events.StepAllowed, Sequence: s.Sequence, Step: "a", State: s, Deliveries: 1}); err != nil {
				t.Fatal(err)
			}
			after, _, err := l.State(t.Context(), "r1")
			if err != nil || (after.Lost.Requests == 1) != begun || after.Step("a").Attempt != 1 {
				t.Errorf("begun %v: %v %+v", begun, err, after.Lost)
			}
		}
	})
}
