package janitor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestWatch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers []outcome // of the looks at the run, the last one for all that follow
		looks   int
	}{
		"a run that is done is looked at once":                       {[]outcome{done}, 1},
		"one that has not ended is looked at again, and then let go": {[]outcome{undecided}, maxTries},
		"one that ends meanwhile is done":                            {[]outcome{undecided, undecided, done}, 3},
		"one that has ended is looked at until it is done":           {append(make50(unfinished), done), 51},
	} {
		t.Run("WS-5 "+name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 2*allEvery+time.Minute)
				defer cancel()
				hints, whole, looks := make(chan string, 1), 0, 0
				hints <- "r1"
				watch(ctx, hints, func() { whole++ }, func() {}, func(ids map[string]int) map[string]outcome {
					if len(ids) != 1 || ids["r1"] == 0 {
						t.Errorf("looked at %v", ids)
					}
					looks++
					return map[string]outcome{"r1": c.answers[min(looks, len(c.answers))-1]}
				})
				if looks != c.looks || whole != 3 {
					t.Errorf("%d looks at the run, %d at all, want %d and 3", looks, whole, c.looks)
				}
			})
		})
	}
}

func make50(o outcome) (all []outcome) {
	for range 50 {
		all = append(all, o)
	}
	return all
}
