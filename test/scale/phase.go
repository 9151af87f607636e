package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/backup"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/rebuild"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

const (
	name = "scale"
	// resultBytes is what the tool of the measurements returns.
	resultBytes = 200
	// ahead is how many tasks may be on their way.
	ahead = 500
	// pollEvery is how often the log and the index are looked at, within how long all must be done.
	pollEvery = 50 * time.Millisecond
	within    = 6 * time.Hour
)

// nothing is the tool of the measurements: 200 bytes and no work.
type nothing struct{}

func (nothing) Spec() tool.Spec {
	return tool.Spec{Name: "nothing", Description: "does nothing", Effect: tool.Once, Input: json.RawMessage(`{"type":"object"}`)}
}

func (nothing) Run(context.Context, tool.Call) (tool.Result, error) {
	return tool.Result{Output: strings.Repeat("r", resultBytes)}, nil
}

// phase does one part of the measurement in this process and prints what it measured.
func phase(ctx context.Context, o options) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var out any
	var err error
	switch o.phase {
	case "park":
		out, err = fill(ctx, o, events.GateOpened)
	case "work":
		out, err = fill(ctx, o, events.RunCompleted)
	case "look":
		out, err = look(ctx, o)
	default:
		err = fmt.Errorf("unknown phase %q", o.phase)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

// up starts a station as inspan up does. It syncs lazily: that changes no byte.
func up(ctx context.Context, o options, still bool) (*station.Station, error) {
	base, err := service.FromEnv()
	if err != nil {
		return nil, err
	}
	base.MaxRuns, base.RunsPerMinute = 0, 0
	scripts := filepath.Join(filepath.Dir(o.store), "scripts-"+filepath.Base(o.store))
	script := fmt.Sprintf("turns:\n  - when: {turn: {from: 1, to: %d}}\n    text: \"%s\"\n    chunk: 100000\n    usage: {input: 1000, output: 250}\n    calls:\n      - {name: nothing, input: {n: \"{{turn}}\"}}\n  - text: done\n",
		o.steps, strings.Repeat("t", o.text))
	if err := os.MkdirAll(scripts, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(scripts, "worker.yaml"), []byte(script), 0o644); err != nil {
		return nil, err
	}
	return station.Up(ctx, station.Config{StoreDir: o.store, Station: name, ScriptsDir: scripts, Sandbox: "host", LazySync: true, Still: still,
		Tools: []tool.Tool{nothing{}}, Base: base})
}

// fill lets runs come so far that their log has an event of a kind, and waits until the index has them so.
func fill(ctx context.Context, o options, until events.Kind) (took time.Duration, err error) {
	s, err := up(ctx, o, false)
	if err != nil {
		return 0, err
	}
	defer func() {
		if e := s.Close(context.WithoutCancel(ctx)); err == nil {
			err = e
		}
	}()
	err = s.Administer(ctx, func(c *jet.Conn) error {
		st, err := c.Station(name)
		if err != nil {
			return err
		}
		b, err := json.Marshal(events.Agent{Name: "worker", Digest: strings.Repeat("0", 64), Model: "scripted/worker",
			Tools: []string{"nothing"}, Prompt: "Work.", MaxSteps: o.steps + 1, MaxToolCalls: o.steps})
		if err != nil {
			return err
		}
		return st.KV(topology.ConfigBucket).Put(ctx, "agent.worker", b)
	})
	if err != nil {
		return 0, err
	}
	st, err := s.Conn().Station(name)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	there, after := 0, uint64(0)
	count := func() error {
		for {
			evs, more, err := st.ReadKind(ctx, until, after)
			if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil { // a busy machine: it is asked again
				return nil
			}
			if err != nil {
				return err
			}
			if there += len(evs); len(evs) > 0 {
				after = evs[len(evs)-1].Seq
			}
			if !more {
				return nil
			}
		}
	}
	level := 1
	for i := range o.runs {
		t := events.Task{ID: fmt.Sprintf("run-%07d", i), Agent: "worker", Task: "work"}
		if until == events.GateOpened {
			t.Autonomy = &level
		}
		body, err := json.Marshal(t)
		if err == nil {
			err = st.Publish(ctx, events.TaskSubject(name), body, nil)
		}
		for err == nil && i-there >= ahead {
			if err = kernel.Sleep(ctx, pollEvery); err == nil {
				err = count()
			}
		}
		if err != nil {
			return 0, err
		}
	}
	for there < o.runs {
		if err := count(); err != nil {
			return 0, err
		}
		if err := kernel.Sleep(ctx, pollEvery); err != nil {
			return 0, err
		}
	}
	took = time.Since(began)
	return took, indexed(ctx, s, o.runs, until)
}

// indexed waits until the index has all runs as they are.
func indexed(ctx context.Context, s *station.Station, runs int, until events.Kind) error {
	c, err := operator.On(s.Conn(), name)
	if err != nil {
		return err
	}
	for {
		all, err := c.Runs().List(ctx)
		if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
			return err
		}
		there := 0
		for _, i := range all {
			waits, ended := len(i.Gates) > 0, i.Status.Ended() && i.Archive != nil
			if until == events.GateOpened && waits || until != events.GateOpened && ended {
				there++
			}
		}
		if there >= runs {
			return nil
		}
		if err := kernel.Sleep(ctx, pollEvery); err != nil {
			return err
		}
	}
}

