package view_test

import (
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestWaitsForBudget(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-5 PLUS-3 a step that the budget has no room for now waits for the budget", func(t *testing.T) {
		t.Parallel()
		c := runtest.Created()
		c.Options.MaxTokens = 12_000
		b := runtest.New("main", "r1")
		b.Append(c, runtest.Started(), runtest.Plan(runtest.Step("a"), runtest.Step("b")), runtest.Ready("a"), runtest.Allowed("a"), runtest.Ready("b"), runtest.Allowed("b"))
		w := view.Waits(b.State(), time.Now())
		if len(w) != 2 || w[0].On != "executor" || w[1].On != view.OnBudget || w[1].Step != "b" {
			t.Errorf("%+v", w)
		}
	})
}
