package quota

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestIntake(t *testing.T) {
	t.Parallel()
	limits := Limits{Running: 10, PerMinute: 5, Patience: time.Minute}
	for _, c := range []struct {
		name   string
		load   Load
		waited time.Duration
		wait   bool
		code   string
	}{
		{"SAFE-14 below all limits it begins", Load{Running: 9, Minute: 4, Store: "the log", Used: 899, Limit: 1000}, 0, false, ""},
		{"SAFE-14 at the limit of running runs it waits", Load{Running: 10}, 0, true, ""},
		{"SAFE-14 at the limit of runs a minute it waits", Load{Minute: 5}, 59 * time.Second, true, ""},
		{"SAFE-14 after its patience it is refused", Load{Running: 10}, time.Minute, false, CodeQuota},
		{"SAFE-14 at 90 percent of a store it is refused at once", Load{Store: "the log", Used: 900, Limit: 1000}, 0, false, CodeFull},
		{"SAFE-14 without limits it begins", Load{Running: 1 << 30}, 0, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := limits
			if strings.Contains(c.name, "without") {
				l, c.wait = Limits{}, false
			}
			wait, refused := Intake(l, c.load, c.waited, 1)
			code := ""
			if refused != nil {
				code = refused.Code
				if refused.Hint == "" || refused.Error() == "" {
					t.Errorf("%+v says too little", refused)
				}
			}
			if (wait > 0) != c.wait || code != c.code {
				t.Errorf("got wait %s, code %q", wait, code)
			}
		})
	}
	t.Run("SAFE-14 waits grow, stay bounded and end by the patience", rapid.MakeCheck(func(t *rapid.T) {
		waited := time.Duration(rapid.Int64Range(0, int64(2*time.Minute)).Draw(t, "waited"))
		looks := rapid.Uint64().Draw(t, "looks")
		wait, refused := Intake(limits, Load{Running: 10}, waited, looks)
		if (refused != nil) != (waited >= limits.Patience) || refused == nil && (wait <= 0 || wait > waitMost) {
			t.Errorf("waited %s, looked at %d times: got %s, %v", waited, looks, wait, refused)
		}
	}))
}

func TestRate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	t.Run("SAFE-14 so many at once, then one as the allowance refills, each name by itself", func(t *testing.T) {
		t.Parallel()
		r := NewRate(60)
		for i := range 60 {
			if _, ok := r.Take("anna", now); !ok {
				t.Fatalf("answer %d is refused", i)
			}
		}
		again, ok := r.Take("anna", now)
		if ok || again != time.Second {
			t.Errorf("got %v, again in %s; want a refusal for 1 s", ok, again)
		}
		if _, ok := r.Take("bert", now); !ok {
			t.Error("the quota of one is that of another")
		}
		if _, ok := r.Take("anna", now.Add(again)); !ok {
			t.Error("refused at the time that the hint named")
		}
	})
	t.Run("SAFE-12 inventing names brings neither memory nor allowance", func(t *testing.T) {
		t.Parallel()
		r, taken := NewRate(1), 0
		for i := range 3 * maxKeys {
			if _, ok := r.Take(fmt.Sprint("name", i), now); ok {
				taken++
			}
		}
		if len(r.left) > maxKeys+1 || taken > maxKeys+1 {
			t.Errorf("%d names are kept, %d taken; want at most %d", len(r.left), taken, maxKeys+1)
		}
		if _, ok := r.Take("honest", now.Add(time.Minute)); !ok || len(r.left) > 1 {
			t.Errorf("a minute later: %v, %d names are kept", ok, len(r.left))
		}
	})
	t.Run("SAFE-14 never more than the allowance and what refilled", rapid.MakeCheck(func(t *rapid.T) {
		most := rapid.IntRange(1, 100).Draw(t, "most")
		r, at, taken := NewRate(most), now, 0
		for range rapid.IntRange(1, 300).Draw(t, "tries") {
			at = at.Add(time.Duration(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "pause")))
			if _, ok := r.Take("x", at); ok {
				taken++
			}
		}
		if limit := float64(most) + at.Sub(now).Minutes()*float64(most) + 1e-6; float64(taken) > limit {
			t.Errorf("%d taken in %s, the limit is %.1f", taken, at.Sub(now), limit)
		}
	}))
}
