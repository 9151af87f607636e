// Command scale measures what runs cost that wait and that have ended: disk, memory, the start of a station with them,
// lists, an approval, a rebuild of all views and a backup.
//
//	go run ./test/scale                       10,000 runs that wait at gates; print the figures
//	go run ./test/scale -runs 100000          as many as a station promises to hold (hours on a small machine)
//	go run ./test/scale -write                write them into docs/capacity.md
//
// A station is one process with everything that inspan up has. Each figure comes from a process of its own, so memory
// is of a station that was started, not of one that grew. Bytes and counts are what counts: a machine shared with
// others makes times unreliable.
//
// Promises: the formula of internal/core/capacity is compared with runs that it was not made of, of other lengths and
// sizes; the command fails where they differ by more than a fifth, or where what it measures is that far from the
// figures that the formula has.
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
)

// options of a measurement.
type options struct {
	runs, ended int
	write       bool
	docs        string
	// phase, store, steps and text are for a process of its own: what it does, where, and the runs that it makes.
	phase, store string
	steps, text  int
}

func main() {
	var o options
	flag.IntVar(&o.runs, "runs", 10_000, "runs that wait at gates")
	flag.IntVar(&o.ended, "ended", 400, "runs of each kind that end, for the formula")
	flag.BoolVar(&o.write, "write", false, "write the figures into the page of -docs")
	flag.StringVar(&o.docs, "docs", "docs/capacity.md", "the page with the figures")
	flag.StringVar(&o.phase, "phase", "", "internal: what this process does: park, work or look")
	flag.StringVar(&o.store, "store", "", "internal: folder of the station")
	flag.IntVar(&o.steps, "steps", 1, "internal: turns with a call of each run")
	flag.IntVar(&o.text, "text", 1024, "internal: bytes of text of a turn")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.phase != "" {
		return phase(ctx, o)
	}
	dir, err := os.MkdirTemp("", "inspan-scale-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r, err := measure(ctx, o, dir)
	if err != nil {
		return err
	}
	text := r.table()
	fmt.Print(text)
	if o.write {
		if err := replace(o.docs, text); err != nil {
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
