package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/program"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/pkg/tool/serve"
	"github.com/inspan/inspan/pkg/tool/wire"
)

// What a run does.
const (
	// runSteps are the steps of a run, each a turn with one call; a turn without a call ends it. The runs that begin first
	// have from 1 to runSteps of them, so that as many end at any time.
	runSteps = 10
	turnText = 1024
	// manyCalls is more than there are runs: the program that serves the tool refuses none.
	manyCalls = 1 << 14
)

// waiter is the tool: it takes its time and no CPU. It is served by this process over NATS, so that a toolrunner waits
// for it as for a service elsewhere and starts no program.
type waiter struct{ takes time.Duration }

func (waiter) Spec() tool.Spec {
	return tool.Spec{Name: "wait", Description: "takes its time", Effect: tool.Once, Input: json.RawMessage(`{"type":"object"}`)}
}

func (w waiter) Run(ctx context.Context, _ tool.Call) (tool.Result, error) {
	t := time.NewTimer(w.takes)
	defer t.Stop()
	select {
	case <-t.C:
		return tool.Result{Output: strings.Repeat("r", resultBytes)}, nil
	case <-ctx.Done():
		return tool.Result{}, ctx.Err()
	}
}

// load holds a number of runs under way: one that ends is replaced by another.
type load struct {
	conn    *jet.Conn
	st      *jet.Station
	tool    waiter
	stop    func()
	serving sync.WaitGroup
	end     context.CancelCauseFunc
	// ctx ends with the first failure.
	ctx context.Context
	// ends has the runs that ended, one place for each that may.
	ends chan string
	// calls, turns, begun and ended count events since the load was made; open is how many runs have not ended.
	calls, turns, begun, ended, open atomic.Int64

	mu sync.Mutex
	// runs is how many are to be under way, next the number of the next one; guarded by mu.
	runs, next int
}

// maxOpen bounds the runs under way.
const maxOpen = 10_000

// newLoad sets the station up, serves its tool and watches its runs; none begins before hold.
func newLoad(ctx context.Context, f *fleet, tool time.Duration) (*load, error) {
	l := &load{tool: waiter{tool}, ends: make(chan string, maxOpen)}
	l.ctx, l.end = context.WithCancelCause(ctx)
	if err := l.setUp(f); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *load) setUp(f *fleet) (err error) {
	if l.conn, err = jet.Connect(l.ctx, jet.Config{URL: f.urls, Name: name}); err != nil {
		return err
	}
	cfg, err := service.FromEnv()
	if err != nil {
		return err
	}
	cfg.Station, cfg.Agents = name, ""
	up, cancel := context.WithTimeout(l.ctx, startWithin)
	defer cancel()
	for { // servers that have only just found each other may have no leader yet
		err = program.SetUp(up, l.conn, cfg, jet.ApplyOptions{Replicas: len(f.servers)}, program.Log{})
		if err == nil {
			break
		}
		if kernel.Sleep(up, pollEvery) != nil {
			return fmt.Errorf("set the station up: %w", err)
		}
	}
	if l.st, err = l.conn.Station(name); err != nil {
		return err
	}
	if err := l.agents(up); err != nil {
		return err
	}
	l.serving.Go(func() {
		cfg := serve.Config{URL: f.urls, Station: name, Server: name, Calls: manyCalls, Drain: time.Second}
		err := serve.Serve(l.ctx, cfg, l.tool)
		if err != nil && l.ctx.Err() == nil {
			l.end(fmt.Errorf("serve the tool: %w", err))
		}
	})
	if l.stop, err = l.st.Watch(l.ctx, "*", false, l.see); err != nil {
		return err
	}
	l.serving.Go(l.replace)
	return nil
}

// agents writes one for each length of a run.
func (l *load) agents(ctx context.Context) error {
	d, err := wire.Describe(name, l.tool.Spec())
	if err != nil {
		return err
	}
	pin := events.ServedTool{Name: d.Name, Server: d.Server, Description: d.Description, Input: d.Input, Effect: d.Effect,
		TimeoutMS: d.TimeoutMS, Digest: d.Digest}
	for n := range runSteps {
		steps := n + 1
		of := agentOf(steps)
		b, err := json.Marshal(events.Agent{Name: of, Digest: strings.Repeat("0", 64), Model: "scripted/" + of, Tools: []string{d.Name},
			Served: []events.ServedTool{pin}, Prompt: "Work.", MaxSteps: steps + 1, MaxToolCalls: steps})
		if err == nil {
			err = l.st.KV(topology.ConfigBucket).Put(ctx, "agent."+of, b)
		}
		if err != nil {
			return fmt.Errorf("agent %s: %w", of, err)
		}
	}
	return nil
}

func agentOf(steps int) string { return fmt.Sprintf("worker-%d", steps) }