// looked is what a station is like that was started with runs in its store.
type looked struct {
	Start, List, Gates, Approve, Backup, Rebuild time.Duration
	RSS                                          int64
	Goroutines                                   int
	Listed, Waiting, Rebuilt                     int
	BackupBytes                                  int64
}

func look(ctx context.Context, o options) (l looked, err error) {
	if err := l.running(ctx, o); err != nil {
		return l, err
	}
	s, err := up(ctx, o, true)
	if err != nil {
		return l, err
	}
	defer func() {
		if e := s.Close(context.WithoutCancel(ctx)); err == nil {
			err = e
		}
	}()
	views, err := station.Views(ctx, name, s.As)
	if err != nil {
		return l, err
	}
	began := time.Now()
	report, err := rebuild.All(ctx, views)
	if err != nil {
		return l, err
	}
	l.Rebuild, l.Rebuilt = time.Since(began), report.Runs
	if len(report.Faults) > 0 {
		return l, fmt.Errorf("rebuild: %+v", report.Faults)
	}
	return l, nil
}

// running measures what a station does that runs.
func (l *looked) running(ctx context.Context, o options) (err error) {
	began := time.Now()
	s, err := up(ctx, o, false)
	if err != nil {
		return err
	}
	defer func() {
		if e := s.Close(context.WithoutCancel(ctx)); err == nil {
			err = e
		}
	}()
	l.Start = time.Since(began)
	l.RSS, l.Goroutines = settled(ctx), runtime.NumGoroutine()
	c, err := operator.On(s.Conn(), name)
	if err != nil {
		return err
	}
	began = time.Now()
	all, err := c.Runs().List(ctx)
	if err != nil {
		return err
	}
	l.List, l.Listed = time.Since(began), len(all)
	began = time.Now()
	waiting, err := c.Gates().List(ctx)
	if err != nil {
		return err
	}
	l.Gates, l.Waiting = time.Since(began), len(waiting)
	src, ok := c.Inside().(backup.Source)
	if !ok {
		return fmt.Errorf("%T is no source of a backup", c.Inside())
	}
	began = time.Now()
	m, err := backup.Take(ctx, backup.TakeConfig{Source: src, Station: name, Dir: o.store + "-backup", Version: "scale", Now: time.Now})
	if err != nil {
		return err
	}
	l.Backup, l.BackupBytes = time.Since(began), m.Bytes
	if m.Runs != len(all) {
		return fmt.Errorf("the backup has %d runs of %d", m.Runs, len(all))
	}
	if len(waiting) == 0 {
		return nil
	}
	of := waiting[len(waiting)/2]
	began = time.Now()
	if err := approve(ctx, c, of.Run.HarnessID, of.Gate.ID); err != nil {
		return err
	}
	l.Approve = time.Since(began)
	return completed(ctx, c, of.Run.HarnessID, of.Gate.ID)
}

func approve(ctx context.Context, c *client.Client, run, gate string) error {
	_, err := c.Gates().Approve(ctx, client.Decision{Run: run, Gate: gate, By: "ada"})
	return err
}

// completed answers the other gates of a run and waits until it has completed.
func completed(ctx context.Context, c *client.Client, run, gate string) error {
	answered := map[string]bool{gate: true}
	for item, err := range c.Watch(ctx, run, 0) {
		if err != nil {
			return err
		}
		for _, g := range item.State.Gates {
			if !answered[g.ID] {
				answered[g.ID] = true
				if err := approve(ctx, c, run, g.ID); err != nil {
					return err
				}
			}
		}
		if s := item.State.Status; s.Ended() && s != events.Completed {
			return fmt.Errorf("run %s is %s", run, s)
		}
	}
	return ctx.Err()
}

// settled is the resident memory once it does not fall any more.
func settled(ctx context.Context) int64 {
	least := resident()
	for range 20 {
		debug.FreeOSMemory()
		if kernel.Sleep(ctx, pollEvery) != nil {
			break
		}
		least = min(least, resident())
	}
	return least
}

// resident is the resident memory of this process in bytes.
func resident() int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for l := range strings.Lines(string(b)) {
		var kb int64
		if _, err := fmt.Sscanf(l, "VmRSS: %d kB", &kb); err == nil {
			return kb << 10
		}
	}
	return 0
}
