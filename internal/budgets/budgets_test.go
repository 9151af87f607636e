package budgets

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/pkg/events"
)

// failing is a test, also one of a property.
type failing interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

func with(t failing, s State, name string, l events.BudgetLimits, at time.Time) State {
	t.Helper()
	s, err := Steer(s, Wish{BudgetControl: control(name, l)}, at)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func control(name string, l events.BudgetLimits) events.BudgetControl {
	c := events.BudgetControl{Action: events.SetAction, Scope: events.ScopeStation, BudgetLimits: l, By: "olga"}
	if name != events.ScopeStation {
		c.Scope, c.Of = name[:len("project")], name[len("project."):]
	}
	return c
}

func reserve(t failing, s State, q Ask, at time.Time) State {
	t.Helper()
	next, err := Reserve(s, q, at)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Reserve(next, q, at); err != nil || len(again.Changes()) != len(next.Changes()) {
		t.Fatalf("a second look answers %+v, %v", again.Changes()[len(next.Changes()):], err)
	}
	return next
}

func tokens(n int64) events.BudgetUse { return events.BudgetUse{Tokens: n} }

func TestReserve(t *testing.T) {
	t.Parallel()
	web := []string{"project.web"}
	t.Run("PLUS-21b what is reserved fits into the month, and a run that does not fit waits and returns what it does not need", func(t *testing.T) {
		t.Parallel()
		s := with(t, State{}, "project.web", events.BudgetLimits{Tokens: 1000}, noon)
		s = reserve(t, s, Ask{Run: "a", Budgets: web, Need: tokens(600)}, noon)
		s = reserve(t, s, Ask{Run: "b", Budgets: web}, noon)
		if h, _ := s.Hold("b"); h.Reserved.Tokens != 20 {
			t.Fatalf("%+v", h)
		}
		s = reserve(t, s, Ask{Run: "b", Budgets: web, Used: tokens(5), Need: tokens(500), Keep: tokens(5)}, noon)
		h, _ := s.Hold("b")
		if h.Waiting == nil || h.Waiting.By != "project.web" || h.Reserved.Tokens != 5 || h.Waiting.Need.Tokens != 500 {
			t.Fatalf("%+v %+v", h, h.Waiting)
		}
		if Fits(s, h, noon) {
			t.Error("it fits")
		}
		if s = Settle(s, "a", tokens(100), noon); !Fits(s, h, noon) {
			t.Error("it does not fit once the other run has ended")
		}
		s = reserve(t, s, Ask{Run: "b", Budgets: web, Used: tokens(5), Need: tokens(500), Keep: tokens(5)}, noon)
		if f := Funds(s, "b"); f.Wait || *f.Tokens < 505 || f.Cost != nil {
			t.Errorf("%+v", f)
		}
	})
	t.Run("PLUS-21b a run of several budgets has what the tightest of them has room for, or waits for that", func(t *testing.T) {
		t.Parallel()
		s := with(t, State{}, "project.web", events.BudgetLimits{Cost: 100e6}, noon)
		s = with(t, s, events.ScopeStation, events.BudgetLimits{Cost: 10e6, Tokens: 1e6}, noon)
		both := []string{events.ScopeStation, "project.web"}
		s = reserve(t, s, Ask{Run: "a", Budgets: both, Need: events.BudgetUse{Tokens: 10, Cost: 9e6}}, noon)
		s = reserve(t, s, Ask{Run: "b", Budgets: both, Need: events.BudgetUse{Cost: 2e6}}, noon)
		if h, _ := s.Hold("b"); h.Waiting == nil || h.Waiting.By != events.ScopeStation {
			t.Errorf("%+v", h)
		}
	})
	t.Run("PLUS-21c with the month a budget begins anew, and what was reserved before is charged to its month", func(t *testing.T) {
		t.Parallel()
		s := with(t, State{}, "project.web", events.BudgetLimits{Tokens: 1000}, noon)
		s = reserve(t, s, Ask{Run: "a", Budgets: web, Need: tokens(900)}, noon)
		s = reserve(t, s, Ask{Run: "b", Budgets: web, Need: tokens(900)}, noon)
		next := events.NextMonth(noon)
		h, _ := s.Hold("b")
		if h.Waiting == nil || Fits(s, h, next.Add(-time.Second)) || !Fits(s, h, next) {
			t.Fatalf("%+v", h)
		}
		s = reserve(t, s, Ask{Run: "b", Budgets: web, Need: tokens(900)}, next)
		s = Settle(s, "a", tokens(950), next)
		b, _ := s.Find("project.web")
		if s.Month != "2026-12" || len(b.Past) != 1 || b.Past[0].Tokens != 900 || b.Used.Tokens != 50 {
			t.Errorf("%s %+v", s.Month, b)
		}
		if late := reserve(t, s, Ask{Run: "c", Budgets: web, Need: tokens(1)}, noon); late.Month != "2026-12" {
			t.Errorf("a clock that is behind goes back to %s", late.Month)
		}
	})
	t.Run("PLUS-21d runs beyond those that may work at a time wait, children do not", func(t *testing.T) {
		t.Parallel()
		s := with(t, State{}, "project.web", events.BudgetLimits{Runs: 1}, noon)
		s = reserve(t, s, Ask{Run: "a", Budgets: web}, noon)
		s = reserve(t, s, Ask{Run: "b", Budgets: web}, noon)
		s = reserve(t, s, Ask{Run: "child", Budgets: web, Child: true}, noon)
		if f := Funds(s, "b"); !f.Wait || Funds(s, "a").Wait || Funds(s, "child").Wait || len(Waiting(s)) != 1 {
			t.Errorf("%+v", s.Holds)
		}
		if s = Settle(s, "a", events.BudgetUse{}, noon); !Fits(s, Waiting(s)[0], noon) {
			t.Error("the place is not free")
		}
	})
	t.Run("PLUS-21b a station accounts for so many runs and has so many budgets", func(t *testing.T) {
		t.Parallel()
		s := with(t, State{}, "project.web", events.BudgetLimits{Tokens: 1000}, noon)
		for i := range events.MaxHolds {
			s.Holds = append(s.Holds, events.BudgetHold{Run: fmt.Sprint(i)})
		}
		if _, err := Reserve(s, Ask{Run: "one more", Budgets: web}, noon); !errors.Is(err, ErrFull) {
			t.Errorf("got %v", err)
		}
		for i := 1; i < events.MaxBudgets; i++ {
			s = with(t, s, fmt.Sprintf("project.p%d", i), events.BudgetLimits{Tokens: 1}, noon)
		}
		_, err := Steer(s, Wish{BudgetControl: control("project.more", events.BudgetLimits{Tokens: 1})}, noon)
		if no, ok := errors.AsType[*Refused](err); !ok || no.Code != TooMany {
			t.Errorf("got %v", err)
		}
	})
}

func TestSteer(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-21b a control is carried out once, and what is not set is not removed", func(t *testing.T) {
		t.Parallel()
		w := Wish{BudgetControl: control("project.web", events.BudgetLimits{Tokens: 5}), Input: 7}
		s, err := Steer(State{}, w, noon)
		again, err2 := Steer(s, w, noon)
		if err != nil || err2 != nil || len(s.Changes()) != 1 || len(again.Changes()) != 1 {
			t.Fatalf("%v, %v, %+v", err, err2, again.Changes())
		}
		gone := control("project.other", events.BudgetLimits{})
		gone.Action = events.RemoveAction
		_, err = Steer(s, Wish{BudgetControl: gone, Input: 8}, noon)
		if no, ok := errors.AsType[*Refused](err); !ok || no.Code != NotSet {
			t.Errorf("got %v", err)
		}
	})
}

