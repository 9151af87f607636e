package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Parse reads a list of requirements: lines of FAMILY-n, where n is a list of numbers and ranges such as 1..4,7.
func Parse(text string) ([]string, error) {
	var all []string
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		family, list, ok := strings.Cut(line, "-")
		if !ok {
			return nil, fmt.Errorf("line %d: %q is not FAMILY-1..4,7", i+1, line)
		}
		for _, part := range strings.Split(list, ",") {
			from, to, isRange := strings.Cut(part, "..")
			if !isRange {
				to = from
			}
			a, err1 := strconv.Atoi(from)
			b, err2 := strconv.Atoi(to)
			if err1 != nil || err2 != nil || a < 1 || a > b || b > 999 {
				return nil, fmt.Errorf("line %d: %q is not a number or a rising range such as 1..4", i+1, part)
			}
			for n := a; n <= b; n++ {
				id := fmt.Sprintf("%s-%d", family, n)
				if slices.Contains(all, id) {
					return nil, fmt.Errorf("line %d: %s is there twice", i+1, id)
				}
				all = append(all, id)
			}
		}
	}
	return all, nil
}

// Results of a stream of tests, by requirement.
type Results struct {
	// Passed and Failed are full names of tests, in the order in which they ended.
	Passed, Failed map[string][]string
	// Broken are packages that could not be built, or failed outside of any test.
	Broken []string
	// Tests is how many tests ended well, with or without a requirement in the name.
	Tests int
}

// event is a line of `go test -json`.
type event struct{ Action, Package, Test string }

// Read reads a stream of `go test -json` to its end. Lines that are no JSON are what tools print between; a stream
// without any test is an error, because it proves nothing about anything.
func Read(r io.Reader) (*Results, error) {
	res := &Results{Passed: map[string][]string{}, Failed: map[string][]string{}}
	failedIn := map[string]bool{}
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if len(line) > 0 && line[0] == '{' && json.Unmarshal(line, &e) == nil {
			res.add(e, failedIn)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if res.Tests == 0 && len(failedIn) == 0 && len(res.Broken) == 0 {
		return nil, errors.New("no test ended in this stream: make it with go test -json ./...")
	}
	return res, nil
}

func (r *Results) add(e event, failedIn map[string]bool) {
	name := strings.TrimPrefix(e.Package, "github.com/inspan/inspan/") + "." + e.Test
	switch {
	case e.Test == "" && e.Action == "fail" && !failedIn[e.Package]:
		r.Broken = append(r.Broken, e.Package)
	case e.Test == "":
	case e.Action == "pass":
		r.Tests++
		for _, id := range Named(e.Test) {
			r.Passed[id] = append(r.Passed[id], name)
		}
	case e.Action == "fail":
		failedIn[e.Package] = true
		for _, id := range Named(e.Test) {
			r.Failed[id] = append(r.Failed[id], name)
		}
	}
}

var named = regexp.MustCompile(`[A-Z]+-[0-9]+`)

// Named returns the requirements in the name of a test, each once. GATE-10 does not name GATE-1, and neither XGATE-1
// nor GATE-1x names anything. Go writes a space in a name as an underscore, and that ends a word too.
func Named(test string) []string {
	var ids []string
	for _, at := range named.FindAllStringIndex(test, -1) {
		if at[0] > 0 && inWord(test[at[0]-1]) || at[1] < len(test) && inWord(test[at[1]]) {
			continue
		}
		if id := test[at[0]:at[1]]; !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

func inWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-'
}

// Print writes a line for each requirement and a sum, and reports whether all of them are proven and no package broke.
func Print(w io.Writer, wanted []string, r *Results) bool {
	proven, failed, missing := 0, 0, 0
	for _, id := range wanted {
		passed, bad := r.Passed[id], r.Failed[id]
		switch {
		case len(bad) > 0:
			failed++
			fmt.Fprintf(w, "%-9s FAILED   %s\n", id, bad[len(bad)-1])
		case len(passed) == 0:
			missing++
			fmt.Fprintf(w, "%-9s MISSING\n", id)
		default:
			proven++
			fmt.Fprintf(w, "%-9s %7d  %s\n", id, len(passed), passed[0])
		}
	}
	for _, p := range r.Broken {
		fmt.Fprintf(w, "package   BROKEN   %s\n", p)
	}
	fmt.Fprintf(w, "%d of %d requirements proven, %d failed, %d missing; %d tests passed\n", proven, len(wanted), failed, missing, r.Tests)
	return proven == len(wanted) && len(r.Broken) == 0
}
