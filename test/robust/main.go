// Command robust runs the whole programme that shows what the kernel withstands, and writes what it saw.
//
//	go run ./test/robust                  # all parts, robust.json and docs/robustness.md
//	go run ./test/robust -only sim,fuzz   # some parts; the document is left as it is
//
// Promises: a part that breaks a promise, dies, or saves no report makes the exit code 1. Everything random takes its seed
// from -seed, and the report names it. Each part has a time after which it is ended and has failed.
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
}

// robust is the name of the test of most parts.
const robust = "^TestRobust$"

var parts = []part{
	{"sim", "./test/sim", 9 * time.Minute, robust},
	{"honest", "./test/honest", 3 * time.Minute, robust},
	{"mutants", "./test/mutants", 9 * time.Minute, robust},
	{"faults", "./test/faults", 12 * time.Minute, "^(TestFaults|TestCheckers)$"},
	{"security", "./test/security", 2 * time.Minute, robust},
	{"recovery", "./test/recovery", 2 * time.Minute, "^TestRobustRecovery$"},
	{"outage", "./internal/station", 6 * time.Minute, robust},
	{"soak", "./test/soak", 8 * time.Minute, robust},
	{"fuzz", "./test/fuzz", 7 * time.Minute, robust},
}

// result is a part with how it went.
type result struct {
	report.Part
	Took   string `json:"took"`
	Failed string `json:"failed,omitempty"`
}

// whole is robust.json.
type whole struct {
	When    string   `json:"when"`
	Machine string   `json:"machine"`
	Commit  string   `json:"commit"`
	Took    string   `json:"took"`
	Passed  bool     `json:"passed"`
	Parts   []result `json:"parts"`
}

func main() {
	seed := flag.Uint64("seed", 1, "seed of everything random")
	only := flag.String("only", "", "parts to run, by comma; empty means all")
	out := flag.String("out", "robust.json", "where the report goes")
	doc := flag.String("doc", "docs/robustness.md", "where the table goes when all parts ran; empty writes none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	w, err := programme(ctx, *seed, *only)
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

func programme(ctx context.Context, seed uint64, only string) (whole, error) {
	wanted, err := choose(only)
	if err != nil {
		return whole{}, err
	}
	dir, err := os.MkdirTemp("", "inspan-robust-")
	if err != nil {
		return whole{}, fmt.Errorf("folder of the reports: %w", err)
	}
	defer os.RemoveAll(dir)
	begin := time.Now()
	w := whole{When: begin.UTC().Format(time.DateOnly), Machine: machine(), Commit: commit(ctx), Passed: true}
	for i, p := range wanted {
		fmt.Printf("%s  part %d of %d: %s (seed %d, at most %s)\n", time.Since(begin).Round(time.Second), i+1, len(wanted), p.name, seed, p.most)
		r := run(ctx, p, dir, seed)
		w.Parts = append(w.Parts, r)
		w.Passed = w.Passed && r.Failed == "" && len(r.Violations) == 0
		tell(r)
		if ctx.Err() != nil {
			w.Passed = false
			break
		}
	}
	for _, p := range wanted[len(w.Parts):] {
		w.Parts = append(w.Parts, result{Part: report.Part{Name: p.name}, Failed: "not run: the programme was interrupted"})
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
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no part %q: go run ./test/robust -h", name)
		}
		some = append(some, parts[i])
	}
	return some, nil
}

// run runs a part as a test and reads its report.
func run(ctx context.Context, p part, dir string, seed uint64) result {
	begin := time.Now()
	limited, cancel := context.WithTimeout(ctx, p.most)
	defer cancel()
	cmd := exec.CommandContext(limited, "go", "test", "-tags", "slow", "-count=1", "-v", "-timeout", "30m", "-run", p.run, p.pkg)
	cmd.Env = append(os.Environ(), report.Dir+"="+dir, fmt.Sprintf("INSPAN_ROBUST_SEED=%d", seed))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	text, err := cmd.CombinedOutput()
	r := result{Took: time.Since(begin).Round(time.Second).String()}
	saved, loadErr := report.Load(dir, p.name)
	r.Part = saved
	r.Name = p.name
	switch {
	case limited.Err() != nil && ctx.Err() == nil:
		r.Failed = fmt.Sprintf("it took longer than %s", p.most)
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

func tell(r result) {
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
	fmt.Println("    took", r.Took)
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
