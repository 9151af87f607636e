package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/metrics"
	"runtime/pprof"
	"time"

	"github.com/inspan/inspan/test/bench/chart"
)

// contender is one who does steps, by the round.
type contender struct {
	name string
	// round does the steps of so many runs and returns steps per second.
	round func(ctx context.Context, runs, steps, inFlight int) (float64, error)
}

// outcome of a contender: the median of its rounds, and the median of the ratios of each round to the first
// contender's in the same turn. On a machine with neighbours the ratios are what can be relied on.
type outcome struct {
	name             string
	perSecond, ratio float64
	all              []float64
}

// interleave lets the contenders take turns, so that a neighbour of the machine hurts all of them alike.
func interleave(ctx context.Context, all []contender, rounds, runs, steps, inFlight int) ([]outcome, error) {
	out := make([]outcome, len(all))
	for range rounds {
		for i, c := range all {
			v, err := c.round(ctx, runs, steps, inFlight)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			out[i].all = append(out[i].all, v)
		}
	}
	for i := range out {
		ratios := make([]float64, rounds)
		for r := range ratios {
			ratios[r] = out[i].all[r] / out[0].all[r]
		}
		out[i].name, out[i].perSecond, out[i].ratio = all[i].name, chart.Median(out[i].all), chart.Median(ratios)
	}
	return out, nil
}

// running is a bed whose roles run, ready for rounds.
type running struct {
	*bed
	ends *ends
	// spent is the CPU time of the rounds so far, done their steps, ids their runs.
	spent time.Duration
	done  int
	ids   []string
	// together counts the appends that went in batches during the rounds.
	together uint64
	// allocs and allocBytes are what this process allocated during the rounds.
	allocs, allocBytes uint64
}

func startRunning(ctx context.Context, h how, turns int) (*running, error) {
	b, err := newBed(ctx, h)
	if err != nil {
		return nil, err
	}
	r := &running{bed: b}
	if err = b.start(ctx, turns); err == nil {
		r.ends, err = b.ends(ctx)
	}
	if err == nil {
		err = b.many(ctx, r.ends, "warm", 64, 64)
	}
	if err != nil {
		b.close()
		return nil, err
	}
	return r, nil
}

// round runs whole runs of turns through the roles.
func (r *running) round(ctx context.Context, runs, steps, inFlight int) (float64, error) {
	r.rounds++
	prefix := fmt.Sprintf("round-%d", r.rounds)
	grouped, before, allocs, bytes, begin := r.grouped(), r.usage(), allocated(heapObjects), allocated(heapBytes),
		time.Now()
	if err := r.many(ctx, r.ends, prefix, runs, inFlight); err != nil {
		return 0, err
	}
	took := time.Since(begin)
	if err := r.quiet(ctx); err != nil {
		return 0, err
	}
	r.spent += r.usage().cpu - before.cpu
	r.done += runs * steps
	r.together += r.grouped() - grouped
	r.allocs += allocated(heapObjects) - allocs
	r.allocBytes += allocated(heapBytes) - bytes
	for i := range runs {
		r.ids = append(r.ids, fmt.Sprintf("%s-%d", prefix, i))
	}
	return float64(runs*steps) / took.Seconds(), nil
}

// Rest of a station: what it does within quietWindow takes no more than quietShare of it, quietWindows times in a row,
// which is longer than the persister gathers events for.
const (
	quietWindow  = 200 * time.Millisecond
	quietShare   = 0.1
	quietWindows = 7
	quietMost    = 5 * time.Minute
)

// quiet waits until the station rests. Views and archives are written behind the runs: a run costs what they cost too.
func (b *bed) quiet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, quietMost)
	defer cancel()
	tick := time.NewTicker(quietWindow)
	defer tick.Stop()
	before, at := b.usage().cpu, time.Now()
	for rested := 0; rested < quietWindows; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the views of the runs: %w", context.Cause(ctx))
		}
		now := b.usage().cpu
		rested++
		if float64(now-before) > quietShare*float64(time.Since(at)) {
			rested = 0
		}
		before, at = now, time.Now()
	}
	return nil
}

// Counters of the runtime, since the process began.
const (
	heapObjects = "/gc/heap/allocs:objects"
	heapBytes   = "/gc/heap/allocs:bytes"
)

// allocated reads a counter of what this process allocated.
func allocated(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// profiled runs f and writes the profiles of it that are asked for.
func (c config) profiled(f func() error) error {
	if c.profile != "" {
		file, err := os.Create(c.profile)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
	}
	err := f()
	pprof.StopCPUProfile()
	if err != nil || c.allocs == "" {
		return err
	}
	file, err := os.Create(c.allocs)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(file, 0), file.Close())
}

