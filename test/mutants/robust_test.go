//go:build slow

package mutants

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

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
	var plays []int
	caught, total := 0, 0
	for _, m := range Mutants() {
		if only != "" && only != m.Name {
			continue
		}
		total++
		n, how := catch(t, m, first)
		t.Logf("%-70s %s", m.Name, how)
		p.Add(m.Name, how, "caught")
		switch {
		case n < 0:
			p.Violate("not caught: %s", m.Name)
			t.Errorf("not caught: %s", m.Name)
		case n > 0:
			plays = append(plays, n)
			caught++
		default:
			caught++
		}
	}
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

// catch runs the tests of a mutant. It returns the number of plays it took, 0 where another test caught it, -1 where none
// did.
func catch(t *testing.T, m Mutant, first string) (plays int, how string) {
	t.Helper()
	dir := t.TempDir()
	overlay := filepath.Join(dir, "overlay.json")
	file := filepath.Join(dir, "planted.go")
	real, err := filepath.Abs(filepath.Join(root, m.File))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(map[string]any{"Replace": map[string]string{real: file}})
	if err != nil {
		t.Fatal(err)
	}
	for path, data := range map[string][]byte{file: []byte(planted(t, m)), overlay: b} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.By) > 0 {
		out, err := command("go", append([]string{"test", "-count=1", "-vet=off", "-failfast", "-overlay", overlay}, m.By...)...)
		if err == nil {
			return -1, "NOT CAUGHT by " + fmt.Sprint(m.By)
		}
		if failed := regexp.MustCompile(`--- FAIL: (\S+)`).FindStringSubmatch(out); failed != nil {
			return 0, "caught by " + failed[1]
		}
		return -1, fmt.Sprintf("%v: %.1000s", err, out)
	}
	program := filepath.Join(dir, "sim.test")
	if out, err := command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", program, "./test/sim"); err != nil {
		return -1, fmt.Sprintf("DOES NOT COMPILE: %v %.1000s", err, out)
	}
	if out, err := command(program, "-test.run=Calm|SameSeed", "-test.failfast"); err != nil {
		if found := regexp.MustCompile(`seed (\d+)`).FindStringSubmatch(out); found != nil {
			n, _ := strconv.Atoi(found[1]) // digits
			return n, fmt.Sprintf("caught after %d plays without trouble", n)
		}
		t.Fatalf("%s: %v\n%.3000s", m.Name, err, out)
	}
	out, err := command(program, "-test.run=Hunt", "-seed", first, "-many", strconv.Itoa(mostPlays))
	if err == nil {
		return -1, fmt.Sprintf("NOT CAUGHT in %d plays", mostPlays)
	}
	found := afterPlays.FindStringSubmatch(out)
	if found == nil {
		t.Fatalf("%s: %v\n%.3000s", m.Name, err, out)
	}
	n, _ := strconv.Atoi(found[2]) // digits
	return n, fmt.Sprintf("caught after %d plays: %.120s", n, found[3])
}

func command(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}
