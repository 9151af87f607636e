package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Row is a requirement. Where it has clauses it is proven only when each of them is.
type Row struct {
	ID      string
	Clauses []Clause
}

// Clause is a part of a requirement that a test can show alone: LIFE-7a is clause a of LIFE-7.
type Clause struct {
	Letter byte
	Title  string
}

// Parse reads a list of requirements. A line is FAMILY-n, where n is a list of numbers and ranges such as 1..4,7. A
// line that begins with blanks is the next clause of the last one: its letter and a short title.
func Parse(text string) ([]Row, error) {
	var all []Row
	for i, line := range strings.Split(text, "\n") {
		var err error
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "" || strings.HasPrefix(trimmed, "#"):
		case line[0] == ' ' || line[0] == '\t':
			err = addClause(all, trimmed)
		default:
			all, err = addRows(all, trimmed)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	return all, nil
}

func addRows(all []Row, line string) ([]Row, error) {
	family, list, ok := strings.Cut(line, "-")
	if !ok {
		return nil, fmt.Errorf("%q is not FAMILY-1..4,7", line)
	}
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "..")
		if !isRange {
			to = from
		}
		a, err1 := strconv.Atoi(from)
		b, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || a < 1 || a > b || b > 999 {
			return nil, fmt.Errorf("%q is not a number or a rising range such as 1..4", part)
		}
		for n := a; n <= b; n++ {
			id := fmt.Sprintf("%s-%d", family, n)
			if slices.ContainsFunc(all, func(r Row) bool { return r.ID == id }) {
				return nil, fmt.Errorf("%s is there twice", id)
			}
			all = append(all, Row{ID: id})
		}
	}
	return all, nil
}

func addClause(all []Row, line string) error {
	letter, title, ok := strings.Cut(line, " ")
	if len(all) == 0 || !ok || len(letter) != 1 || strings.TrimSpace(title) == "" {
		return fmt.Errorf("%q is not a letter and a title below a requirement", line)
	}
	r := &all[len(all)-1]
	if want := byte('a' + len(r.Clauses)); letter[0] != want {
		return fmt.Errorf("the next clause of %s is %c, not %s", r.ID, want, letter)
	}
	r.Clauses = append(r.Clauses, Clause{letter[0], strings.TrimSpace(title)})
	return nil
}

// Doubles are the tests that show something against a stand-in for it: by prefixes of their full names, of which the
// longest counts; one that begins with ! is that of tests against the real thing.
type Doubles []string

// ParseDoubles reads a list of prefixes, one a line.
func ParseDoubles(text string) Doubles {
	var d Doubles
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			d = append(d, line)
		}
	}
	return d
}

// Has reports whether a test shows a double only.
func (d Doubles) Has(test string) bool {
	longest, double := 0, false
	for _, p := range d {
		prefix, real := strings.CutPrefix(p, "!")
		if strings.HasPrefix(test, prefix) && len(prefix) > longest {
			longest, double = len(prefix), !real
		}
	}
	return double
}
