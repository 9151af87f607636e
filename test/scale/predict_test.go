package main

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/capacity"
	"github.com/inspan/inspan/pkg/events"
)

// truth is a machine of which all is known.
var truth = model{costs: capacity.Costs{Planner: capacity.CPU{Every: 0.0002, Shared: 0.002}, Gatekeeper: capacity.CPU{Every: 0.0002, Shared: 0.0004},
	Executor: capacity.CPU{Every: 0.0003, Shared: 0.0006}, Toolrunner: capacity.CPU{Every: 0.0004, Shared: 0.0005},
	Persister: capacity.CPU{Every: 0.0003, Shared: 0.0003}, Server: 0.001, Turn: 0.02, Call: 0.03}, load: 0.0003, log: 0.004}

// known are the samples that such a machine gives, of three windows each.
func known(t *testing.T) curves {
	t.Helper()
	c := curves{where: "a machine of the test", servers: 3, cores: 2, runs: 1000, rounds: 3, window: 10 * time.Second,
		wait: 400 * time.Millisecond, trials: trials(1000), samples: map[string][]sample{}, idle: map[string]float64{server: 0.03}}
	for _, role := range events.Services() {
		c.idle[string(role)] = 0.002
	}
	for _, of := range slices.Concat([]trial{fewTrial(), fullTrial(c.runs)}, costs(), c.trials) {
		perSecond, err := c.predict(truth, of)
		if err != nil {
			t.Fatal(err)
		}
		s := sample{seconds: 10, steps: 10 * perSecond, turns: 11 * perSecond, cpu: map[string]float64{
			server: 3*truth.costs.Server*10*perSecond + 0.3, loader: truth.load * 10 * perSecond}}
		for role, cpu := range truth.cpu() {
			n := float64(of.layout.processes(role))
			s.cpu[string(role)] = cpu.Of(int(n))*n*s.steps + 0.02*n
		}
		c.samples[of.name] = []sample{s, s, s}
	}
	return c
}

func TestCalibrate(t *testing.T) {
	t.Parallel()
	c := known(t)
	m, err := c.calibrate()
	if err != nil {
		t.Fatal(err)
	}
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 0.01*want {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	for role, want := range truth.cpu() {
		got := m.cpu()[role]
		near(string(role)+" every", got.Every, want.Every)
		near(string(role)+" shared", got.Shared, want.Shared)
	}
	near("server", m.costs.Server, truth.costs.Server)
	near("turn", m.costs.Turn, truth.costs.Turn)
	near("call", m.costs.Call, truth.costs.Call)
	near("load", m.load, truth.load)
	near("log", m.log, truth.log)
	if err := c.check(m); err != nil {
		t.Error(err)
	}
	text, err := c.table(m)
	if err != nil || strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	c := known(t)
	m, err := c.calibrate()
	if err != nil {
		t.Fatal(err)
	}
	held := c.heldOut()
	if len(held) != 9 {
		t.Errorf("%d trials are held out, want 9", len(held))
	}
	for _, of := range []map[string]float64{{held[0].name: 0.8, mixed: 1.3}, {quick: 0.85, mixed: 1.15}} {
		wrong := c
		wrong.samples = maps.Clone(c.samples)
		for name, factor := range of {
			s := c.samples[name][0]
			s.steps *= factor
			wrong.samples[name] = []sample{s, s, s}
		}
		err := wrong.check(m)
		for name, factor := range of {
			if far := factor < 0.84 || factor > 1.24; far != (err != nil && strings.Contains(err.Error(), name)) {
				t.Errorf("%s, %v times as fast as predicted: %v", name, factor, err)
			}
		}
	}
}
