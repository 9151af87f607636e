//go:build slow

package fuzz

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/test/robust/report"
)

// TimeOf is the environment variable that says how long each target is fuzzed, as a Go duration.
const TimeOf = "INSPAN_FUZZ_TIME"

// defaultTime is how long each target is fuzzed, grace how much longer it may take to build and to end.
const (
	defaultTime = 8 * time.Second
	grace       = 3 * time.Minute
)

// TestRobust is the part "fuzz" of the robust programme: each target in turn, in a process of its own. It takes the
// time of a target times their number, and what building takes.
func TestRobust(t *testing.T) {
	each := defaultTime
	if given := os.Getenv(TimeOf); given != "" {
		var err error
		if each, err = time.ParseDuration(given); err != nil || each <= 0 {
			t.Fatalf("%s is %q: want a duration such as 20s", TimeOf, given)
		}
	}
	p := report.Part{Name: "fuzz", Title: "Fuzz tests of what reads strangers' bytes"}
	p.Add("time of each target", each, "")
	p.Add("seed", "none: the fuzzer of Go takes none; an input that fails is kept as a file", "")
	total := 0
	for _, g := range targets {
		t.Run("SAFE-12 "+g.dir+" "+g.name, func(t *testing.T) {
			saw, fault := g.run(t.Context(), each)
			p.Add(g.dir+" "+g.name+": "+g.reads, saw, "no finding")
			total += saw.execs
			t.Logf("%s", saw)
			if fault != nil {
				p.Violate("%s %s: %v", g.dir, g.name, fault)
				t.Error(fault)
			}
		})
	}
	p.Add("executions", total, "")
	if err := p.Save(); err != nil {
		t.Error(err)
	}
}

// seen is what the fuzzer said about a target.
type seen struct{ execs, interesting int }

func (s seen) String() string {
	return fmt.Sprintf("%d executions, %d inputs that reach something new", s.execs, s.interesting)
}

var (
	baseline = regexp.MustCompile(`gathering baseline coverage: (\d+)/`)
	progress = regexp.MustCompile(`execs: (\d+) .*new interesting: (\d+)`)
	written  = regexp.MustCompile(`Failing input written to (\S+)`)
)

// run fuzzes a target. The error is a finding, or says why it could not be fuzzed.
func (g target) run(ctx context.Context, each time.Duration) (seen, error) {
	ctx, cancel := context.WithTimeout(ctx, each+grace)
	defer cancel()
	dir := filepath.Join(root, g.dir)
	before, err := g.kept()
	if err != nil {
		return seen{}, err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-fuzz", "^"+g.name+"$", "-fuzztime", each.String(), "-fuzzminimizetime", "2s", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), report.Dir+"=") // the report is that of this process
	out, err := cmd.CombinedOutput()
	saw := count(string(out))
	switch {
	case err != nil:
		found := tail(string(out))
		if m := written.FindStringSubmatch(string(out)); m != nil {
			return saw, fmt.Errorf("%s\nkept as %s; again: cd %s && go test -run '%s/%s'", found, filepath.Join(g.dir, m[1]), g.dir, g.name, filepath.Base(m[1]))
		}
		return saw, fmt.Errorf("%w: %s", err, found)
	case saw.execs == 0:
		return saw, errors.New("nothing was executed: " + tail(string(out)))
	}
	after, err := g.kept()
	if err == nil && !slices.Equal(before, after) {
		err = fmt.Errorf("its corpus changed although nothing was found: %q, was %q", after, before)
	}
	return saw, err
}

// kept lists the inputs that are kept.
func (g target) kept() ([]string, error) {
	return filepath.Glob(filepath.Join(root, g.dir, "testdata", "fuzz", g.name, "*"))
}

// count reads the last progress line. Where the inputs kept from earlier took all the time, they are what was executed.
func count(out string) (s seen) {
	for _, m := range baseline.FindAllStringSubmatch(out, -1) {
		s.execs, _ = strconv.Atoi(m[1])
	}
	for _, m := range progress.FindAllStringSubmatch(out, -1) {
		s.execs, _ = strconv.Atoi(m[1]) // digits by the pattern
		s.interesting, _ = strconv.Atoi(m[2])
	}
	return s
}

// tail is the end of an output, without the progress, at most 2 KiB.
func tail(out string) string {
	var lines []string
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "fuzz: elapsed") {
			lines = append(lines, line)
		}
	}
	text := strings.TrimSpace(strings.Join(lines, ""))
	return strings.ToValidUTF8(text[max(0, len(text)-2<<10):], "")
}
