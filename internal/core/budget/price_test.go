package budget

import (
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

func TestOver(t *testing.T) {
	t.Parallel()
	price := func(n events.MicroUSD) events.Price { return events.Price{Input: n} }
	base := Table{"a/x*": price(1), "a/xy": price(2), "a/xyz*": price(3), "b/c": price(4)}
	for _, tc := range []struct {
		name string
		own  Table
		want map[string]events.MicroUSD
	}{
		{"nothing of its own", nil, map[string]events.MicroUSD{"a/x1": 1, "a/xy": 2, "a/xyzz": 3, "b/c": 4, "b/d": 0}},
		{"a beginning goes before longer ones below it", Table{"a/xy*": price(9)}, map[string]events.MicroUSD{"a/x1": 1, "a/xy": 9, "a/xyzz": 9, "b/c": 4}},
		{"everything of a provider", Table{"a/*": price(9)}, map[string]events.MicroUSD{"a/x1": 9, "a/xy": 9, "a/xyzz": 9, "b/c": 4}},
		{"one name goes before its family, which stays", Table{"a/xyz1": price(9)}, map[string]events.MicroUSD{"a/xyz1": 9, "a/xyz2": 3, "a/x1": 1}},
	} {
		t.Run("PLUS-3 "+tc.name, func(t *testing.T) {
			t.Parallel()
			all := tc.own.Over(base)
			for ref, want := range tc.want {
				if got, ok := all.Find(ref); got.Input != want || ok != (want != 0) {
					t.Errorf("%s: got %d %v, want %d", ref, got.Input, ok, want)
				}
			}
			if len(base) != 4 {
				t.Error("the table below was changed")
			}
		})
	}
}

func TestCacheWrites(t *testing.T) {
	t.Parallel()
	p := events.Price{Input: 2_000_000, Output: 10_000_000, Cached: 100_000, CacheWrite: 2_500_000}
	before := events.Price{Input: 2_000_000, Output: 10_000_000, Cached: 100_000} // of a run that began without it
	for _, tc := range []struct {
		name string
		p    events.Price
		u    Usage
		want events.MicroUSD
	}{
		{"each part has its own price", p, Usage{Input: 1000, Cached: 600, Written: 300, Output: 10}, 200 + 60 + 750 + 100},
		{"a price without that of writes takes the one of input", before, Usage{Input: 1000, Cached: 600, Written: 300, Output: 10}, 800 + 60 + 100},
		{"parts that are more than all are cut", p, Usage{Input: 100, Cached: 80, Written: 900}, 8 + 50},
		{"nonsense of a provider is nothing", p, Usage{Input: 100, Cached: -5, Written: -5}, 200},
	} {
		t.Run("PLUS-3 "+tc.name, func(t *testing.T) {
			t.Parallel()
			if got := costOf(tc.p, tc.u); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
			if most := mostCost(tc.p, int64(tc.u.Input), int64(tc.u.Output)); most < tc.want {
				t.Errorf("%d is set aside for what costs %d", most, tc.want)
			}
		})
	}
}
