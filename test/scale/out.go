package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// Settings of what is measured.
const (
	// narrow is how many turns or calls one process has at a time where its role is to be the limit, wide where it is not.
	narrow, wide = 8, 256
	// waitOfOne and waitOfThree are how long a turn of the model and a call of the tool take, by the number of servers: as
	// long as a machine of two cores carries the steps of 4 narrow processes.
	waitOfOne, waitOfThree = 400 * time.Millisecond, 800 * time.Millisecond
	// fewRuns are under way in the trial of few, whose windows follow each other.
	fewRuns, fewWindows = 24, 2
	// costRuns are under way in the trials of cost, enough to fill 4 narrow executors and their calls, and so few that a
	// generation of them does not take long; costWindows is how many windows each has.
	costRuns, costWindows = 80, 2
	// settleFor is the time between a change of the processes and a window, idleFor the window without any run, moveWithin
	// what the queue of runs may take from one role to another.
	settleFor, idleFor, moveWithin = 2 * time.Second, 5 * time.Second, 3 * time.Minute
	// unsteady is how far turns and calls of a window may be apart, tries how often it is measured for that.
	unsteady, tries = 0.15, 3
	// most is the most processes of a role.
	most = 4
)

// layout says which processes run. Its zero value has one process of each role and all wide.
type layout struct {
	// more is how many processes a role has beyond the first.
	more map[events.Service]int
	// turns is INSPAN_WORKERS of the executors, calls that of the toolrunners; 0 is wide.
	turns, calls int
	// quick has the model take half its time.
	quick bool
}

// place is a process of a layout. Equal names have equal settings.
type place struct {
	role events.Service
	name string
}

func (l layout) processes(role events.Service) int { return 1 + l.more[role] }

func (l layout) workers(role events.Service) int {
	n := l.turns
	if role == events.Toolrunner {
		n = l.calls
	}
	if n == 0 {
		n = wide
	}
	return n
}

// places are the processes of a layout.
func (l layout) places() (all []place) {
	for _, role := range events.Services() {
		settings := ""
		switch role {
		case events.Executor:
			settings = fmt.Sprintf(", %d turns by %s", l.workers(role), l.scripts())
		case events.Toolrunner:
			settings = fmt.Sprintf(", %d calls", l.workers(role))
		case events.Planner, events.Gatekeeper, events.Persister:
		}
		for n := range l.processes(role) {
			all = append(all, place{role, fmt.Sprintf("%s %d%s", role, n+1, settings)})
		}
	}
	return all
}

// settings are the variables of a process of a role.
func (l layout) settings(dir string, role events.Service) []string {
	switch role {
	case events.Executor:
		return []string{fmt.Sprintf("INSPAN_WORKERS=%d", l.workers(role)), "INSPAN_SCRIPTS=" + filepath.Join(dir, l.scripts())}
	case events.Toolrunner:
		return []string{fmt.Sprintf("INSPAN_WORKERS=%d", l.workers(role))}
	case events.Planner, events.Gatekeeper, events.Persister:
	}
	return nil
}

// scripts is the folder of the scripts of its model.
func (l layout) scripts() string {
	if l.quick {
		return "quick"
	}
	return "scripts"
}

// trial is a layout that is measured.
type trial struct {
	name   string
	layout layout
	runs   int
	// limit is the role at which the runs wait, empty where they wait at none.
	limit events.Service
	// made says that the model of the network is made of it; all others are predicted.
	made bool
}

// Names of trials that others are compared with.
const (
	full  = "everything wide"
	few   = "few runs"
	mixed = "3 executors and 2 toolrunners"
	quick = "2 executors, a quicker model"
)

func nameOf(role events.Service, n int) string { return fmt.Sprintf("%s %d", role, n) }

// with is a number of processes of one role, with 1 of each other.
func with(role events.Service, processes int) map[events.Service]int {
	return map[events.Service]int{role: processes - 1}
}

// both are executors and toolrunners.
func both(executors, toolrunners int) map[events.Service]int {
	return map[events.Service]int{events.Executor: executors - 1, events.Toolrunner: toolrunners - 1}
}

// fewTrial is measured first.
func fewTrial() trial {
	return trial{name: few, runs: fewRuns, layout: layout{turns: narrow, calls: narrow, more: both(2, 2)}}
}

// trials are those of the curves. Trials with one limit follow each other, the one with most processes first: the queue
// of runs moves seldom, and few processes are started. One that has just begun reads the log of each run that it takes.
func trials(runs int) (all []trial) {
	for n := most; n >= 1; n-- {
		all = append(all, trial{name: nameOf(events.Executor, n), runs: runs, limit: events.Executor, made: n == 1,
			layout: layout{turns: narrow, more: with(events.Executor, n)}})
	}
	all = append(all, trial{name: quick, runs: runs, limit: events.Executor,
		layout: layout{turns: narrow, quick: true, more: with(events.Executor, 2)}})
	for n := most; n >= 1; n-- {
		all = append(all, trial{name: nameOf(events.Toolrunner, n), runs: runs, limit: events.Toolrunner, made: n == 1,
			layout: layout{calls: narrow, more: with(events.Toolrunner, n)}})
	}
	return append(all, trial{name: mixed, runs: runs, limit: events.Toolrunner,
		layout: layout{turns: narrow, calls: narrow, more: both(3, 2)}})
}

