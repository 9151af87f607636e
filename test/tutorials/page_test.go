package tutorials

import (
	"fmt"
	"strings"
	"testing"
)

// page is a tutorial as steps.
type page struct {
	answers string // file of the model's answers; empty without a model
	slow    bool   // a minute of work: for make tutorials
	module  bool   // its folder is a Go module
	steps   []step
}

// step is one command, or one file that is written.
type step struct {
	line     int    // of the page, from 1
	terminal string // empty: the first
	command  string
	shows    []string
	file     string
	content  string
}

// parse reads a page of Markdown.
func parse(text string) (page, error) {
	var p page
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		if name, ok := strings.CutPrefix(lines[i], "<!-- answers "); ok {
			p.answers = strings.TrimSuffix(name, " -->")
			continue
		}
		p.slow = p.slow || lines[i] == "<!-- slow -->"
		p.module = p.module || lines[i] == "<!-- module -->"
		info, fenced := strings.CutPrefix(lines[i], "```")
		if !fenced {
			continue
		}
		begin := i + 1
		for i++; i < len(lines) && lines[i] != "```"; i++ {
		}
		if i == len(lines) {
			return page{}, fmt.Errorf("line %d: the block does not end", begin)
		}
		language, name, _ := strings.Cut(info, " ")
		switch {
		case language == "console":
			steps, err := commands(lines[begin:i], name, begin+1)
			if err != nil {
				return page{}, err
			}
			p.steps = append(p.steps, steps...)
		case name != "":
			p.steps = append(p.steps, step{line: begin, file: name, content: strings.Join(lines[begin:i], "\n") + "\n"})
		}
	}
	return p, nil
}

func commands(lines []string, terminal string, at int) ([]step, error) {
	var steps []step
	for i := 0; i < len(lines); i++ {
		command, ok := strings.CutPrefix(lines[i], "$ ")
		if !ok {
			if len(steps) == 0 {
				return nil, fmt.Errorf("line %d: output before a command", at+i)
			}
			last := &steps[len(steps)-1]
			last.shows = append(last.shows, lines[i])
			continue
		}
		s := step{line: at + i, terminal: terminal}
		for strings.HasSuffix(command, `\`) && i+1 < len(lines) {
			i++
			command += "\n" + lines[i]
		}
		s.command = command
		steps = append(steps, s)
	}
	return steps, nil
}

// matches compares what was printed with what a page shows: "" if it fits, else the first line that is missing or too much.
func matches(shows, got []string) string {
	if len(shows) == 0 {
		if len(got) > 0 {
			return "the page shows nothing, printed was " + got[0]
		}
		return ""
	}
	if shows[0] == "..." {
		if len(shows) == 1 {
			return ""
		}
		for from := range got {
			if fits(shows[1], got[from]) && matches(shows[1:], got[from:]) == "" {
				return ""
			}
		}
		return "after any lines, no place fits " + shows[1]
	}
	if len(got) == 0 {
		return "not printed: " + shows[0]
	}
	if !fits(shows[0], got[0]) {
		return "printed was " + got[0] + "\nthe page shows " + shows[0]
	}
	return matches(shows[1:], got[1:])
}

// fits compares a line with one of a page, where "..." stands for any text.
func fits(show, got string) bool {
	first, rest, more := strings.Cut(strings.TrimRight(show, " "), "...")
	got = strings.TrimRight(got, " ")
	if !more {
		return got == first
	}
	got, ok := strings.CutPrefix(got, first)
	if !ok {
		return false
	}
	parts := strings.Split(rest, "...")
	for _, part := range parts[:len(parts)-1] {
		if _, got, ok = strings.Cut(got, part); !ok {
			return false
		}
	}
	return strings.HasSuffix(got, parts[len(parts)-1])
}

func TestPage(t *testing.T) {
	t.Parallel()
	p, err := parse("# A\n<!-- answers a.yaml -->\n```go main.go\npackage main\n```\ntext\n```console\n$ one \\\n  two\nout\n$ three\n```\n```console up\n$ four\n```\n```sh\nno step\n```\n")
	if err != nil || p.answers != "a.yaml" || len(p.steps) != 4 {
		t.Fatalf("%+v, %v", p, err)
	}
	if s := p.steps[0]; s.file != "main.go" || s.content != "package main\n" {
		t.Errorf("%+v", s)
	}
	if s := p.steps[1]; s.command != "one \\\n  two" || len(s.shows) != 1 || s.line != 8 {
		t.Errorf("%+v", s)
	}
	if s := p.steps[3]; s.terminal != "up" || s.command != "four" {
		t.Errorf("%+v", s)
	}
	for _, bad := range []string{"```console\nout\n```\n", "```console\n$ one\n"} {
		if p, err := parse(bad); err == nil {
			t.Errorf("%q: %+v", bad, p)
		}
	}
}

func TestMatches(t *testing.T) {
	t.Parallel()
	got := []string{"Run r-1 has begun", "one", "two", "done in 3 s, 2 files"}
	for _, shows := range []string{"Run ... has begun|one|two|done in ... s, ... files", "...|done ...", "Run r-1 has begun|...|two|...", "...", "...|two|done in ..."} {
		if fault := matches(strings.Split(shows, "|"), got); fault != "" {
			t.Errorf("%s: %s", shows, fault)
		}
	}
	for _, shows := range []string{"", "Run ... has begun", "Run ... has begun|two|...", "...|three|...", "...|two", "Run ... has ended|...", "...|done in ... s, ... dirs", "...|...x"} {
		if fault := matches(strings.Split(shows, "|"), got); fault == "" {
			t.Errorf("%s: it matches", shows)
		}
	}
}
