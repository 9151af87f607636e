package queueing_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/core/queueing"
)

// near reports whether two numbers differ by less than a billionth.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b)) }

func at(t interface{ Fatal(...any) }, n queueing.Network, runs int) queueing.Forecast {
	f, err := n.At(runs)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestClosedForms(t *testing.T) {
	t.Parallel()
	for _, runs := range []int{1, 2, 3, 7, 64, 1000} {
		n := float64(runs)
		for _, c := range []struct {
			name    string
			network queueing.Network
			want    float64
		}{
			{"one station with one place", queueing.Network{{"s", 0.25, 1}}, 4},
			{"one station with 8 places", queueing.Network{{"s", 0.4, 8}}, math.Min(n, 8) / 0.4},
			{"a delay alone", queueing.Network{{"s", 0.4, 0}}, n / 0.4},
			{"three equal stations", queueing.Network{{"a", 0.1, 1}, {"b", 0.1, 1}, {"c", 0.1, 1}}, n / (0.1 * (n + 2))},
			{"a station without demand changes nothing", queueing.Network{{"a", 0, 1}, {"b", 0.5, 1}}, 2},
		} {
			t.Run(fmt.Sprintf("%s, %d runs", c.name, runs), func(t *testing.T) {
				t.Parallel()
				f := at(t, c.network, runs)
				if !near(f.PerSecond, c.want) || !near(f.Seconds, n/c.want) {
					t.Errorf("got %v steps/s of %v s, want %v of %v", f.PerSecond, f.Seconds, c.want, n/c.want)
				}
			})
		}
	}
}

// TestRepairman compares with the closed form of one place behind a delay: the machine repairman's.
func TestRepairman(t *testing.T) {
	t.Parallel()
	const demand, delay = 0.02, 0.5
	for _, runs := range []int{1, 5, 20, 60} {
		// The place is free with the chance 1 / sum of n! / (n-k)! * (demand/delay)^k.
		sum, term := 1.0, 1.0
		for k := range runs {
			term *= float64(runs-k) * demand / delay
			sum += term
		}
		want := (1 - 1/sum) / demand
		f := at(t, queueing.Network{{"place", demand, 1}, {"delay", delay, 0}}, runs)
		if !near(f.PerSecond, want) || !near(f.Busy[0], 1-1/sum) || f.Busy[1] != 0 {
			t.Errorf("%d runs: got %+v, want %v steps/s, busy %v", runs, f, want, 1-1/sum)
		}
	}
}

func TestBottleneck(t *testing.T) {
	t.Parallel()
	n := queueing.Network{{"executor", 0.44, 24}, {"toolrunner", 0.4, 16}, {"cpu", 0.01, 2}, {"log", 0.002, 1}, {"away", 1, 0}}
	most, limit := n.Most()
	if limit != "toolrunner" || !near(most, 40) {
		t.Fatalf("got %v by %s, want 40 by toolrunner", most, limit)
	}
	if f := at(t, n, 1); !near(f.Seconds, 0.44+0.4+0.01+0.002+1) {
		t.Errorf("one run waits for no other, but a step takes %v s", f.Seconds)
	}
	if f := at(t, n, 1000); !(f.PerSecond > 39.99 && f.PerSecond <= 40) || !(f.Busy[1] > 0.999) {
		t.Errorf("1000 runs: %+v, want the limit of the toolrunner", f)
	}
	if most, limit := (queueing.Network{{"away", 1, 0}}).Most(); !math.IsInf(most, 1) || limit != "" {
		t.Errorf("a delay limits nothing: got %v by %q", most, limit)
	}
}

// byMeans is mean value analysis of stations with one place: a twin that is simple and computes it another way.
func byMeans(demands []float64, delay float64, runs int) float64 {
	queue := make([]float64, len(demands))
	perSecond := 0.0
	for k := 1; k <= runs; k++ {
		whole := delay
		for i, d := range demands {
			whole += d * (1 + queue[i])
		}
		perSecond = float64(k) / whole
		for i, d := range demands {
			queue[i] = perSecond * d * (1 + queue[i])
		}
	}
	return perSecond
}

func TestAsMeanValueAnalysis(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		demands := rapid.SliceOfN(rapid.Float64Range(0.001, 2), 1, 5).Draw(t, "demands")
		delay, runs := rapid.Float64Range(0, 5).Draw(t, "delay"), rapid.IntRange(1, 200).Draw(t, "runs")
		n := queueing.Network{{"delay", delay, 0}}
		for i, d := range demands {
			n = append(n, queueing.Station{Name: fmt.Sprint(i), Demand: d, Places: 1})
		}
		if got, want := at(t, n, runs).PerSecond, byMeans(demands, delay, runs); math.Abs(got/want-1) > 1e-6 {
			t.Fatalf("got %v steps/s, want %v", got, want)
		}
	})
}

func TestLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var n queueing.Network
		whole := 0.0
		for i := range rapid.IntRange(1, 4).Draw(t, "stations") {
			s := queueing.Station{Name: fmt.Sprint(i), Demand: rapid.Float64Range(0.001, 2).Draw(t, "demand"),
				Places: rapid.IntRange(0, 40).Draw(t, "places")}
			n = append(n, s)
			whole += s.Demand
		}
		runs := rapid.IntRange(1, 150).Draw(t, "runs")
		few, many := at(t, n, runs), at(t, n, runs+1)
		most, _ := n.Most()
		const grain = 1 + 1e-9
		if few.PerSecond > math.Min(most, float64(runs)/whole)*grain {
			t.Fatalf("%v steps/s are above the bounds %v and %v", few.PerSecond, most, float64(runs)/whole)
		}
		if few.PerSecond > many.PerSecond*grain {
			t.Fatalf("one run more makes it slower: %v, %v", few.PerSecond, many.PerSecond)
		}
		more := append(queueing.Network{}, n...)
		more[0].Places += more[0].Places // twice as many, or still no limit
		if f := at(t, more, runs); f.PerSecond*grain < few.PerSecond {
			t.Fatalf("more places make it slower: %v, %v", few.PerSecond, f.PerSecond)
		}
	})
}

func TestNoForecast(t *testing.T) {
	t.Parallel()
	one := queueing.Network{{"s", 1, 1}}
	for name, of := range map[string]struct {
		network queueing.Network
		runs    int
	}{
		"no run": {one, 0}, "too many runs": {one, queueing.MaxRuns + 1}, "no station": {nil, 1},
		"no demand": {queueing.Network{{"s", 0, 1}}, 1}, "a negative demand": {queueing.Network{{"s", -1, 1}}, 1},
		"an endless demand":      {queueing.Network{{"s", math.Inf(1), 1}}, 1},
		"a demand of no number":  {queueing.Network{{"s", math.NaN(), 1}}, 1},
		"a negative many places": {queueing.Network{{"s", 1, -1}}, 1},
	} {
		if f, err := of.network.At(of.runs); !errors.Is(err, queueing.ErrNetwork) {
			t.Errorf("%s: got %+v and %v, want ErrNetwork", name, f, err)
		}
	}
}

func BenchmarkAt(b *testing.B) {
	n := queueing.Network{{"executor", 0.44, 24}, {"toolrunner", 0.4, 16}, {"cpu", 0.01, 2}, {"log", 0.002, 1}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := n.At(1000); err != nil {
			b.Fatal(err)
		}
	}
}
