package report

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Slow runs tests of the package in a folder with the build tag slow, by which they take all that make test has only a
// part of. It notes how many passed and failed, and what could not be tried, and gives their output. id is the
// requirement that they are about.
func (p *Part) Slow(ctx context.Context, id, dir, run string) string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		p.Violate("%s: %v", dir, err)
		return ""
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-tags", "slow", "-count=1", "-v", "-timeout", "20m", "-run", run, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), Dir+"=") // the report is that of this process
	text, err := cmd.CombinedOutput()
	out, name := string(text), filepath.Base(dir)
	passed, failed := strings.Count(out, "--- PASS: "), strings.Count(out, "--- FAIL: ")
	p.Add(id+" "+name+": tests and their parts that passed", passed, "")
	p.Add(id+" "+name+": that failed", failed, "0")
	for line := range strings.Lines(out) {
		_, why, ok := strings.Cut(strings.TrimSpace(line), "NOT TESTED: ")
		if why = name + ": " + why; ok && !slices.Contains(p.Untried, why) {
			p.Untried = append(p.Untried, why)
		}
	}
	switch {
	case err != nil:
		p.Violate("%s: %v: %s", name, err, out[max(0, len(out)-2000):])
	case passed == 0:
		p.Violate("%s: no test ran", name)
	}
	return out
}
