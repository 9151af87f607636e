package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/capacity"
)

// off is how far a figure may be from what it is compared with.
const off = 0.2

// parked is a station with so many runs at gates.
type parked struct {
	runs int
	// size is what the runs take on disk, rss what they take of the memory of a station that starts with them.
	size   sizes
	rss    int64
	at     looked
	filled time.Duration
}

// kind is a kind of runs that end.
type kind struct {
	runs, steps, text int
	size              sizes
}

// content is the text of a step: what the model and the tool wrote.
func (k kind) content() float64 { return float64(k.text + resultBytes) }

// perRun is what one takes on disk.
func (k kind) perRun() float64 { return float64(k.size.all) / float64(k.runs) }

// result is what was measured.
type result struct {
	machine string
	empty   looked
	waiting []parked
	// of are the kinds that the formula is made of, held the one that it is compared with.
	of   []kind
	held kind
	made capacity.Figures
}

func measure(ctx context.Context, o options, dir string) (r result, err error) {
	r.machine = fmt.Sprintf("%s, %d cores, %s", runtime.Version(), runtime.NumCPU(), time.Now().UTC().Format("2006-01-02"))
	o.steps, o.text = 1, 1024
	o.store = filepath.Join(dir, "empty")
	fmt.Fprintln(os.Stderr, "scale: an empty station")
	none := o
	none.runs, none.phase = 0, "park"
	var took time.Duration
	if err := child(ctx, none, &took); err != nil {
		return r, err
	}
	bare, err := sizeOf(o.store)
	if err != nil {
		return r, err
	}
	none.phase = "look"
	if err := child(ctx, none, &r.empty); err != nil {
		return r, err
	}
	for _, n := range []int{o.runs / 4, o.runs} {
		fmt.Fprintf(os.Stderr, "scale: %d runs that wait\n", n)
		p := parked{runs: n}
		of := o
		of.runs, of.store, of.phase = n, filepath.Join(dir, fmt.Sprintf("parked-%d", n)), "park"
		if err := child(ctx, of, &p.filled); err != nil {
			return r, err
		}
		size, err := sizeOf(of.store)
		if err != nil {
			return r, err
		}
		p.size = size.minus(bare)
		of.phase = "look"
		if err := child(ctx, of, &p.at); err != nil {
			return r, err
		}
		p.rss = p.at.RSS - r.empty.RSS
		r.waiting = append(r.waiting, p)
		fmt.Fprintf(os.Stderr, "scale: %+v\n", p)
		if err := errors.Join(os.RemoveAll(of.store), os.RemoveAll(of.store+"-backup")); err != nil {
			return r, err
		}
	}
	return r, r.ends(ctx, o, dir, bare)
}

// ends measures runs that end.
func (r *result) ends(ctx context.Context, o options, dir string, bare sizes) error {
	kinds := []kind{{runs: o.ended, steps: 1, text: 1024}, {runs: o.ended, steps: 12, text: 1024},
		{runs: o.ended, steps: 12, text: 8192}, {runs: o.ended * 3 / 2, steps: 30, text: 3000}}
	for i := range kinds {
		k := &kinds[i]
		fmt.Fprintf(os.Stderr, "scale: %d runs of %d steps that end\n", k.runs, k.steps)
		of := options{phase: "work", runs: k.runs, steps: k.steps, text: k.text, store: filepath.Join(dir, fmt.Sprintf("ended-%d", i))}
		var took time.Duration
		if err := child(ctx, of, &took); err != nil {
			return err
		}
		size, err := sizeOf(of.store)
		if err != nil {
			return err
		}
		k.size = size.minus(bare)
		fmt.Fprintf(os.Stderr, "scale: %+v\n", *k)
		if err := os.RemoveAll(of.store); err != nil {
			return err
		}
	}
	r.of, r.held = kinds[:3], kinds[3]
	r.made = r.fit()
	return nil
}

// fit makes the figures of the formula: of three kinds of runs, one has more steps than the first and one larger ones.
func (r result) fit() capacity.Figures {
	short, long, large := r.of[0], r.of[1], r.of[2]
	content := (large.perRun() - long.perRun()) / (float64(long.steps) * (large.content() - long.content()))
	step := (long.perRun()-short.perRun())/float64(long.steps-short.steps) - content*short.content()
	all := r.waiting[len(r.waiting)-1]
	return capacity.Figures{Run: short.perRun() - float64(short.steps)*(step+content*short.content()),
		Step: step, Content: content, LogShare: float64(long.size.log) / float64(long.size.all),
		Parked: float64(all.size.all) / float64(all.runs), ParkedRSS: float64(all.rss) / float64(all.runs)}
}

// compared is what the formula gives and what was measured.
type compared struct {
	what          string
	said, measure float64
}

func (c compared) off() float64 { return c.said/c.measure - 1 }

func (r result) compared() []compared {
	use := capacity.Measured()
	held := fmt.Sprintf("%d ended runs of %d steps with %d bytes of text, bytes a run", r.held.runs, r.held.steps, int(r.held.content()))
	few := r.waiting[0]
	return []compared{
		{held + ", by the figures of this measurement", r.made.Disk(float64(r.held.steps), r.held.content()), r.held.perRun()},
		{held + ", by those of `inspan space plan`", use.Disk(float64(r.held.steps), r.held.content()), r.held.perRun()},
		{fmt.Sprintf("%d runs at gates, bytes on disk a run, by those of `inspan space plan`", few.runs), use.Parked,
			float64(few.size.all) / float64(few.runs)},
	}
}

