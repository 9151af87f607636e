// Command sandboxbench puts every sandbox backend of this machine through the same examination, ways out and
// measurements, and writes one table of what it saw.
//
//	go run ./test/sandboxbench                  # all; docs/sandboxes-measured.md and boxes.json
//	go run ./test/sandboxbench -only bwrap,wasm # some; the page is left as it is
//
// Promises: each backend has a line: one that cannot run here is told with the reason, one that was run against a
// double says so. The exit code is 1 where a part of the exam failed, something got out or was left behind, or one of
// many sandboxes at a time failed; figures that miss an aim are shown and do not count as that, because they are also
// the machine's.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// whole is boxes.json.
type whole struct {
	When      string   `json:"when"`
	Machine   string   `json:"machine"`
	Took      string   `json:"took"`
	Turns     int      `json:"turns"` // bare, cold and warm commands of each backend, in turns
	Sandboxes []result `json:"boxes"`
}

// result is what was seen of one backend.
type result struct {
	Mode string `json:"mode"`
	// Against says what it was run against where that is not the real thing.
	Against string `json:"against,omitempty"`
	// NotRun is why it was not run at all.
	NotRun string `json:"notRun,omitempty"`
	// Load of the machine before it was measured: processes that wanted to run, on average of the last minute.
	Load string `json:"load,omitempty"`
	// Costs are the figures of sandboxtest.Costs.
	Costs  map[string]float64 `json:"costs,omitempty"`
	Aims   []verdict          `json:"aims,omitempty"`
	Exam   *exam              `json:"exam,omitempty"`
	Escape *escape            `json:"escape,omitempty"`
	// Failed are tests that failed, and what kept a part from running.
	Failed []string `json:"failed,omitempty"`
}

func main() {
	only := flag.String("only", "", "backends, by comma; empty means all")
	turns := flag.Int("turns", 20, "how often bare, cold and warm commands take turns")
	out := flag.String("out", "boxes.json", "where the figures go")
	doc := flag.String("doc", "docs/sandboxes-measured.md",
		"where the page goes when all backends were asked for; empty writes none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	w, err := programme(ctx, *only, *turns)
	if err == nil {
		err = save(w, *out, *doc, *only == "" && ctx.Err() == nil)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "boxes:", err)
		os.Exit(2)
	}
	for _, r := range w.Sandboxes {
		if broken(r) {
			os.Exit(1)
		}
	}
}

func programme(ctx context.Context, only string, turns int) (whole, error) {
	begin := time.Now()
	w := whole{When: begin.UTC().Format(time.DateOnly), Machine: machine(), Turns: turns}
	wanted := slices.Clone(backends)
	if only != "" {
		names := strings.Split(only, ",")
		for _, name := range names {
			if !slices.ContainsFunc(backends, func(b backend) bool { return b.mode == name }) {
				return w, fmt.Errorf("there is no backend %q: see the list in test/sandboxbench/backends.go", name)
			}
		}
		wanted = slices.DeleteFunc(wanted, func(b backend) bool { return !slices.Contains(names, b.mode) })
	}
	said := func(what string, i int, b backend) {
		fmt.Fprintf(os.Stderr, "%s  %s %d of %d: %s\n", time.Since(begin).Round(time.Second), what, i+1, len(wanted), b.mode)
	}
	// All are measured before any is examined: what an exam leaves the machine to do would be in the figures of the
	// next.
	for i, b := range wanted {
		said("costs", i, b)
		w.Sandboxes = append(w.Sandboxes, measure(ctx, b, turns))
	}
	for i, b := range wanted {
		said("exam", i, b)
		r := &w.Sandboxes[i]
		if r.NotRun == "" {
			examine(ctx, b, r)
		}
		fmt.Fprintf(os.Stderr, "   %s\n", line(*r))
	}
	w.Took = time.Since(begin).Round(time.Second).String()
	return w, nil
}

// measure takes the figures of a backend.
func measure(ctx context.Context, b backend, turns int) result {
	r := result{Mode: b.mode, Against: b.against}
	if b.apart != "" && (b.when == "" || os.Getenv(b.when) == "") {
		r.NotRun = b.apart
		return r
	}
	if b.turns > 0 {
		turns = min(turns, b.turns)
	}
	calm(ctx)
	r.Load = load()
	said, err := test(ctx, b, "-v", "-run", "^$", "-bench", "^BenchmarkCosts$", "-benchtime", fmt.Sprintf("%dx", turns))
	r.Costs = costs(said)
	if reason := untested(said); len(r.Costs) == 0 && reason != "" {
		r.NotRun = reason
		return r
	}
	if err != nil || len(r.Costs) == 0 {
		r.Failed = append(r.Failed, fmt.Sprintf("costs, by BenchmarkCosts of %s: %v: %s", b.dir(), err, tail(said)))
	}
	r.Aims = judge(b, r.Costs)
	return r
}

// examine runs the exam and the ways out of a backend.
func examine(ctx context.Context, b backend, r *result) {
	said, err := test(ctx, b, "-json", "-run", cmp.Or(b.tests, "^Test(Real)?(Exam|Escape|Swap)$"))
	seen := parse(said)
	r.Exam, r.Escape = seen.exam(), seen.escape()
	if r.Escape == nil {
		r.Escape = &escape{Why: b.isolation}
	}
	r.Failed = append(r.Failed, seen.failed...)
	if err != nil && len(seen.failed) == 0 {
		r.Failed = append(r.Failed, fmt.Sprintf("exam: %v: %s", err, tail(seen.rest)))
	}
}

// test runs tests of a package and returns all they said.
func test(ctx context.Context, b backend, args ...string) (string, error) {
	limited, cancel := context.WithTimeout(ctx, b.most)
	defer cancel()
	cmd := exec.CommandContext(limited, "go", append(append([]string{"test", "-count=1", "-timeout", b.most.String()},
		args...), b.dir())...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = 5 * time.Second // what a killed test left may hold its output
	// What is signalled with this program gets the signal itself.
	err := cmd.Run()
	if limited.Err() != nil {
		err = fmt.Errorf("it took more than %s: %w", b.most, limited.Err())
	}
	return said.String(), err
}

// broken reports whether a backend does not keep what it promises.
func broken(r result) bool {
	return len(r.Failed) > 0 || r.Escape != nil && (r.Escape.Out > 0 || r.Escape.Left > 0) ||
		r.Costs["together-failed"] > 0
}

func save(w whole, out, doc string, complete bool) error {
	text, err := json.MarshalIndent(w, "", "  ")
	if err == nil {
		err = os.WriteFile(out, append(text, '\n'), 0o644)
	}
	if err == nil && complete && doc != "" {
		err = os.WriteFile(doc, []byte(document(w)), 0o644)
	}
	return err
}

// What a measurement waits for: that the one before it has died away in the average of the last minute.
const (
	calmLoad = 1.0
	calmWait = 3 * time.Minute
)

// calm waits until the machine has little else to do, or has not got there within a time.
func calm(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, calmWait)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		if now, err := strconv.ParseFloat(load(), 64); err != nil || now < calmLoad {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// load is the first number of /proc/loadavg; empty where there is none.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

func machine() string {
	name := fmt.Sprintf("%s/%s, %d processors", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		name = fmt.Sprintf("Linux %s, %s", strings.TrimSpace(string(text)), name)
	}
	if os.Geteuid() == 0 {
		return name + ", as root"
	}
	return name + ", as another user than root"
}
