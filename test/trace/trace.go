package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
)

// Results of a stream of tests, by requirement.
type Results struct {
	// Passed and Failed are full names of tests, in the order in which they ended, by requirement and by clause.
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

// module is the path that all names begin with, and none is shown with.
const module = "github.com/inspan/inspan/"

func (r *Results) add(e event, failedIn map[string]bool) {
	name := strings.TrimPrefix(e.Package, module) + "." + e.Test
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

var named = regexp.MustCompile(`([A-Z]+-[0-9]+)([a-z]*)`)

// Named returns the requirements and clauses in the name of a test, each once: GATE-4 names a requirement, GATE-4ac
// clauses a and c of it. GATE-10 does not name GATE-1, and xGATE-1, A-GATE-1 and GATE-1B name nothing. Go writes a
// space in a name as an underscore, and that ends a word too.
func Named(test string) []string {
	var ids []string
	for _, at := range named.FindAllStringSubmatchIndex(test, -1) {
		if at[0] > 0 && inWord(test[at[0]-1]) || at[1] < len(test) && inWord(test[at[1]]) {
			continue
		}
		id, letters := test[at[2]:at[3]], test[at[4]:at[5]]
		names := []string{id}
		if letters != "" {
			names = nil
			for _, l := range letters {
				names = append(names, id+string(l))
			}
		}
		for _, n := range names {
			if !slices.Contains(ids, n) {
				ids = append(ids, n)
			}
		}
	}
	return ids
}

func inWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-'
}
