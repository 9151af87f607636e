// Command robust runs the whole programme that shows what the kernel withstands, and writes what it saw.
//
//	go run ./test/robust                  # all parts, robust.json and docs/robustness.md
//	go run ./test/robust -only sim,fuzz   # some parts; the document is left as it is
//	go run ./test/robust -again robust.json -out robust.json   # what an interrupted go has not done
//
// Promises: a part that breaks a promise, dies, or saves no report makes the exit code 1. Everything random takes its
// seed from -seed, and the report names it. Each part has a time after which it is ended and has failed.
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
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/inspan/inspan/test/robust/report"
)

// part is one test of the programme.
type part struct {
	name, pkg string
	// most is the time it may take.
	most time.Duration
	// run is the test, as go test -run wants it.
	run string
	// parallel: it tells no times, so it runs at the same time as the part before it.
	parallel bool
	// share is which of how many shares of the test this is, as in 1/6; empty is all of it.
	share string
}

// robust is the name of the test of most parts.
const robust = "^TestRobust$"

// plantedShares is in how many parts the planted bugs come, which take longest: what has ended is not run again.
const plantedShares = 6

var parts = append([]part{
	{name: "sim", pkg: "./test/sim", most: 2 * time.Hour, run: robust},
	{name: "honest", pkg: "./test/conformance", most: 15 * time.Minute, run: robust},
	{name: "faults", pkg: "./test/faults", most: 30 * time.Minute, run: "^(TestFaults|TestCheckers)$"},
	{name: "security", pkg: "./test/security", most: 15 * time.Minute, run: robust},
	{name: "recovery", pkg: "./test/recovery", most: 15 * time.Minute, run: "^TestRobustRecovery$", parallel: true},
	{name: "damage", pkg: "./test/recovery", most: 45 * time.Minute, run: "^TestRobustDamage$", parallel: true},
	{name: "outage", pkg: "./internal/station", most: 20 * time.Minute, run: robust, parallel: true},
	{name: "fuzz", pkg: "./test/fuzz", most: 25 * time.Minute, run: robust, parallel: true},
	{name: "exams", pkg: "./internal/sandbox/sandboxtest", most: 30 * time.Minute, run: "^TestRobustExams$",
		parallel: true},
	{name: "git", pkg: "./internal/git", most: 30 * time.Minute, run: "^TestRobustGit$", parallel: true},
	{name: "soak", pkg: "./test/soak", most: 20 * time.Minute, run: robust},
}, planted()...)

func planted() (all []part) {
	for i := range plantedShares {
		all = append(all, part{name: fmt.Sprintf("mutants-%d", i+1), pkg: "./test/mutants", most: time.Hour, run: robust,
			share: fmt.Sprintf("%d/%d", i+1, plantedShares)})
	}
	return all
}

// result is a part with how it went.
type result struct {
	report.Part
	Took   string `json:"took"`
	Failed string `json:"failed,omitempty"`
}

// whole is robust.json.
type whole struct {
	When    string `json:"when"`
	Machine string `json:"machine"`
	Commit  string `json:"commit"`
	Took    string `json:"took"`
	// Goes is how often the programme was started until all parts had come to their end; 0 means once.
	Goes   int      `json:"goes,omitempty"`
	Passed bool     `json:"passed"`
	Parts  []result `json:"parts"`
}

func main() {
	seed := flag.Uint64("seed", 1, "seed of everything random")
	only := flag.String("only", "", "parts to run, by comma; empty means all")
	out := flag.String("out", "robust.json", "where the report goes")
	again := flag.String("again", "",
		"the report of an earlier go at this commit with this seed: run only what did not come to its end there")
	doc := flag.String("doc", "docs/robustness.md", "where the table goes when all parts ran; empty writes none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	wanted, err := choose(*only)
	var before whole
	if err == nil && *again != "" {
		before, err = earlier(ctx, *again, *seed)
		wanted = slices.DeleteFunc(slices.Clone(wanted), before.held)
	}
	var w whole
	if err == nil {
		w, err = programme(ctx, *seed, wanted)
	}
	if err == nil && *again != "" {
		w, err = before.and(w)
	}
	if err == nil {
		err = save(w, *out, *doc, *only == "")
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "robust:", err)
		os.Exit(2)
	case !w.Passed:
		os.Exit(1)
	}
}

