//go:build slow

package mutants

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inspan/inspan/test/robust/report"
)

// mostPlays is by when the simulation must have caught a mutant.
const mostPlays = 3000

// TestRobust plants one bug after the other and counts the plays until it is noticed.
func TestRobust(t *testing.T) {
	first := os.Getenv("INSPAN_ROBUST_SEED")
	if first == "" {
		first = "1"
	}
	only := os.Getenv("INSPAN_MUTANT")
	seed, err := strconv.ParseUint(first, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	p := report.Part{Name: "mutants", Title: "Planted bugs", Seed: seed}
	nth, of := 1, 1
	if share := os.Getenv("INSPAN_MUTANTS"); share != "" {
		if _, err := fmt.Sscanf(share, "%d/%d", &nth, &of); err != nil || nth < 1 || nth > of {
			t.Fatalf("INSPAN_MUTANTS=%s: want a share as 2/6", share)
		}
		p.Name, p.Title = fmt.Sprintf("mutants-%d", nth), fmt.Sprintf("Planted bugs, share %s", share)
	}
	var all []Mutant
	for i, m := range Mutants() {
		if only == m.Name || only == "" && i%of == nth-1 {
			all = append(all, m)
		}
	}
	verdicts := make([]verdict, len(all))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.NumCPU(), len(all)) { // a play has one processor
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(all)); i = next.Add(1) - 1 {
				v := catch(t, all[i], first)
				verdicts[i] = v
				t.Logf("%-70s %s (%s)", all[i].Name, v.how, v.took.Round(time.Second))
			}
		})
	}
	workers.Wait()
	var plays []int
	caught := 0
	for i, v := range verdicts {
		p.Add(all[i].Name, v.how, "caught")
		if !v.caught {
			p.Violate("%s: %s", all[i].Name, v.how)
			t.Errorf("%s: %s", all[i].Name, v.how)
			continue
		}
		caught++
		if v.plays > 0 {
			plays = append(plays, v.plays)
		}
	}
	total := len(all)
	slices.Sort(plays)
	p.Add("mutants caught", fmt.Sprintf("%d of %d", caught, total), fmt.Sprintf("%d of %d", total, total))
	if len(plays) > 0 {
		p.Add("plays until caught, median and most", fmt.Sprintf("%d and %d", plays[len(plays)/2], plays[len(plays)-1]), "")
	}
	if err := p.Save(); err != nil {
		t.Error(err)
	}
}

var afterPlays = regexp.MustCompile(`(?m)seed (\d+) after (\d+) plays: (.*)$`)

// verdict is what became of a mutant. plays is how many it took, 0 where an ordinary test caught it.
type verdict struct {
	caught bool
	plays  int
	how    string
	took   time.Duration
}

// catch plants a bug and runs the tests that must notice it.
func catch(t *testing.T, m Mutant, first string) (v verdict) {
	began := time.Now()
	defer func() { v.took = time.Since(began) }()
	dir := t.TempDir()
	overlay, err := plant(t, m, dir)
	if err != nil {
		return verdict{how: err.Error()}
	}
	if len(m.By) > 0 {
		return byTests(m, overlay)
	}
	program := filepath.Join(dir, "sim.test")
	if out, err := command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", program, "./test/sim"); err != nil {
		return verdict{how: fmt.Sprintf("DOES NOT COMPILE: %v %.1000s", err, out)}
	}
	defer os.Remove(program) // forty of them fill a disk
	if out, err := command(program, "-test.run=Calm|SameSeed", "-test.failfast"); err != nil {
		found := regexp.MustCompile(`seed (\d+)`).FindStringSubmatch(out)
		if found == nil {
			return verdict{how: fmt.Sprintf("ENDED WITHOUT A VERDICT: %v %.1000s", err, out)}
		}
		n, _ := strconv.Atoi(found[1]) // digits
		return verdict{caught: true, plays: n, how: fmt.Sprintf("caught after %d plays without trouble", n)}
	}
	out, err := command(program, "-test.run=Hunt", "-seed", first, "-many", strconv.Itoa(mostPlays))
	if err == nil {
		return verdict{how: fmt.Sprintf("NOT CAUGHT in %d plays", mostPlays)}
	}
	found := afterPlays.FindStringSubmatch(out)
	if found == nil {
		return verdict{how: fmt.Sprintf("ENDED WITHOUT A VERDICT: %v %.1000s", err, out)}
	}
	n, _ := strconv.Atoi(found[2]) // digits
	return verdict{caught: true, plays: n, how: fmt.Sprintf("caught after %d plays: %.120s", n, found[3])}
}

// plant writes the changed file and the overlay that puts it in the place of the real one.
func plant(t *testing.T, m Mutant, dir string) (overlay string, err error) {
	overlay = filepath.Join(dir, "overlay.json")
	file := filepath.Join(dir, "planted.go")
	real, err := filepath.Abs(filepath.Join(root, m.File))
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(map[string]any{"Replace": map[string]string{real: file}})
	if err != nil {
		return "", err
	}
	text, err := planted(m)
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(file, []byte(text), 0o600), os.WriteFile(overlay, b, 0o600))
}

// byTests runs the ordinary tests that must notice a mutant.
func byTests(m Mutant, overlay string) verdict {
	out, err := command("go", append([]string{"test", "-count=1", "-vet=off", "-failfast", "-overlay", overlay}, m.By...)...)
	if err == nil {
		return verdict{how: "NOT CAUGHT by " + fmt.Sprint(m.By)}
	}
	if failed := regexp.MustCompile(`--- FAIL: (\S+)`).FindStringSubmatch(out); failed != nil {
		return verdict{caught: true, how: "caught by " + failed[1]}
	}
	return verdict{how: fmt.Sprintf("ENDED WITHOUT A VERDICT: %v %.1000s", err, out)}
}

func command(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOGC=400") // compilers and plays are short
	out, err := cmd.CombinedOutput()
	return string(out), err
}
