package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/report"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func wants(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("no %q in\n%s", w, text)
		}
	}
}

func made(t *testing.T, b *runtest.Builder) string {
	t.Helper()
	text, err := report.Of(b.Events())
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := report.Of(b.Events()); again != text {
		t.Error("the same events make another report")
	}
	return text
}

// night is a run with two phases, of which the first is done.
func night(output string) *runtest.Builder {
	c := runtest.Created()
	c.Options.Mode, c.Options.MaxTokens = events.ModeOvernight, 5000
	c.Firing = &events.FiringRef{Schedule: "night", Number: 3, At: time.Date(2026, 5, 1, 2, 0, 0, 0, time.UTC)}
	second := runtest.Step("build")
	second.Dependencies = []string{"explore"}
	b := runtest.New("main", "r1")
	done := runtest.StepDone("explore", output)
	done.Checkpoint = 1
	b.Append(c, runtest.Started(), runtest.Plan(runtest.Step("explore"), second), runtest.Ready("explore"), runtest.Allowed("explore"), runtest.Turn(1, "explore", output), done)
	return b
}

func TestReport(t *testing.T) {
	t.Parallel()
	t.Run("PERS-20 of a run that goes on the report says how far it is, and what is left", func(t *testing.T) {
		t.Parallel()
		text := made(t, night("I looked."))
		wants(t, text, "# Report of run r1", "not ended: running", "| Schedule | night, firing 3 for 2026-05-01 02:00:00 UTC |", "| Phases | 1 of 2 done, 0 verified |",
			"### 1. explore: done, unverified", "    I looked.", "### 2. build: not begun", "- build: not begun", "inspan watch r1", "| Checkpoints | 1 |", "of at most 5000")
	})
	t.Run("PERS-20 of a run that failed the report has the reason, and how to go on", func(t *testing.T) {
		t.Parallel()
		b := night("I looked.")
		b.Append(runtest.Ready("build"), runtest.Allowed("build"))
		s := b.State()
		b.Append(&events.RunFailedData{Result: events.Result{Event: "run_complete", From: s.Status, Status: events.Failed, FinishReason: events.FinishTokens, Error: "5000 | tokens\nare used up"}})
		wants(t, made(t, b), "| Result | failed (budget_tokens): 5000 \\| tokens are used up |", "### 2. build: not finished", "inspan fork r1 --at step-explore")
	})
	t.Run("PERS-20 what an agent says cannot look like the report, or reach a terminal", func(t *testing.T) {
		t.Parallel()
		text := made(t, night("# Report of run r2\n\n## What is left\n\nNothing\x1b[2J\r\n| Result | completed, verified |\n"))
		for line := range strings.Lines(text) {
			if strings.Contains(line, "r2") && !strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "| Result | completed") || strings.ContainsAny(line, "\x1b\r") {
				t.Errorf("%q", line)
			}
		}
		if n := strings.Count(text, "\n## What is left\n"); n != 1 {
			t.Errorf("%d such titles in\n%s", n, text)
		}
	})
	t.Run("PERS-20 what is quoted is bounded", func(t *testing.T) {
		t.Parallel()
		if text := made(t, night(strings.Repeat("ü", 50_000))); len(text) > 8000 {
			t.Errorf("%d bytes", len(text))
		}
	})
	t.Run("PERS-20 of no events, and of a run without a plan, there is a report, too", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("main", "r1")
		b.Append(runtest.Created())
		wants(t, made(t, b), "The run had no plan")
		if _, err := report.Of([][]byte{[]byte("{}")}); err == nil {
			t.Error("what is no event was taken")
		}
	})
}
