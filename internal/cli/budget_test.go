package cli_test

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/cli/budgets"
)

func TestBudgetCommands(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	t.Run("PLUS-21c CLI-4 a budget is set, a run of its project waits, all views say for what, and it goes on when the budget is raised", func(t *testing.T) {
		d.want(2, words{"one of --project"}, "budget", "set", "--usd", "5")
		d.want(2, words{"needs a limit"}, "budget", "set", "--project", "web")
		d.want(2, words{"--usd"}, "budget", "set", "--project", "web", "--usd", "much")
		d.want(5, words{"no budget project.web"}, "budget", "show", "--project", "web")
		d.want(0, words{"project.web", "40 tokens a month"}, "budget", "set", "--project", "web", "--tokens", "40", "--by", "olga")
		d.want(0, nil, "run", "reader", "look", "--id", "run-web", "--project", "web", "--detach")
		var all struct {
			Budgets []budgets.Standing `json:"budgets"`
		}
		for t.Context().Err() == nil {
			pause(t)
			if err := json.Unmarshal([]byte(d.want(0, nil, "budget", "list", "--json").out), &all); err != nil {
				t.Fatal(err)
			}
			if len(all.Budgets) == 1 && all.Budgets[0].Waiting == 1 {
				break
			}
		}
		d.want(0, words{"run-web", "waits for project.web", "olga"}, "budget", "show", "--project", "web")
		d.want(0, words{"budget project.web has no room", "begins anew at"}, "why", "run-web")
		d.want(0, words{"budget project.web: 0 of 40 tokens", "1 waiting"}, "top", "--once")
		d.want(0, words{"project.web", "1000000 tokens"}, "budget", "set", "--project", "web", "--tokens", "1000000")
		for !strings.Contains(d.do("why", "run-web").out, "completed") && t.Context().Err() == nil { // it goes on soon after
			pause(t)
			runtime.Gosched()
		}
		d.want(0, words{"is removed"}, "budget", "remove", "--project", "web")
		d.want(0, words{"No budget is set"}, "budget", "list")
	})
}
