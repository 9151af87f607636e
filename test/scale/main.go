// Command scale measures what runs cost that wait and that have ended: disk, memory, the start of a station with them,
// lists, an approval, a rebuild of all views and a backup.
//
//	go run ./test/scale                       10,000 runs that wait at gates; print the figures
//	go run ./test/scale -runs 100000          as many as a station promises to hold (hours on a small machine)
//	go run ./test/scale -write                write them into docs/capacity.md
//	go run ./test/scale -out                  scale-out of each role, and CPU of a step by role; see below
//	go run ./test/scale -out -servers 3 -write
//
// A station is one process with everything that inspan up has. Each figure comes from a process of its own, so memory
// is of a station that was started, not of one that grew. Bytes and counts are what counts: a machine shared with
// others makes times unreliable.
//
// Promises: the formula of internal/core/capacity is compared with runs that it was not made of, of other lengths and
// sizes; the command fails where they differ by more than a fifth, or where what it measures is that far from the
// figures that the formula has.
//
// With -out the five services are processes of their own, built from cmd, with one NATS server or three. A thousand
// runs are under way while each role has 1 to 4 processes. A model and a tool that take their time make the executor
// and the toolrunner the limit, so that a small machine shows a curve; of the others it measures CPU. From one process
// of each it computes what other numbers of processes, of runs and another model give (internal/core/queueing), and
// fails where that is a fifth away from what it measures.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// options of a measurement.
type options struct {
	runs, ended int
	write       bool
	docs        string
	// phase, store, steps and text are for a process of its own: what it does, where, and the runs that it makes.
	phase, store string
	steps, text  int
	// out measures scale-out, with so many servers, rounds, time for each window, and in all.
	out             bool
	servers, rounds int
	window, within  time.Duration
	// wait is how long a turn and a call take.
	wait time.Duration
	// node and routes are for a server process: its number and the addresses of all.
	node   int
	routes string
}

func main() {
	var o options
	flag.IntVar(&o.runs, "runs", 10_000, "runs that wait at gates; with -out 1000 runs under way")
	flag.IntVar(&o.ended, "ended", 400, "runs of each kind that end, for the formula")
	flag.BoolVar(&o.write, "write", false, "write the figures into the page of -docs")
	flag.StringVar(&o.docs, "docs", "docs/capacity.md", "the page with the figures")
	flag.StringVar(&o.phase, "phase", "", "internal: what this process does: park, work or look")
	flag.StringVar(&o.store, "store", "", "internal: folder of the station")
	flag.IntVar(&o.steps, "steps", 1, "internal: turns with a call of each run")
	flag.IntVar(&o.text, "text", 1024, "internal: bytes of text of a turn")
	flag.BoolVar(&o.out, "out", false, "measure the scale-out of each role instead, with services as processes of their own (10 min)")
	flag.IntVar(&o.servers, "servers", 1, "with -out: NATS servers, 1 or 3")
	flag.IntVar(&o.rounds, "rounds", 3, "with -out: how often each trial is measured, by turns")
	flag.DurationVar(&o.window, "window", 6*time.Second, "with -out: how long each trial is measured in a round")
	flag.DurationVar(&o.within, "within", 11*time.Minute, "with -out: begin no round that would end later; there is always one")
	flag.DurationVar(&o.wait, "wait", 0, "with -out: how long a turn of the model and a call of the tool take; 0 is 400ms with one server and 800ms with three")
	flag.IntVar(&o.node, "node", 0, "internal: number of this server")
	flag.StringVar(&o.routes, "routes", "", "internal: addresses of the servers of a cluster")
	flag.Parse()
	if o.out && !given("runs") {
		o.runs = activeRuns
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

// activeRuns are under way with -out.
const activeRuns = 1000

// given reports whether a flag is on the command line.
func given(name string) (found bool) {
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

func run(ctx context.Context, o options) error {
	switch {
	case o.phase == "serve":
		return beServer(ctx, o, os.Stdout)
	case o.phase != "":
		return phase(ctx, o)
	}
	dir, err := os.MkdirTemp("", "inspan-scale-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.out {
		return out(ctx, o, dir, os.Stdout)
	}
	r, err := measure(ctx, o, dir)
	if err != nil {
		return err
	}
	text := r.table()
	fmt.Print(text)
	if o.write {
		if err := replace(o.docs, begins, text); err != nil {
			return err
		}
	}
	return r.check()
}

// child runs a phase in a process of its own and returns what it printed.
func child(ctx context.Context, o options, out any) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, "-phase", o.phase, "-store", o.store, "-runs", fmt.Sprint(o.runs), "-steps", fmt.Sprint(o.steps),
		"-text", fmt.Sprint(o.text))
	cmd.Stderr = os.Stderr
	b, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", o.phase, err)
	}
	return json.Unmarshal(b, out)
}

// sizes are the bytes on disk of a store: those of the log, and all.
type sizes struct{ log, all int64 }

// sizeOf measures a store that no process has open. Blocks of the disk count, not the lengths of sparse files.
func sizeOf(store string) (s sizes, err error) {
	err = filepath.WalkDir(store, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		n := info.Size()
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			n = min(n, st.Blocks*512)
		}
		s.all += n
		if in, err := filepath.Match("LOG_*", streamOf(store, path)); in || err != nil {
			s.log += n
		}
		return err
	})
	return s, err
}

// streamOf is the stream that a file of a store is of; empty for others.
func streamOf(store, path string) string {
	rel, err := filepath.Rel(store, path)
	if err != nil {
		return ""
	}
	for dir := filepath.Dir(rel); dir != "."; dir = filepath.Dir(dir) {
		if filepath.Base(filepath.Dir(dir)) == "streams" {
			return filepath.Base(dir)
		}
	}
	return ""
}

func (s sizes) minus(o sizes) sizes { return sizes{s.log - o.log, s.all - o.all} }