// Whatever runs ask for, return and use within what was reserved, in whatever order, no budget is exceeded at any time.
func TestWithinLimits(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-21b at every prefix what is used and reserved is within the limits", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			limit := rapid.Int64Range(1, 5000).Draw(t, "limit")
			names := []string{"project.a", "project.b", events.ScopeStation}
			s, now := State{}, noon
			for _, name := range names {
				s = with(t, s, name, events.BudgetLimits{Tokens: limit, Runs: rapid.IntRange(0, 3).Draw(t, "runs")}, now)
			}
			used := map[string]int64{}
			for range rapid.IntRange(1, 60).Draw(t, "steps") {
				run := rapid.SampledFrom([]string{"r1", "r2", "r3", "r4", "r5"}).Draw(t, "run")
				h, there := s.Hold(run)
				switch rapid.IntRange(0, 4).Draw(t, "what") {
				case 0, 1:
					of := []string{names[int(run[1])%2], events.ScopeStation}
					s = reserve(t, s, Ask{Run: run, Budgets: of, Used: tokens(used[run]),
						Need: tokens(rapid.Int64Range(0, 2000).Draw(t, "need")), Keep: tokens(used[run])}, now)
				case 2:
					if total := h.Earlier.Plus(h.Reserved).Tokens; there && h.Waiting == nil && total > used[run] {
						used[run] += rapid.Int64Range(0, total-used[run]).Draw(t, "use")
					}
				case 3:
					s = Settle(s, run, tokens(used[run]), now)
					delete(used, run)
				default:
					now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "days")) * 24 * time.Hour)
				}
				for _, b := range s.Budgets.Budgets {
					held, working, _ := s.Held(b.Name)
					if sum := b.Used.Plus(held); sum.Tokens > b.Tokens || b.Runs > 0 && working > b.Runs {
						t.Fatalf("%+v: %d reserved and used, %d at work", b, sum.Tokens, working)
					}
				}
			}
			var again State
			for i, p := range s.Changes() {
				next, err := rules.Fold(again, p, now)
				if err != nil {
					t.Fatalf("event %d: %v", i, err)
				}
				again = next
			}
			if again.Month != s.Month || len(again.Holds) != len(s.Holds) || !slices.Equal(again.Inputs, s.Inputs) {
				t.Fatalf("folded again: %+v, want %+v", again.Budgets, s.Budgets)
			}
		})
	})
}