// fullTrial is measured when all runs have begun, with the processes that were there before: they know the runs.
func fullTrial(runs int) trial { return trial{name: full, runs: runs, made: true} }

// Names of trials of cost: 4 narrow executors, and with them 4 of another role; 4 narrow toolrunners.
const (
	base  = "4 executors, one of each other role"
	calls = "4 toolrunners, one of each other role"
)

func costOf(role events.Service) string {
	switch role {
	case events.Executor:
		return base
	case events.Toolrunner:
		return calls
	case events.Planner, events.Gatekeeper, events.Persister:
	}
	return fmt.Sprintf("4 executors, 4 %ss", role)
}

// costs are the trials of which the CPU of a step is made. All have the same work: the load is limited by 4 narrow
// processes. A process that has only just begun knows no run, so one generation of runs comes and goes before a window.
func costs() []trial {
	all := []trial{{name: base, runs: costRuns, layout: layout{turns: narrow, more: with(events.Executor, most)}}}
	for _, role := range flat {
		more := both(most, 1)
		more[role] = most - 1
		all = append(all, trial{name: costOf(role), runs: costRuns, layout: layout{turns: narrow, more: more}})
	}
	all = append(all, trial{name: calls, runs: costRuns,
		layout: layout{calls: narrow, more: with(events.Toolrunner, most)}})
	return append(all, all[0]) // at the end once more: the log has grown
}

// flat are the roles that wait for nothing: their work is CPU.
var flat = []events.Service{events.Planner, events.Gatekeeper, events.Persister}

// sample is what one window of a trial measured.
type sample struct {
	seconds, steps, turns float64
	// cpu is the CPU time of all processes of each role, in seconds.
	cpu map[string]float64
}

func (s sample) perSecond() float64 { return s.steps / s.seconds }

// curves is all that was measured.
type curves struct {
	where          string
	servers, cores int
	runs           int
	// wait is how long a turn and a call take.
	wait time.Duration
	// rounds is how many there were, window how long each trial was measured in one.
	rounds int
	window time.Duration
	trials []trial
	// samples are the windows of each trial, by name, one a round.
	samples map[string][]sample
	// idle is the CPU time a second of one process of each role while no run is under way.
	idle map[string]float64
	took time.Duration
}

// model is how long a turn takes in a layout.
func (c curves) model(l layout) time.Duration {
	if l.quick {
		return c.wait / 2
	}
	return c.wait
}

// out measures the curves, prints them and writes them into the page.
func out(ctx context.Context, o options, dir string, to io.Writer) error {
	if o.servers != 1 && o.servers != 3 {
		return fmt.Errorf("-servers %d: want 1 or 3", o.servers)
	}
	if o.runs < costRuns || o.runs > maxOpen || o.rounds < 1 || o.window <= 0 || o.wait < 0 {
		return fmt.Errorf("-runs must be from %d to %d, -rounds and -window above 0, -wait not below", costRuns, maxOpen)
	}
	c, err := measureOut(ctx, o, dir)
	if err != nil {
		return err
	}
	m, err := c.calibrate()
	if err != nil {
		return err
	}
	text, err := c.table(m)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(to, text); err != nil {
		return err
	}
	if o.write {
		if err := replace(o.docs, beginsOut(o.servers), text); err != nil {
			return err
		}
	}
	return c.check(m)
}

func measureOut(ctx context.Context, o options, dir string) (c curves, err error) {
	c = curves{where: fmt.Sprintf("%s, %d cores, %s", runtime.Version(), runtime.NumCPU(), time.Now().UTC().Format("2006-01-02")),
		servers: o.servers, cores: runtime.NumCPU(), runs: o.runs, window: o.window, trials: trials(o.runs),
		samples: map[string][]sample{}}
	if c.wait = o.wait; c.wait == 0 {
		c.wait = waitOfOne
		if o.servers > 1 {
			c.wait = waitOfThree
		}
	}
	began := time.Now()
	f := &fleet{dir: dir}
	defer f.end()
	progress("build the services")
	if err := programs(ctx, filepath.Join(dir, "bin")); err != nil {
		return c, err
	}
	for _, l := range []layout{{}, {quick: true}} {
		if err := scripts(filepath.Join(dir, l.scripts()), c.model(l)); err != nil {
			return c, err
		}
	}
	if err := f.serve(o.servers); err != nil {
		return c, err
	}
	l, err := newLoad(ctx, f, c.wait)
	if err != nil {
		return c, err
	}
	defer l.close()
	defer func() { err = errors.Join(l.failure(), f.healthy(), err) }()
	if err := c.begin(f, l); err != nil {
		return c, err
	}
	rounds := time.Now()
	for round := range o.rounds {
		at := time.Now()
		if round > 0 && at.Add(at.Sub(rounds)/time.Duration(round)).Sub(began) > o.within {
			progress("no time for another round within %s", o.within)
			break
		}
		for _, t := range c.trials {
			if err := c.try(f, l, t, l.gathered(t), 1); err != nil {
				return c, err
			}
		}
		c.rounds = round + 1
	}
	c.took = time.Since(began)
	return c, nil
}

