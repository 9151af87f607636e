package workspace

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

func atSteps(c *Config) { c.AtSteps = true }

// call is a visit that makes the tree what a state says.
func call(t *testing.T, trees *Trees, n int, tell bool) (news string) {
	t.Helper()
	v, err := trees.Enter(t.Context(), demo, "r1")
	if err != nil {
		t.Fatal(err)
	}
	defer v.Leave()
	v.In(fmt.Sprintf("step-%d", n))
	become(t, v.Dir(), states[n])
	v.Touch(true)
	news = v.News(t.Context())
	if err := v.Settle(t.Context(), fmt.Sprintf("c%d", n)); err != nil {
		t.Fatal(err)
	}
	if tell {
		v.NewsReported()
	}
	return news
}

func TestAtSteps(t *testing.T) {
	t.Parallel()
	t.Run("WS-3 between the ends of steps a record names the calls that are not kept, and an agent is told which were lost until that is known to be said", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		a := l.at("a", nil, atSteps)
		call(t, a, 1, true)
		if rec := l.record(demo); rec.Snapshot != "" || !slices.Equal(rec.Unkept, []string{"r1/c1"}) {
			t.Fatalf("after a call: %+v", rec)
		}
		if err := a.Boundary(t.Context(), demo); err != nil {
			t.Fatal(err)
		}
		kept := l.record(demo)
		if kept.Snapshot == "" || kept.Unkept != nil || kept.Covers != "r1/c1" {
			t.Fatalf("at the end of a step: %+v", kept)
		}
		if err := a.Boundary(t.Context(), demo); err != nil || l.record(demo).Snapshot != kept.Snapshot {
			t.Errorf("a second look keeps again: %v", err)
		}
		call(t, a, 2, true)
		l.kill("a")
		b := l.at("b", nil, atSteps)
		silent, err := b.Enter(t.Context(), demo, "r1") // the result of a call that was not made again says nothing of the tree
		if err != nil {
			t.Fatal(err)
		}
		silent.NewsReported()
		silent.Leave()
		if news := call(t, b, 3, false); !strings.Contains(news, "after call r1/c1;") || !strings.Contains(news, "lost all the same: r1/c2.") {
			t.Errorf("the agent is told %q", news)
		}
		if rec := l.record(demo); !slices.Equal(rec.Missing, []string{"r1/c2"}) || !rec.Lost || !slices.Equal(rec.Unkept, []string{"r1/c3"}) {
			t.Errorf("%+v", rec)
		}
		if err := b.Boundary(t.Context(), demo); err != nil {
			t.Fatal(err)
		}
		l.kill("b") // before anybody knew that it was said
		c := l.at("c", nil, atSteps)
		if news := call(t, c, 4, true); !strings.Contains(news, "after call r1/c3;") || !strings.Contains(news, "r1/c2") || strings.Contains(news, "r1/c4") {
			t.Errorf("the agent is told %q", news)
		}
		if news := call(t, c, 4, true); news != "" {
			t.Errorf("it is told again: %q", news)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if rec := l.record(demo); rec.Lost || rec.Missing != nil || rec.Unkept != nil || rec.Covers != "r1/end" {
			t.Errorf("given back: %+v", rec)
		}
	})
	t.Run("WS-3 the next call keeps what steps that ended did, and only that", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		a := l.at("a", nil, atSteps)
		call(t, a, 1, true)
		v, err := a.Enter(t.Context(), demo, "r1")
		if err != nil {
			t.Fatal(err)
		}
		defer v.Leave()
		var asked []string
		ended := func(answer bool) func(string, string) bool {
			return func(run, step string) bool { asked = append(asked, run+"/"+step); return answer }
		}
		if err := v.CatchUp(t.Context(), ended(false)); err != nil || l.record(demo).Snapshot != "" {
			t.Errorf("%v %+v", err, l.record(demo))
		}
		if err := v.CatchUp(t.Context(), ended(true)); err != nil || l.record(demo).Snapshot == "" || !slices.Equal(asked, []string{"r1/step-1", "r1/step-1"}) {
			t.Errorf("%v %v %+v", err, asked, l.record(demo))
		}
	})
	t.Run("WS-3 SAFE-15 a record names no more than so many calls: the next one is kept", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		a := l.at("a", nil, atSteps)
		v, err := a.Enter(t.Context(), demo, "r1")
		if err != nil {
			t.Fatal(err)
		}
		defer v.Leave()
		for n := range events.MaxUnkept + 1 {
			if rec := l.record(demo); len(rec.Unkept) != n || rec.Snapshot != "" {
				t.Fatalf("after %d calls: %d names, snapshot %q", n, len(rec.Unkept), rec.Snapshot)
			}
			become(t, v.Dir(), states[1+n%2])
			v.Touch(true)
			if err := v.Settle(t.Context(), fmt.Sprint(n)); err != nil {
				t.Fatal(err)
			}
		}
		if rec := l.record(demo); len(rec.Unkept) != 0 || rec.Snapshot == "" {
			t.Errorf("%+v", rec)
		}
	})
	t.Run("WS-3 a tree that changes at the end of a step is kept later", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		a := l.at("a", nil, atSteps)
		call(t, a, 1, true)
		a.open[demo].held.keeper.(*copier).changing = 1
		if err := a.Boundary(t.Context(), demo); !errors.Is(err, ErrChanging) || len(l.record(demo).Unkept) != 1 {
			t.Errorf("%v %+v", err, l.record(demo))
		}
		if done, err := a.Ended(t.Context(), demo, "r1"); !done || err != nil {
			t.Fatal(done, err)
		}
		if rec := l.record(demo); rec.Owner != "" || rec.Snapshot == "" || rec.Unkept != nil {
			t.Errorf("%+v", rec)
		}
	})
}

