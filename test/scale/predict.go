package main

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/inspan/inspan/internal/core/capacity"
	"github.com/inspan/inspan/internal/core/queueing"
	"github.com/inspan/inspan/pkg/events"
)

// turnsOfStep is how many turns a step has with its part of the last turn, which has no call.
const turnsOfStep = float64(runSteps+1) / runSteps

// model is what the network is made of: the trials of cost, one executor, one toolrunner, and everything wide.
type model struct {
	costs capacity.Costs
	// load is the CPU of a step in this process, in seconds.
	load float64
	// log is how long a step takes the log of the servers, where CPU is not what limits everything wide; in seconds.
	log float64
}

// median of a trial's windows.
func (c curves) median(name string, of func(sample) float64) float64 {
	var all []float64
	for _, s := range c.samples[name] {
		all = append(all, of(s))
	}
	return middle(all)
}

func middle(all []float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	slices.Sort(all)
	n := len(all)
	return (all[(n-1)/2] + all[n/2]) / 2
}

func (c curves) perSecond(name string) float64 { return c.median(name, sample.perSecond) }

// ratio is the median of the ratios of two trials, round by round.
func (c curves) ratio(a, b string, of func(sample) float64) float64 {
	var all []float64
	for i, s := range c.samples[a] {
		all = append(all, of(s)/of(c.samples[b][i]))
	}
	return middle(all)
}

// step is the CPU time of a step in a trial, in seconds, without what idle processes take.
func (c curves) step(t trial, role string) func(sample) float64 {
	idle := c.idle[role]
	if role != server && role != loader {
		idle *= float64(t.layout.processes(events.Service(role)))
	}
	return func(s sample) float64 { return max(0, s.cpu[role]-idle*s.seconds) / s.steps }
}

// named is the trial of a name.
func (c curves) named(name string) trial {
	all := slices.Concat([]trial{fewTrial(), fullTrial(c.runs)}, costs(), c.trials)
	return all[slices.IndexFunc(all, func(t trial) bool { return t.name == name })]
}

// heldOut are the trials that are predicted.
func (c curves) heldOut() []trial {
	return slices.DeleteFunc(append([]trial{fewTrial()}, c.trials...), func(t trial) bool { return t.made })
}

// pair names the trials in which a role has one process and in which it has 4, at the same load.
func pair(role events.Service) (one, more string) {
	if role == events.Executor {
		return calls, base
	}
	return base, costOf(role)
}

// of is the CPU of a step in all processes of a role, in seconds: with one of them and with 4.
func (c curves) of(role events.Service) (one, more float64) {
	a, b := pair(role)
	return c.median(a, c.step(c.named(a), string(role))), c.median(b, c.step(c.named(b), string(role)))
}

// share divides that into what each process takes and what they share.
func (c curves) share(role events.Service) capacity.CPU {
	one, more := c.of(role)
	every := min(one, max(0, (more-one)/(most-1)))
	return capacity.CPU{Every: every, Shared: one - every}
}

// calibrate makes the model.
func (c curves) calibrate() (m model, err error) {
	m.costs = capacity.Costs{
		Planner: c.share(events.Planner), Gatekeeper: c.share(events.Gatekeeper),
		Executor: c.share(events.Executor), Toolrunner: c.share(events.Toolrunner), Persister: c.share(events.Persister),
		Server: c.median(base, c.step(c.named(base), server)) / float64(c.servers),
		Turn:   max(0, narrow/(turnsOfStep*c.perSecond(nameOf(events.Executor, 1)))-c.wait.Seconds()),
		Call:   max(0, narrow/c.perSecond(nameOf(events.Toolrunner, 1))-c.wait.Seconds()),
	}
	m.costs.Planner.Shared *= runSteps
	m.load = c.median(base, c.step(c.named(base), loader))
	wide := c.named(full)
	if m.log, err = c.fit(m, wide); err != nil {
		return m, fmt.Errorf("fit the log to %s: %w", wide.name, err)
	}
	return m, nil
}

// machine is the CPU of a step in all processes of a layout, in seconds: on this machine they share the cores.
func (c curves) machine(m model, l layout) float64 {
	all := m.costs.Server*float64(c.servers) + m.load
	for role, cpu := range m.cpu() {
		n := l.processes(role)
		all += cpu.Of(n) * float64(n)
	}
	return all
}

// cpu is that of a step of each role, with its part of a run.
func (m model) cpu() map[events.Service]capacity.CPU {
	planner := m.costs.Planner
	planner.Shared /= runSteps
	return map[events.Service]capacity.CPU{events.Planner: planner, events.Gatekeeper: m.costs.Gatekeeper,
		events.Executor: m.costs.Executor, events.Toolrunner: m.costs.Toolrunner, events.Persister: m.costs.Persister}
}

// fit is the demand of the log with which a trial carries what was measured; 0 where CPU explains it. It carries no
// less than the trials of cost, which have fewer runs under way.
func (c curves) fit(m model, t trial) (float64, error) {
	want := max(c.perSecond(t.name), c.perSecond(base), c.perSecond(calls))
	low, high := 0.0, 1/want // at the upper end the log alone carries what was measured
	for range 40 {
		m.log = (low + high) / 2
		got, err := c.predict(m, t)
		if err != nil {
			return 0, err
		}
		if got > want {
			low = m.log
		} else {
			high = m.log
		}
	}
	return low, nil
}

// network is a trial's on this machine, whose cores all processes share.
func (c curves) network(m model, t trial) queueing.Network {
	places := func(role events.Service) int { return t.layout.processes(role) * t.layout.workers(role) }
	return queueing.Network{
		{Name: "executor", Demand: turnsOfStep * (c.model(t.layout).Seconds() + m.costs.Turn), Places: places(events.Executor)},
		{Name: "toolrunner", Demand: c.wait.Seconds() + m.costs.Call, Places: places(events.Toolrunner)},
		{Name: "cores", Demand: c.machine(m, t.layout), Places: c.cores},
		{Name: "log", Demand: m.log, Places: 1},
	}
}

func (c curves) predict(m model, t trial) (float64, error) {
	f, err := c.network(m, t).At(t.runs)
	return f.PerSecond, err
}

// check says what was predicted badly.
func (c curves) check(m model) error {
	var errs []error
	for _, t := range c.heldOut() {
		p, err := c.predict(m, t)
		if err != nil {
			return err
		}
		if d := (compared{said: p, measure: c.perSecond(t.name)}).off(); !(math.Abs(d) <= off) {
			errs = append(errs, fmt.Errorf("%s: %.1f steps/s were predicted and %.1f measured, more than %.0f %% apart: measure again on a quiet machine",
				t.name, p, c.perSecond(t.name), 100*off))
		}
	}
	return errors.Join(errs...)
}