// w1 lets whole stations, the bare floor under them and PostgreSQL take turns, in both modes of the server. With nodes
// it is the same on a cluster, where nothing else is compared.
func w1(ctx context.Context, c config, nodes int) ([]figures, error) {
	var all []figures
	for _, lazy := range c.modes() {
		f, err := w1Mode(ctx, c, how{lazy: lazy, split: c.split, single: c.single, disk: c.disk, nodes: nodes,
			up: c.up && nodes == 0})
		if err != nil {
			return all, err
		}
		all = append(all, f)
		show(f)
	}
	return all, nil
}

func w1Mode(ctx context.Context, c config, h how) (figures, error) {
	r, err := startRunning(ctx, h, c.steps)
	if err != nil {
		return figures{}, err
	}
	defer r.close()
	contenders := []contender{{"inspan", r.round}, {"floor", r.floor}}
	if !h.lazy && h.nodes == 0 && !h.up {
		switch p, err := startPostgres(ctx); {
		case err == nil:
			defer p.close()
			contenders = append(contenders, contender{"postgres", p.round})
		default:
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}
	var rival *peer
	if c.peer != "" && !h.lazy && h.nodes == 0 {
		if rival, err = startPeer(ctx, c.peer); errors.Is(err, errNoPostgres) {
			fmt.Fprintln(os.Stderr, "bench: NOT RUN: the peer, which needs PostgreSQL:", err)
		} else if err != nil {
			return figures{}, fmt.Errorf("peer: %w", err)
		} else {
			defer rival.close() //nolint:errcheck // its figures are there by then
			contenders = append(contenders, contender{"peer", rival.round})
		}
	}
	if other, ok := h.other(c.pair); ok {
		o, err := startRunning(ctx, other, c.steps)
		if err != nil {
			return figures{}, err
		}
		defer o.close()
		contenders = append(contenders, contender{"pair", o.round})
	}
	var out []outcome
	err = c.profiled(func() (err error) {
		out, err = interleave(ctx, contenders, c.rounds, max(1, c.runs/c.rounds), c.steps, c.inFlight)
		return err
	})
	if err != nil {
		return figures{}, err
	}
	used := r.usage() // before the logs are read back, which is no part of the rounds
	st, err := r.steps(ctx, r.ids)
	if err != nil {
		return figures{}, err
	}
	f := figures{Workload: "W1", Mode: h.mode(), Steps: r.done, PerSecond: out[0].perSecond,
		FloorPerSecond: out[1].perSecond, Ratio: out[1].ratio,
		P50MS: quantile(st.took, 0.5), P99MS: quantile(st.took, 0.99), AppendsPerStep: float64(st.events) / float64(r.done),
		AllocsPerStep: float64(r.allocs) / float64(r.done), AllocKiBPerStep: float64(r.allocBytes) / float64(r.done) / 1024,
		BytesPerEvent: float64(st.bytes) / float64(st.events), CPUPer1000: r.spent.Seconds() / float64(r.done) * 1000,
		PeakRSSMiB: used.rss}
	if h.nodes > 1 {
		f.Workload = "W7"
		f.Note = fmt.Sprintf("%d servers; ", h.nodes)
	}
	if len(contenders) == 1 || h.up {
		f.Note += fmt.Sprintf("%.0f allocations of %.1f KiB per step; ", f.AllocsPerStep, f.AllocKiBPerStep)
	}
	f.Note += fmt.Sprintf("%.2f appends per turn", float64(st.perTurn-len(r.ids))/float64(r.done))
	if r.together > 0 {
		f.Note += fmt.Sprintf("; %.0f%% of the appends went in batches", 100*float64(r.together)/float64(st.events))
	}
	for _, o := range out[2:] {
		switch o.name {
		case "postgres":
			f.PostgresPerSecond = o.perSecond
			f.Note += fmt.Sprintf("; PostgreSQL %.0f steps/s, %.2f x", o.perSecond, o.ratio)
		case "peer":
			f.PeerPerSecond = o.perSecond
			f.Note += fmt.Sprintf("; DBOS on PostgreSQL %.0f steps/s, %.2f x, %s", o.perSecond, o.ratio, rival.note())
		case "pair":
			f.Note += fmt.Sprintf("; with -%s the other way %.0f steps/s, %.2f x", c.pair, o.perSecond, o.ratio)
		}
	}
	return f, nil
}

// mode names how the server writes.
func (h how) mode() string {
	if h.lazy {
		return "lazy"
	}
	return "always"
}

// other is the same with one thing the other way; ok is false where there is no such thing.
func (h how) other(what string) (o how, ok bool) {
	switch what {
	case "single":
		h.single = !h.single
	case "disk":
		h.disk = !h.disk
	case "split":
		h.split = !h.split
	case "up":
		h.up = true
	default:
		return h, false
	}
	return h, what == "split" || what == "up" || !h.lazy
}

// grouped counts the appends that went in batches.
func (b *bed) grouped() uint64 {
	var n uint64
	for _, c := range b.conns {
		n += c.Grouped()
	}
	return n
}