// check says what is too far from what was expected.
func (r result) check() error {
	var errs []error
	for _, c := range r.compared() {
		if c.off() > off || c.off() < -off {
			errs = append(errs, fmt.Errorf("%s: computed %.0f, measured %.0f: more than %.0f %% apart: set internal/core/capacity/measured.go to %+v",
				c.what, c.said, c.measure, 100*off, r.made))
		}
	}
	for _, p := range r.waiting {
		if p.at.Listed != p.runs || p.at.Waiting != p.runs || p.at.Rebuilt != p.runs {
			errs = append(errs, fmt.Errorf("of %d runs %d were listed, %d waited at a gate and %d were rebuilt", p.runs, p.at.Listed,
				p.at.Waiting, p.at.Rebuilt))
		}
	}
	return errors.Join(errs...)
}

// table is what was measured, for the page and for a person.
func (r result) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured by `go run ./test/scale -runs %d -ended %d` on %s. Times are of a machine that is shared with others.\n\n",
		r.waiting[len(r.waiting)-1].runs, r.of[0].runs, r.machine)
	few, all := r.waiting[0], r.waiting[1]
	kib := func(p parked, n int64) string { return fmt.Sprintf("%.1f KiB", float64(n)/float64(p.runs)/1024) }
	fmt.Fprintf(&b, "| runs that wait at gates | %d | %d | cost of one, second to first |\n| --- | ---: | ---: | ---: |\n", few.runs, all.runs)
	row := func(what string, of func(parked) string, value func(parked) float64) {
		ratio := (value(all) / float64(all.runs)) / (value(few) / float64(few.runs))
		fmt.Fprintf(&b, "| %s | %s | %s | %.2f |\n", what, of(few), of(all), ratio)
	}
	row("disk, a run", func(p parked) string { return kib(p, p.size.all) }, func(p parked) float64 { return float64(p.size.all) })
	row("of that the log", func(p parked) string { return kib(p, p.size.log) }, func(p parked) float64 { return float64(p.size.log) })
	row("resident memory of a station that starts with them, a run", func(p parked) string { return kib(p, p.rss) },
		func(p parked) float64 { return float64(p.rss) })
	row("a backup, a run", func(p parked) string { return kib(p, p.at.BackupBytes) }, func(p parked) float64 { return float64(p.at.BackupBytes) })
	for _, t := range []struct {
		what string
		of   func(looked) time.Duration
	}{{"start of the station", func(l looked) time.Duration { return l.Start }}, {"`inspan runs`", func(l looked) time.Duration { return l.List }},
		{"`inspan gates`", func(l looked) time.Duration { return l.Gates }}, {"rebuild of all views", func(l looked) time.Duration { return l.Rebuild }},
		{"backup", func(l looked) time.Duration { return l.Backup }}} {
		row(t.what, func(p parked) string { return t.of(p.at).Round(time.Millisecond).String() },
			func(p parked) float64 { return float64(t.of(p.at)) })
	}
	fmt.Fprintf(&b, "| approval of one gate | %s | %s | |\n", few.at.Approve.Round(time.Millisecond), all.at.Approve.Round(time.Millisecond))
	fmt.Fprintf(&b, "| goroutines, %d without runs | %d | %d | |\n\n", r.empty.Goroutines, few.at.Goroutines, all.at.Goroutines)
	fmt.Fprintf(&b, "An empty station in one process: %.0f MiB resident.\n\n", float64(r.empty.RSS)/(1<<20))
	b.WriteString("| ended runs | steps | text of a step | disk, a run | of that the log |\n| ---: | ---: | ---: | ---: | ---: |\n")
	for _, k := range append(r.of[:len(r.of):len(r.of)], r.held) {
		fmt.Fprintf(&b, "| %d | %d | %d B | %.1f KiB | %.0f %% |\n", k.runs, k.steps, int(k.content()), k.perRun()/1024,
			100*float64(k.size.log)/float64(k.size.all))
	}
	b.WriteString("\nThe first three rows make the formula, the last one is held out of it.\n\n| compared | computed | measured | difference |\n| --- | ---: | ---: | ---: |\n")
	for _, c := range r.compared() {
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %+.0f %% |\n", c.what, c.said, c.measure, 100*c.off())
	}
	m := r.made
	fmt.Fprintf(&b, "\nFigures of this measurement: a run %.0f bytes, a step %.0f, a byte of text %.2f, in the log %.2f of it; a run at a gate %.0f on disk and %.0f in memory.\n",
		m.Run, m.Step, m.Content, m.LogShare, m.Parked, m.ParkedRSS)
	return b.String()
}

// Markers of what is written into the page.
const (
	begins = "<!-- written by go run ./test/scale -write -->\n"
	ends   = "<!-- end -->\n"
)

// beginsOut is the marker of the curves.
func beginsOut(servers int) string {
	return fmt.Sprintf("<!-- written by go run ./test/scale -out -servers %d -write -->\n", servers)
}

// replace puts a text between the marker begins of a page and the end that follows it.
func replace(path, begins, text string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(b), begins)
	_, tail, closed := strings.Cut(rest, ends)
	if !ok || !closed {
		return fmt.Errorf("%s has no lines %q and %q", path, begins, ends)
	}
	return os.WriteFile(path, []byte(head+begins+"\n"+text+"\n"+ends+tail), 0o644)
}
