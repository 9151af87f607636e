package harness_test

import (
	"context"
	"testing"

	"github.com/inspan/inspan/pkg/harness"
)

func TestAgent(t *testing.T) {
	t.Parallel()
	answer := func(_ context.Context, p harness.AgentRunParams[purse, int, string]) (string, error) {
		return map[bool]string{true: "careful", false: "bold"}[p.Constraints["maxDrawdown"] == 0.1], nil
	}
	t.Run("SDK-9 SDK-19 an agent has a name, is not complete by itself, and gets its constraints for each call", func(t *testing.T) {
		t.Parallel()
		a := harness.NewAgent(harness.AgentConfig[purse, int, string]{Run: answer})
		if a.Name() != "Agent" || a.IsComplete(purse{Coins: 9}) {
			t.Errorf("got %q, complete %v", a.Name(), a.IsComplete(purse{}))
		}
		for want, c := range map[string]harness.Constraints{"careful": {"maxDrawdown": 0.1}, "bold": nil} {
			if got, err := a.Run(t.Context(), harness.AgentRunParams[purse, int, string]{Constraints: c}); got != want || err != nil {
				t.Errorf("got %q, %v; want %q", got, err, want)
			}
		}
	})
	t.Run("SDK-9 an agent may say when it is complete", func(t *testing.T) {
		t.Parallel()
		a := harness.NewAgent(harness.AgentConfig[purse, int, string]{Name: "Saver", Run: answer, Complete: func(s purse) bool { return s.Coins > 5 }})
		if a.Name() != "Saver" || a.IsComplete(purse{Coins: 5}) || !a.IsComplete(purse{Coins: 6}) {
			t.Errorf("got %q, %v, %v", a.Name(), a.IsComplete(purse{Coins: 5}), a.IsComplete(purse{Coins: 6}))
		}
	})
}
