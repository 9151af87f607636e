package quota

import (
	"fmt"
	"math"
	"math/big"
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
		{"SAFE-14 a store smaller than 100 bytes begins below 90 percent", Load{Store: "the log", Used: 44, Limit: 50}, 0, false, ""},
		{"SAFE-14 and not at 90 percent", Load{Store: "the log", Used: 45, Limit: 50}, 0, false, CodeFull},
		{"SAFE-14 the largest store there can be", Load{Store: "the log", Used: 1 << 40, Limit: math.MaxInt64}, 0, false, ""},
		{"SAFE-14 with more than the reserve on a disk it begins", Load{Store: "the disk", Used: 0, Limit: 112, Reserve: 100}, 0, false, ""},
		{"SAFE-14 and with the reserve alone it does not", Load{Store: "the disk", Used: 0, Limit: 111, Reserve: 100}, 0, false, CodeFull},
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
	for _, c := range []struct {
		name, reason string
		load         Load
	}{
		{"of a store that is nearly full", "the log holds 950 B of 1000 B: the last 10 % are reserved for active runs", Load{Store: "the log", Used: 950, Limit: 1000}},
		{"of a store that holds more than its limit", "the log holds 2.0 KiB, more than its limit of 1.0 KiB", Load{Store: "the log", Used: 2 << 10, Limit: 1 << 10}},
		{"of a disk with less than the reserve", "the disk has 5.0 MiB free, and new runs need more than 71.2 MiB", Load{Store: "the disk", Used: 1 << 20, Limit: 6 << 20, Reserve: 64 << 20}},
	} {
		t.Run("SAFE-14 the reason "+c.name+" has numbers that can be", func(t *testing.T) {
			t.Parallel()
			if _, refused := Intake(Limits{}, c.load, 0, 1); refused == nil || refused.Reason != c.reason {
				t.Errorf("got %+v, want %q", refused, c.reason)
			}
		})
	}
	t.Run("SAFE-14 a store is full from 90 percent on, whatever its size, and a disk that gets the room it lacks is not", rapid.MakeCheck(func(t *rapid.T) {
		l := Load{Store: "the disk", Used: rapid.Int64Range(-1, 1<<50).Draw(t, "used"), Limit: rapid.Int64Range(1, math.MaxInt64).Draw(t, "limit"),
			Reserve: rapid.SampledFrom([]int64{0, 1, 64 << 20}).Draw(t, "reserve")}
		held := new(big.Int).SetInt64(max(l.Used, 0) + l.Reserve)
		most := new(big.Int).SetInt64(l.Limit)
		_, refused := Intake(Limits{}, l, 0, 1)
		if got, want := refused != nil, held.Mul(held, big.NewInt(10)).Cmp(most.Mul(most, big.NewInt(9))) >= 0; got != want {
			t.Errorf("%+v: refused %v, want %v", l, got, want)
		}
		if refused != nil && (refused.Code != CodeFull || refused.Hint == "") {
			t.Errorf("%+v", refused)
		}
	}))
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
