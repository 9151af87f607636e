package replay_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/core/turn"
	"github.com/inspan/inspan/internal/replay"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestLog(t *testing.T) {
	t.Parallel()
	noon := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	ask := func(b *runtest.Builder, lost int) turn.Task { return *turn.NextAfter(b.State(), "a", noon, lost).Ask }
	for name, end := range map[string]func(b *runtest.Builder) []events.Payload{
		"PLUS-6 LOOP-7 a step whose prompt did not fit": func(b *runtest.Builder) []events.Payload {
			return turn.Full(b.State(), ask(b, 0), "the prompt has about 2000 tokens")
		},
		"PLUS-6 PLUS-3 a turn of which requests were lost": func(b *runtest.Builder) []events.Payload {
			return turn.Finish(b.State(), ask(b, 2), turn.Answer{Data: events.TurnFinishedData{Event: "turn_finished", Text: "done", FinishReason: events.FinishDone}})
		},
		"PLUS-6 PLUS-3 a turn that broke off, and failed": func(b *runtest.Builder) []events.Payload {
			return turn.Fail(b.State(), ask(b, 1), turn.Failure{Error: "broke off", Class: "permanent", Begun: true}, noon)
		},
		"PLUS-6 LOOP-10 a turn whose prompt was too long, which tells of a smaller window": func(b *runtest.Builder) []events.Payload {
			return turn.Fail(b.State(), ask(b, 0), turn.Failure{Error: "too long", Class: events.ClassTooLong, Retryable: true, Window: 4000}, noon)
		},
		"PLUS-6 PLUS-13 a turn that waits for its provider": func(b *runtest.Builder) []events.Payload {
			return turn.Fail(b.State(), ask(b, 0), turn.Failure{Error: "overloaded", Class: "transient", Retryable: true, RetryAfter: time.Minute, Provider: "anthropic", HTTPStatus: 503}, noon)
		},
		"PLUS-6 PLUS-13 a run that is paused for its provider": func(b *runtest.Builder) []events.Payload {
			out := turn.Fail(b.State(), ask(b, 0), turn.Failure{Error: "no key", Class: "auth", Repair: true, Provider: "anthropic", HTTPStatus: 401}, noon)
			twin := runtest.New("main", "r")
			c := runtest.Created()
			c.Options.MaxTokens = 1 << 30
			twin.Append(c, runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
			twin.Append(out...)
			paused, err := lifecycle.Interrupted(twin.State())
			if err != nil || len(paused) != 1 {
				panic("the run is not paused")
			}
			return append(out, paused...)
		},
		"PLUS-6 PLUS-3 a turn that broke off, and is taken later": func(b *runtest.Builder) []events.Payload {
			return turn.Fail(b.State(), ask(b, 0), turn.Failure{Error: "broke off", Class: "transient", Retryable: true, Begun: true}, noon)
		},
	} {
		t.Run(name+" is decided as it was", func(t *testing.T) {
			t.Parallel()
			b, c := runtest.New("main", "r"), runtest.Created()
			c.Options.MaxTokens = 1 << 30
			b.Append(c, runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
			before := b.State().Sequence
			b.Append(end(b)...)
			rep, err := replay.Log(t.Context(), replay.Policy{}, bytes.NewReader(runtest.Lines(b.Events())))
			if err != nil || rep.Refused != nil {
				t.Fatal(err, rep.Refused)
			}
			for _, change := range rep.Changes {
				if change.Sequence > before || !strings.Contains(string(change.Kind), ".") {
					t.Errorf("%s", change)
				}
			}
		})
	}
}