// steps makes the calls of the play, with an end of a step after every second. It returns the last call whose end may
// be said.
func steps(t *testing.T, trees *Trees) (settled int, err error) {
	t.Helper()
	for n := 1; n < len(states); n++ {
		v, err := trees.Enter(t.Context(), demo, "r1")
		if err != nil {
			return n - 1, err
		}
		become(t, v.Dir(), states[n])
		v.Touch(true)
		if err := v.Settle(t.Context(), fmt.Sprintf("c%d", n)); err != nil {
			return n - 1, err
		}
		v.Leave()
		if n%2 == 0 {
			if err := trees.Boundary(t.Context(), demo); err != nil {
				return n, err
			}
		}
	}
	return len(states) - 1, nil
}

func TestDeathsAtSteps(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{false, true} {
		for at := 1; ; at++ {
			l := newLab(t)
			f := &fate{at: at, done: done}
			settled, err := steps(t, l.at("a", f, atSteps))
			if f.n < at {
				if at < 15 || err != nil {
					t.Fatalf("%d operations, %v", f.n, err)
				}
				break
			}
			t.Run(fmt.Sprintf("WS-3 SAFE-8 the owner dies at operation %d, done %v: each call whose end was said is in the tree or named as lost", at, done), func(t *testing.T) {
				l.kill("a")
				v, err := l.at("b", nil, atSteps).Enter(t.Context(), demo, "r1")
				if err != nil {
					t.Fatal(err)
				}
				defer v.Leave()
				got, news := stateOf(t, v.Dir()), v.News(t.Context())
				if got < 0 || got%2 == 1 {
					t.Fatalf("the tree is of no end of a step: state %d", got)
				}
				for n := 1; n < len(states); n++ {
					named := slices.Contains(v.Missing(), fmt.Sprintf("r1/c%d", n))
					if n <= got && named || n > got && n <= settled && !named {
						t.Errorf("call %d, tree of %d, ends said up to %d: missing are %v", n, got, settled, v.Missing())
					}
					if named && !strings.Contains(news, fmt.Sprintf("r1/c%d", n)) {
						t.Errorf("the agent is not told: %q", news)
					}
				}
			})
		}
	}
}
