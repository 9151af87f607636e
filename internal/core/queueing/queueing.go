// Package queueing predicts how many steps a second a closed network carries: so many runs are under way, each takes
// its steps one after the other, and each step needs some seconds at each of some stations.
//
// Promises: it is pure, and exact for networks of the product form (J. P. Buzen, Computational algorithms for closed
// queueing networks with exponential servers, 1973). Real service times vary less than that form assumes: where few
// runs are under way the forecast is low by a few percent, where one station is full it is that station's limit.
package queueing

import (
	"errors"
	"fmt"
	"math"
)

// Station is a place that every step goes through.
type Station struct {
	Name string
	// Demand is how many seconds a step is served there, all its visits together.
	Demand float64
	// Places is how many steps are served at a time; 0 is all that come.
	Places int
}

// most is how many steps a second it carries, +Inf for no limit.
func (s Station) most() float64 {
	if s.Places == 0 || s.Demand == 0 {
		return math.Inf(1)
	}
	return float64(s.Places) / s.Demand
}

// Network is what a step goes through; the order does not matter.
type Network []Station

// Forecast is what a network does with so many runs under way.
type Forecast struct {
	// PerSecond is the throughput in steps, Seconds how long a step takes with all its waiting.
	PerSecond, Seconds float64
	// Busy is the share of the places of each station that serve, in the order of the network; 0 where there is no limit.
	Busy []float64
}

// MaxRuns bounds the runs of a forecast: its work grows with their square.
const MaxRuns = 10_000

// negligible is the exponent of what changes no sum: MaxRuns of its parts are below the grain of a float64.
const negligible = 50

// ErrNetwork means that a network or a number of runs has no forecast.
var ErrNetwork = errors.New("no forecast")

// At computes the forecast for runs that are under way.
func (n Network) At(runs int) (Forecast, error) {
	if runs < 1 || runs > MaxRuns {
		return Forecast{}, fmt.Errorf("%w: %d runs under way, want 1 to %d", ErrNetwork, runs, MaxRuns)
	}
	total := 0.0
	for _, s := range n {
		if !(s.Demand >= 0) || math.IsInf(s.Demand, 1) || s.Places < 0 {
			return Forecast{}, fmt.Errorf("%w: station %s has a demand of %g s and %d places, want finite numbers from 0",
				ErrNetwork, s.Name, s.Demand, s.Places)
		}
		total += s.Demand
	}
	if total == 0 {
		return Forecast{}, fmt.Errorf("%w: no station has a demand above 0", ErrNetwork)
	}
	// weights[k] is the logarithm of the normalizing constant of k runs.
	weights := make([]float64, runs+1)
	for k := range weights[1:] {
		weights[k+1] = math.Inf(-1)
	}
	for _, s := range n {
		if s.Demand > 0 {
			weights = s.join(weights)
		}
	}
	f := Forecast{PerSecond: math.Exp(weights[runs-1] - weights[runs]), Busy: make([]float64, len(n))}
	f.Seconds = float64(runs) / f.PerSecond
	for i, s := range n {
		f.Busy[i] = f.PerSecond / s.most()
	}
	return f, nil
}

// join adds a station to those whose weights are given.
func (s Station) join(weights []float64) []float64 {
	own := make([]float64, len(weights)) // own[k]: the logarithm of the weight of k steps at this station
	demand := math.Log(s.Demand)
	for k := 1; k < len(own); k++ {
		rate := k
		if s.Places > 0 {
			rate = min(k, s.Places)
		}
		own[k] = own[k-1] + demand - math.Log(float64(rate))
	}
	joined := make([]float64, len(weights))
	for k := range joined {
		largest := math.Inf(-1)
		for here := range k + 1 {
			largest = max(largest, own[here]+weights[k-here])
		}
		sum := 0.0
		for here := range k + 1 {
			if d := own[here] + weights[k-here] - largest; d > -negligible {
				sum += math.Exp(d)
			}
		}
		joined[k] = largest + math.Log(sum)
	}
	return joined
}

// Most is the throughput that no number of runs exceeds, and the station that limits it; +Inf and "" where none does.
func (n Network) Most() (perSecond float64, station string) {
	perSecond = math.Inf(1)
	for _, s := range n {
		if s.most() < perSecond {
			perSecond, station = s.most(), s.Name
		}
	}
	return perSecond, station
}