// begin measures the processes without runs, then few runs, then the cost of a step, and begins all runs.
func (c *curves) begin(f *fleet, l *load) error {
	first := fewTrial()
	if _, err := f.become(l.ctx, first.layout); err != nil {
		return err
	}
	if kernel.Sleep(l.ctx, settleFor) != nil {
		return l.failure()
	}
	idle, err := window(f, l, idleFor)
	if err != nil {
		return err
	}
	c.idle = map[string]float64{server: idle.cpu[server] / idle.seconds}
	for _, role := range events.Services() {
		c.idle[string(role)] = idle.cpu[string(role)] / idle.seconds / float64(first.layout.processes(role))
	}
	if err := l.hold(first.runs); err != nil {
		return err
	}
	if err := c.try(f, l, first, l.renewed(first), fewWindows); err != nil {
		return err
	}
	for i, t := range costs() {
		if i == 0 {
			if _, err := f.become(l.ctx, t.layout); err != nil {
				return err
			}
			if err := l.hold(t.runs); err != nil {
				return err
			}
		}
		if err := c.try(f, l, t, l.renewed(t), costWindows); err != nil {
			return err
		}
	}
	progress("begin %d runs", c.runs)
	all := fullTrial(c.runs)
	if _, err := f.become(l.ctx, all.layout); err != nil {
		return err
	}
	if err := l.hold(all.runs); err != nil {
		return err
	}
	return c.try(f, l, all, l.gathered(all), costWindows)
}

// try measures windows of a trial once its runs are there.
func (c *curves) try(f *fleet, l *load, t trial, there func() bool, windows int) error {
	begun, err := f.become(l.ctx, t.layout)
	if err != nil {
		return err
	}
	if err := l.settle(t, there); err != nil {
		return err
	}
	if begun { // a process that has just begun reads each run that it takes a step of
		if err := l.settle(t, l.gone(t)); err != nil {
			return err
		}
	}
	if kernel.Sleep(l.ctx, settleFor) != nil {
		return l.failure()
	}
	for range windows {
		s, err := c.steady(f, l, t)
		if err != nil {
			return err
		}
		c.samples[t.name] = append(c.samples[t.name], s)
		var cpu []string
		for _, role := range slices.Sorted(maps.Keys(s.cpu)) {
			cpu = append(cpu, fmt.Sprintf("%s %.2f", role, 1000*s.cpu[role]/s.steps))
		}
		progress("%s: %.1f steps/s, %d runs, CPU of a step in ms: %s", t.name, s.perSecond(), l.open.Load(), strings.Join(cpu, ", "))
	}
	return nil
}

// steady is a window with as many turns as calls, with the last turns of runs: else a queue grows or shrinks somewhere.
func (c *curves) steady(f *fleet, l *load, t trial) (s sample, err error) {
	for range tries {
		if s, err = window(f, l, c.window); err != nil {
			return s, err
		}
		if s.steps == 0 {
			return s, fmt.Errorf("%s: no step in %s, %d runs are under way: the machine is too busy, or the services have stopped", t.name, c.window, l.open.Load())
		}
		if d := s.turns/s.steps/turnsOfStep - 1; math.Abs(d) < unsteady {
			break
		}
		progress("%s: %.0f turns and %.0f calls: not steady", t.name, s.turns, s.steps)
	}
	return s, nil
}

// window counts steps and CPU time for so long.
func window(f *fleet, l *load, long time.Duration) (s sample, err error) {
	if err := f.healthy(); err != nil {
		return s, err
	}
	before, err := f.spent()
	if err != nil {
		return s, err
	}
	began, called, turned := time.Now(), l.calls.Load(), l.turns.Load()
	if kernel.Sleep(l.ctx, long) != nil {
		return s, l.failure()
	}
	s.seconds = time.Since(began).Seconds()
	s.steps, s.turns = float64(l.calls.Load()-called), float64(l.turns.Load()-turned)
	after, err := f.spent()
	if err != nil {
		return s, errors.Join(f.healthy(), err)
	}
	s.cpu = map[string]float64{}
	for role, d := range after {
		s.cpu[role] = (d - before[role]).Seconds()
	}
	return s, nil
}

func progress(form string, of ...any) { fmt.Fprintf(os.Stderr, "scale: "+form+"\n", of...) }