func programme(ctx context.Context, seed uint64, wanted []part) (whole, error) {
	dir, err := os.MkdirTemp("", "inspan-robust-")
	if err != nil {
		return whole{}, fmt.Errorf("folder of the reports: %w", err)
	}
	defer os.RemoveAll(dir)
	begin := time.Now()
	w := whole{When: begin.UTC().Format(time.DateOnly), Machine: machine(), Commit: commit(ctx), Passed: true}
	for done := 0; done < len(wanted); done = len(w.Parts) {
		next := done + 1
		for next < len(wanted) && wanted[next].parallel {
			next++
		}
		for i, p := range wanted[done:next] {
			fmt.Printf("%s  part %d of %d: %s (seed %d, at most %s)\n", time.Since(begin).Round(time.Second), done+i+1,
				len(wanted), p.name, seed, p.most)
		}
		for _, r := range atOnce(ctx, wanted[done:next], dir, seed) {
			w.Parts = append(w.Parts, r)
			w.Passed = w.Passed && r.Failed == "" && len(r.Violations) == 0
			show(r)
		}
		if ctx.Err() != nil {
			w.Passed = false
			break
		}
	}
	for _, p := range wanted[len(w.Parts):] {
		w.Parts = append(w.Parts, result{Part: report.Part{Name: p.name}, Failed: notRun + "the programme was interrupted"})
	}
	w.Took = time.Since(begin).Round(time.Second).String()
	fmt.Printf("%s  all promises held: %t\n", w.Took, w.Passed)
	return w, nil
}

func choose(only string) ([]part, error) {
	if only == "" {
		return parts, nil
	}
	var some []part
	for name := range strings.SplitSeq(only, ",") {
		before := len(some)
		for _, p := range parts {
			if p.name == name || strings.HasPrefix(p.name, name+"-") {
				some = append(some, p)
			}
		}
		if len(some) == before {
			return nil, fmt.Errorf("there is no part %q: go run ./test/robust -h", name)
		}
	}
	return some, nil
}

// atOnce runs parts at the same time.
func atOnce(ctx context.Context, some []part, dir string, seed uint64) []result {
	results := make([]result, len(some))
	var all sync.WaitGroup
	for i, p := range some {
		all.Go(func() { results[i] = run(ctx, p, dir, seed) })
	}
	all.Wait()
	return results
}

// run runs a part as a test and reads its report.
func run(ctx context.Context, p part, dir string, seed uint64) result {
	begin := time.Now()
	limited, cancel := context.WithTimeout(ctx, p.most)
	defer cancel()
	cmd := exec.CommandContext(limited, "go", "test", "-tags", "slow", "-count=1", "-v", "-timeout",
		(p.most + time.Minute).String(),
		"-run", p.run, p.pkg)
	cmd.Env = append(os.Environ(), report.Dir+"="+dir, fmt.Sprintf("INSPAN_ROBUST_SEED=%d", seed),
		"INSPAN_MUTANTS="+p.share)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	text, err := cmd.CombinedOutput()
	r := result{Took: time.Since(begin).Round(time.Second).String()}
	saved, loadErr := report.Load(dir, p.name)
	r.Part = saved
	r.Name = p.name
	switch {
	case ctx.Err() != nil && err != nil && len(saved.Violations) == 0:
		r.Failed = notRun + "the programme was interrupted"
	case limited.Err() != nil && ctx.Err() == nil:
		r.Failed = tookLonger + p.most.String()
	case err != nil && len(saved.Violations) == 0:
		r.Failed = fmt.Sprintf("%v: %s", err, tail(string(text), 2000))
	case loadErr != nil:
		r.Failed = loadErr.Error()
	}
	return r
}

// tail is the end of a text, at most n bytes.
func tail(s string, n int) string {
	if len(s) > n {
		s = "..." + strings.ToValidUTF8(s[len(s)-n:], "")
	}
	return s
}

func show(r result) {
	for _, row := range r.Rows {
		fmt.Printf("    %-72s %s%s\n", row.What, row.Saw, wanted(row, "   (want %s)"))
	}
	for _, v := range r.Violations {
		fmt.Println("    VIOLATION:", v)
	}
	for _, u := range r.Untried {
		fmt.Println("    NOT TRIED HERE:", u)
	}
	if r.Failed != "" {
		fmt.Println("    FAILED:", r.Failed)
	}
	fmt.Printf("    %s took %s\n", r.Name, r.Took)
}

func wanted(r report.Row, format string) string {
	if r.Want == "" {
		return ""
	}
	return fmt.Sprintf(format, r.Want)
}

func save(w whole, out, doc string, all bool) error {
	b, err := json.MarshalIndent(w, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	if err := os.WriteFile(out, append(b, '\n'), 0o644); err != nil {
		return err
	}
	if doc == "" || !all {
		return nil
	}
	return os.WriteFile(filepath.Clean(doc), []byte(document(w)), 0o644)
}