// scripts writes the models whose turns take so long into a folder.
func scripts(dir string, model time.Duration) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for n := range runSteps {
		script := fmt.Sprintf("turns:\n  - when: {turn: {from: 1, to: %d}}\n    text: %q\n    chunk: 100000\n    delay: %s\n    usage: {input: 1000, output: 250}\n    calls:\n      - {name: wait, input: {n: \"{{turn}}\"}}\n  - text: done\n    delay: %s\n",
			n+1, strings.Repeat("t", turnText), model, model)
		if err := os.WriteFile(filepath.Join(dir, agentOf(n+1)+".yaml"), []byte(script), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// see counts an event.
func (l *load) see(s jet.Seen) {
	switch s.Kind {
	case events.TurnFinished:
		l.turns.Add(1)
	case events.CallFinished:
		l.calls.Add(1)
	case events.RunStarted:
		l.begun.Add(1)
	case events.RunCompleted:
		l.ended.Add(1)
		l.ends <- s.Run
	case events.RunFailed, events.RunPaused, events.CallFailed, events.CallRefused, events.GateOpened:
		l.end(fmt.Errorf("run %s has an event %s, but no run is to fail or wait: %s", s.Run, s.Kind, s.Data))
	default: // nothing that is counted
	}
}

// replace begins a run for each that ends, until there are as many as are to be.
func (l *load) replace() {
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.ends:
			l.open.Add(-1)
		}
		if err := l.fill(false); err != nil && l.ctx.Err() == nil {
			l.end(err)
		}
	}
}

// fill begins runs until there are as many as are to be. The first ones have from 1 to runSteps steps.
func (l *load) fill(first bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for int(l.open.Load()) < l.runs {
		steps := runSteps
		if first {
			steps = 1 + l.next%runSteps
		}
		body, err := json.Marshal(events.Task{ID: fmt.Sprintf("run-%07d", l.next), Agent: agentOf(steps), Task: "work"})
		if err == nil {
			err = l.st.Publish(l.ctx, events.TaskSubject(name), body, nil)
		}
		if err != nil {
			return fmt.Errorf("begin run %d: %w", l.next, err)
		}
		l.next++
		l.open.Add(1)
	}
	return nil
}

// hold has so many runs under way, and waits until all that were begun have started.
func (l *load) hold(runs int) error {
	if runs > maxOpen {
		return fmt.Errorf("%d runs under way, want at most %d", runs, maxOpen)
	}
	l.mu.Lock()
	l.runs = runs
	l.mu.Unlock()
	if err := l.fill(true); err != nil {
		return err
	}
	l.mu.Lock()
	want := int64(l.next)
	l.mu.Unlock()
	for l.begun.Load() < want {
		if kernel.Sleep(l.ctx, pollEvery) != nil {
			return l.failure()
		}
	}
	return nil
}

// inCalls is how many runs have a call that was asked for and has not finished; the last turn of a run has none.
func (l *load) inCalls() int64 { return l.turns.Load() - l.ended.Load() - l.calls.Load() }

// gathered reports whether the runs of a trial wait where they are to wait. Where they are to wait nowhere, it is as
// gone.
func (l *load) gathered(t trial) func() bool {
	gone := l.gone(t)
	return func() bool {
		share := float64(l.inCalls()) / float64(t.runs)
		switch t.limit {
		case events.Executor:
			return share < 0.2
		case events.Toolrunner:
			return share > 0.8
		case events.Planner, events.Gatekeeper, events.Persister:
		}
		return gone()
	}
}

// gone reports whether as many turns and calls were made as a trial has runs, since it was asked for: then what was
// before one role is dispersed.
func (l *load) gone(t trial) func() bool {
	turns, calls := l.turns.Load()+int64(t.runs), l.calls.Load()+int64(t.runs)
	return func() bool { return l.turns.Load() >= turns && l.calls.Load() >= calls }
}

// renewed reports whether as many runs have ended as a trial has, since it was asked for.
func (l *load) renewed(t trial) func() bool {
	want := l.ended.Load() + int64(t.runs)
	return func() bool { return l.ended.Load() >= want }
}

// settle waits until something holds of the runs of a trial.
func (l *load) settle(t trial, there func() bool) error {
	late := time.Now().Add(moveWithin)
	for !there() {
		if kernel.Sleep(l.ctx, pollEvery) != nil {
			return l.failure()
		}
		if time.Now().After(late) {
			return fmt.Errorf("%s: the runs do not gather or go on as they should within %s, %d of %d are in a call: the machine is too busy", t.name,
				moveWithin, l.inCalls(), t.runs)
		}
	}
	return nil
}

// failure is why the load has ended, nil while it has not.
func (l *load) failure() error {
	err := context.Cause(l.ctx)
	if errors.Is(err, errClosed) {
		return nil
	}
	return err
}

// errClosed means that the load was ended because all was measured.
var errClosed = errors.New("the measurement has ended")

func (l *load) close() {
	l.end(errClosed)
	l.serving.Wait()
	if l.stop != nil {
		l.stop()
	}
	if l.conn != nil {
		l.conn.Close()
	}
}
