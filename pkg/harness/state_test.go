package harness_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/harness"
)

type purse struct {
	Coins int            `json:"coins"`
	Names []string       `json:"names,omitempty"`
	Notes map[string]int `json:"notes,omitempty"`
}

func newState(t *testing.T, cfg harness.HarnessConfig[purse]) *harness.PersistentState[purse, int, string] {
	t.Helper()
	p, err := harness.NewPersistentState[purse, int, string](cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPersistentState(t *testing.T) {
	t.Parallel()
	t.Run("SDK-6 an update changes no earlier value, also in what it holds", func(t *testing.T) {
		t.Parallel()
		first := purse{Coins: 1, Names: []string{"a"}, Notes: map[string]int{"x": 1}}
		p := newState(t, harness.HarnessConfig[purse]{InitialState: first})
		before := p.State()
		if err := p.Update(func(s purse) purse {
			s.Coins, s.Names[0], s.Notes["x"] = 2, "b", 2
			return s
		}); err != nil {
			t.Fatal(err)
		}
		want := purse{Coins: 1, Names: []string{"a"}, Notes: map[string]int{"x": 1}}
		if !reflect.DeepEqual(before, want) || !reflect.DeepEqual(first, want) {
			t.Errorf("got %+v and %+v, want %+v", before, first, want)
		}
		if got := p.State(); got.Coins != 2 || got.Names[0] != "b" || got.Notes["x"] != 2 {
			t.Errorf("got %+v", got)
		}
	})
	for recorded, limit := range map[int]int{10: 5, 100: 5, 3: 5} {
		t.Run(fmt.Sprintf("SDK-7 SDK-8 of %d steps the last %d are loaded, the oldest first", recorded, limit), func(t *testing.T) {
			t.Parallel()
			p := newState(t, harness.HarnessConfig[purse]{MaxContextSteps: limit})
			for n := 1; n <= recorded; n++ {
				p.Record(n, time.Unix(int64(n), 0), n, "out", harness.StateDelta{})
			}
			got := p.LoadContext().RecentSteps
			if len(got) != min(recorded, limit) || got[0].StepNumber != max(0, recorded-limit)+1 || got[len(got)-1].StepNumber != recorded {
				t.Errorf("got %+v", got)
			}
			if all := p.StepHistory(); len(all) != recorded || all[0].StepNumber != 1 {
				t.Errorf("got %d steps, want %d", len(all), recorded)
			}
			if n := len(p.RecentSteps(-1)); n != 0 {
				t.Errorf("got %d steps of the last -1", n)
			}
		})
	}
	t.Run("SDK-6 a state that would not be kept is refused", func(t *testing.T) {
		t.Parallel()
		type hidden struct{ coins int }
		if _, err := harness.NewPersistentState[hidden, int, int](harness.HarnessConfig[hidden]{InitialState: hidden{1}}); err == nil || !strings.Contains(err.Error(), "coins") {
			t.Errorf("got %v", err)
		}
		if _, err := harness.NewPersistentState[func(), int, int](harness.HarnessConfig[func()]{}); err == nil {
			t.Error("a function was taken")
		}
		p := newState(t, harness.HarnessConfig[purse]{})
		if err := p.Update(func(s purse) purse { s.Names = []string{strings.Repeat("x", 64<<10)}; return s }); err == nil || p.State().Names != nil {
			t.Errorf("got %v and %d names", err, len(p.State().Names))
		}
		if _, err := harness.NewPersistentState[int, int, int](harness.HarnessConfig[int]{MaxContextSteps: -1}); err == nil {
			t.Error("a limit below zero was taken")
		}
	})
}
