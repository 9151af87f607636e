package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/test/bench/chart"
)

// What the charts measure: runs under way at a time with the runs of a round, and turns of one run.
var (
	concurrency = []struct{ inFlight, runs int }{{1, 4}, {4, 8}, {16, 24}, {64, 64}, {256, 256}}
	lengths     = []int{10, 50, 200, 1000, 2000}
)

// report measures throughput against concurrency and the cost of a turn against the length of a run, and writes both
// to a folder: performance.md and its drawings.
func report(ctx context.Context, c config, dir string) error {
	byLoad, err := throughput(ctx, c)
	if err != nil {
		return fmt.Errorf("throughput: %w", err)
	}
	byLength, err := cost(ctx, c)
	if err != nil {
		return fmt.Errorf("cost of a turn: %w", err)
	}
	machine := fmt.Sprintf("%s, %d cores, %s", runtime.Version(), runtime.NumCPU(), time.Now().UTC().Format("2006-01-02"))
	var loads, turns []float64
	for _, l := range concurrency {
		loads = append(loads, float64(l.inFlight))
	}
	for _, n := range lengths {
		turns = append(turns, float64(n))
	}
	files := map[string]string{
		"performance-throughput.svg": chart.Chart{Title: "Steps per second against runs under way at a time", XTicks: loads,
			LogY: true, Lines: byLoad,
			Subtitle: machine + "; contenders took turns; solid: written to disk before it is acknowledged",
			XLabel:   "runs under way at a time", YLabel: "steps/s"}.SVG(),
		"performance-length.svg": chart.Chart{Title: "Cost of a turn, by the turns that came before it", XTicks: turns,
			Lines:    byLength,
			Subtitle: machine + "; one run alone, median of the fifth before each point", XLabel: "turns so far",
			YLabel: "ms a turn"}.SVG(),
		"performance.md": page(machine, c, byLoad, byLength),
	}
	if old, err := os.ReadFile(filepath.Join(dir, "performance.md")); err == nil {
		if at := strings.Index(string(old), weightSection); at >= 0 {
			files["performance.md"] += "\n" + string(old)[at:]
		}
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// weightSection begins what test/weight writes at the end of performance.md.
const weightSection = "<!-- written by go run ./test/weight -->"

// throughput lets all contenders take turns at each concurrency.
func throughput(ctx context.Context, c config) ([]chart.Line, error) {
	var contenders []contender
	var lines []chart.Line
	join := func(name string, colour int, dashed bool, round func(context.Context, int, int, int) (float64, error)) {
		contenders = append(contenders, contender{name, round})
		lines = append(lines, chart.Line{Name: name, Colour: colour, Dashed: dashed})
	}
	for _, lazy := range []bool{false, true} {
		up, err := startRunning(ctx, how{lazy: lazy, up: true}, c.steps)
		if err != nil {
			return nil, err
		}
		defer up.close()
		bare, err := startRunning(ctx, how{lazy: lazy, disk: true}, c.steps)
		if err != nil {
			return nil, err
		}
		defer bare.close()
		join("inspan, "+up.how.mode(), 0, lazy, up.round)
		join("bare floor, "+up.how.mode(), 2, lazy, bare.floor)
	}
	p, err := startPostgres(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	} else {
		defer p.close()
		join("PostgreSQL, fsync", 1, false, p.round)
	}
	for _, l := range concurrency {
		out, err := interleave(ctx, contenders, c.rounds, l.runs, c.steps, l.inFlight)
		if err != nil {
			return nil, err
		}
		for i, o := range out {
			fmt.Printf("%4d in flight  %-18s %7.0f steps/s  %5.2f x\n", l.inFlight, o.name, o.perSecond, o.ratio)
			lines[i].Points = append(lines[i].Points, [2]float64{float64(l.inFlight), o.perSecond})
			lines[i].Ratios = append(lines[i].Ratios, o.ratio)
		}
	}
	return lines, nil
}

// cost runs one long run in each mode and returns the median time of the turns that end at each length: of the last
// fifth of them, so that a moment of noise on the machine does not decide.
func cost(ctx context.Context, c config) ([]chart.Line, error) {
	lines := []chart.Line{{Name: "inspan, always"}, {Name: "inspan, lazy", Dashed: true}}
	for i, lazy := range []bool{false, true} {
		took, err := turnsOf(ctx, how{lazy: lazy}, c.long)
		if err != nil {
			return nil, err
		}
		for _, n := range lengths {
			if n > c.long {
				break
			}
			ms := quantile(slices.Clone(took[n-max(5, n/5):min(n, len(took))]), 0.5)
			fmt.Printf("after %4d turns  %-15s %6.2f ms a turn\n", n, lines[i].Name, ms)
			lines[i].Points = append(lines[i].Points, [2]float64{float64(n), ms})
		}
	}
	return lines, nil
}

// turnsOf returns the times of the turns of one run.
func turnsOf(ctx context.Context, h how, turns int) ([]time.Duration, error) {
	b, err := newBed(ctx, h)
	if err != nil {
		return nil, err
	}
	defer b.close()
	if err := b.start(ctx, turns); err != nil {
		return nil, err
	}
	e, err := b.ends(ctx)
	if err != nil {
		return nil, err
	}
	if err := b.many(ctx, e, "length", 1, 1); err != nil {
		return nil, err
	}
	st, err := b.steps(ctx, []string{"length-0"})
	return st.took, err
}

// page writes performance.md.
func page(machine string, c config, byLoad, byLength []chart.Line) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Performance

Generated by `+"`go run ./test/bench -report docs`"+` on %s, %d rounds.

A machine shared with others makes absolute figures unreliable: all contenders take turns within a run of the benchmark,
and their ratios are what counts. **inspan** is what `+"`inspan up`"+
		` starts: a NATS server and five roles in one process with a
local store behind them, a model that answers at once, a tool that does nothing, steps of one turn with one call, which is
four events. **Bare floor** is as many guarded appends, one by one, and deliveries with handlers that do nothing else, to a
server over loopback TCP. **PostgreSQL** is a step checkpointer: two rows a step,
each in a transaction of its own, as many bytes as the events, 64 connections, default settings. It delivers nothing, decides
nothing and keeps no views, so it is a yardstick and not a rival. *always*: on disk before it is acknowledged. *lazy*: not.

![steps per second against runs under way at a time](performance-throughput.svg)

`, machine, c.rounds)
	b.WriteString("In brackets: the median of the ratios to the first row, of rounds side by side.\n\n")
	table(&b, "steps/s, runs at a time", byLoad, "%.0f")
	b.WriteString("\n![cost of a turn by the turns that came before it](performance-length.svg)\n\n")
	table(&b, "ms a turn, turns so far", byLength, "%.2f")
	b.WriteString(`
## Reading it

- With fsync the disk is the limit. A NATS server without replicas syncs each append alone; appends that queue up are
  sent as one batch, which is synced once and gathered in memory where the server is ours
  ([0009](adr/0009-appends-that-queue-up-share-a-batch.md)). PostgreSQL groups all commits that wait and writes to a log
  laid out beforehand: it needs fewer syncs, and cheaper ones. A run also writes its task, its timer, its row and its
  archive, each synced alone.
- Three servers group by themselves: where fsync and throughput both matter, use three replicas (` +
		"`go run ./test/bench -only W7`" + `).
- States are folded event by event and only what is new is read, whatever the length of a run. The conversation that the model is
  shown goes on from that of the turn before; where that is not in memory any more, it is put together anew.
- The log is read where it must be: when a task comes, when a process does not know a run yet, and to settle a doubt. Views and
  archives are made of what was heard, whose hashes say that it is the log.
- In ` + "`inspan up`" + ` a turn of four events is 13 messages between roles and server: 4 appends, 4 answers, 4 republished events and a live
  one. The process reads the log once for all its roles ([0026](adr/0026-a-process-reads-the-log-once.md)); with a durable consumer for
  each role it was 26. ` + "`internal/station.TestTraffic`" + ` holds the number.
- What is kept for speed, and how often garbage is collected, follow the memory that a process may use
  ([0094](adr/0094-what-is-kept-for-speed-follows-the-memory.md)). ` + "`GOGC`" + ` in the environment is left alone.

## Other workloads

` + "`go run ./test/bench`" + ` prints them: W1 many runs at a time, W2 one run at a time, W3 from an approval to the step it allows,
W4 memory of runs that wait, W6 one very long run, W7 three servers. ` + "`-pair`" + ` compares one thing with
the other way of it: appends sent alone, batches gathered on disk, all of inspan up; ` + "`-up`" +
		` measures inspan up alone, ` + "`-mode`" + ` one
way to sync; ` + "`-split`" + ` gives each role a connection and memory of its own, as five programs have.
`)
	return b.String()
}

func table(b *strings.Builder, corner string, lines []chart.Line, form string) {
	fmt.Fprintf(b, "| %s |", corner)
	for _, p := range lines[0].Points {
		fmt.Fprintf(b, " %s |", chart.Plain(p[0]))
	}
	b.WriteString("\n| --- |" + strings.Repeat(" ---: |", len(lines[0].Points)) + "\n")
	for _, l := range lines {
		fmt.Fprintf(b, "| %s |", l.Name)
		for i, p := range l.Points {
			fmt.Fprintf(b, " "+form, p[1])
			if i < len(l.Ratios) {
				fmt.Fprintf(b, " (%.2f x)", l.Ratios[i])
			}
			b.WriteString(" |")
		}
		b.WriteString("\n")
	}
}
