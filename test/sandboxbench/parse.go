package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// exam is what became of the parts of the examination.
type exam struct {
	Passed int `json:"passed"`
	Failed int `json:"failed"`
	// Declared are parts that do not apply to this backend, by the reason that it declares, with their number.
	Declared map[string]int `json:"declared,omitempty"`
}

// escape is what became of the ways out and the bombs.
type escape struct {
	// Why there is no such list; then all else is 0.
	Why string `json:"why,omitempty"`
	// Tried ways out, of which Out got out; Closed are closed on this machine without any sandbox.
	Tried  int `json:"tried"`
	Out    int `json:"out"`
	Closed int `json:"closed"`
	// Bombs that were set off, of which Left left something behind.
	Bombs int `json:"bombs"`
	Left  int `json:"left"`
	// NoBombs is why there were none.
	NoBombs string `json:"noBombs,omitempty"`
}

// seen are the tests of one run.
type seen struct {
	end     map[string]string // pass, fail or skip, by test
	summary map[string]string
	failed  []string
	rest    string // what no test said
}

// parse reads what go test -json says.
func parse(text string) seen {
	s := seen{end: map[string]string{}, summary: map[string]string{}}
	for row := range strings.Lines(text) {
		var event struct{ Action, Test, Output string }
		if json.Unmarshal([]byte(row), &event) != nil {
			s.rest += row
			continue
		}
		switch event.Action {
		case "pass", "fail", "skip":
			if event.Test != "" {
				s.end[event.Test] = event.Action
			}
		case "output", "build-output":
			if event.Test == "" {
				s.rest += event.Output
			}
			s.summary[event.Test] += event.Output
		}
	}
	for _, name := range s.leaves("Test") {
		if s.end[name] == "fail" {
			s.failed = append(s.failed, name+": "+tail(s.summary[name]))
		}
	}
	return s
}

// leaves are the tests below a name that have none below them, in order.
func (s seen) leaves(below string) (list []string) {
	parents := map[string]bool{}
	for name := range s.end {
		for i, c := range name {
			if c == '/' {
				parents[name[:i]] = true
			}
		}
	}
	for name := range s.end {
		if strings.HasPrefix(name, below) && !parents[name] {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// exam counts the parts of the examination; nil where there was none.
func (s seen) exam() *exam {
	var e exam
	for _, name := range s.leaves("Test") {
		if strings.HasPrefix(name, "TestEscape") || strings.HasPrefix(name, "TestRealEscape") {
			continue
		}
		switch s.end[name] {
		case "pass":
			e.Passed++
		case "fail":
			e.Failed++
		case "skip":
			if e.Declared == nil {
				e.Declared = map[string]int{}
			}
			e.Declared[untested(s.summary[name])]++
		}
	}
	if e.Passed+e.Failed == 0 {
		return nil
	}
	return &e
}

// rows are those of the table that sandboxtest.Escape prints.
var rows = regexp.MustCompile(`(?m)^\s*\S+\s+.+?\s{1,}(held|ESCAPED|not tried: .*|ended, nothing left|LEFT SOMETHING)$`)

// escape counts the ways out; nil where there is no such list.
func (s seen) escape() *escape {
	var e escape
	table, bombs := "TestEscape", "TestEscape/bombs"
	if _, real := s.end["TestRealEscape"]; real {
		table, bombs = "TestRealEscape", "TestRealEscape/bombs"
	}
	for _, row := range rows.FindAllStringSubmatch(s.summary[table], -1) {
		switch {
		case row[1] == "held":
			e.Tried++
		case row[1] == "ESCAPED":
			e.Tried++
			e.Out++
		case strings.HasPrefix(row[1], "not tried"):
			e.Closed++
		case row[1] == "ended, nothing left":
			e.Bombs++
		default:
			e.Bombs++
			e.Left++
		}
	}
	if s.end[bombs] == "skip" {
		e.NoBombs = untested(s.summary[bombs])
	}
	if e.Tried+e.Closed+e.Bombs == 0 {
		return nil
	}
	return &e
}

var skipped = regexp.MustCompile(`NOT TESTED: (.*)`)

// untested is the reason why a test left itself out; empty where it did not.
func untested(said string) string {
	if m := skipped.FindStringSubmatch(said); m != nil {
		return strings.TrimSpace(m[1])
	}
	return ""
}

var metric = regexp.MustCompile(`([0-9.e+-]+) (\S+)`)

// costs reads the figures of BenchmarkCosts; nil where there are none.
func costs(said string) map[string]float64 {
	for row := range strings.Lines(said) {
		if !strings.HasPrefix(row, "BenchmarkCosts") || !strings.Contains(row, "ns/op") {
			continue
		}
		list := map[string]float64{}
		for _, m := range metric.FindAllStringSubmatch(row, -1) {
			if v, err := strconv.ParseFloat(m[1], 64); err == nil && m[2] != "ns/op" {
				list[m[2]] = v
			}
		}
		return list
	}
	return nil
}

// tail is the end of a text, on one line.
func tail(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 600 {
		text = "... " + strings.ToValidUTF8(text[len(text)-600:], "")
	}
	return text
}
