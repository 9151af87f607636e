package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// verdict is what a run of the tests says of a requirement or a clause.
type verdict int

const (
	missing verdict = iota
	failed
	double // shown by tests of doubles, and by no other
	proven
)

// table prints what was proven.
type table struct {
	w       io.Writer
	results *Results
	doubles Doubles
}

// Print writes a line for each requirement and each clause and a sum, and reports whether all of them are proven, no
// package broke and no test names what is in no list.
func Print(w io.Writer, wanted []Row, doubles Doubles, r *Results) bool {
	t := &table{w, r, doubles}
	count := map[verdict]int{}
	partly := 0
	for _, row := range wanted {
		v, part := t.row(row)
		if part {
			partly++
		} else {
			count[v]++
		}
	}
	strays := strays(wanted, r)
	for _, s := range strays {
		fmt.Fprintf(w, "%-9s UNKNOWN  %s\n", s[0], s[1])
	}
	for _, p := range r.Broken {
		fmt.Fprintf(w, "package   BROKEN   %s\n", p)
	}
	whole := count[proven] + count[double]
	fmt.Fprintf(w, "%d of %d requirements proven, %d of these with doubles only, %d partly, %d failed, %d missing; %d tests passed\n",
		whole, len(wanted), count[double], partly, count[failed], count[missing], r.Tests)
	return whole == len(wanted) && len(r.Broken) == 0 && len(strays) == 0
}

// row writes the lines of a requirement; partly means that some of its clauses are proven, and some are missing.
func (t *table) row(r Row) (v verdict, partly bool) {
	if len(r.Clauses) == 0 {
		return t.line(r.ID, ""), false
	}
	if bad := t.results.Failed[r.ID]; len(bad) > 0 { // it names the whole
		fmt.Fprintf(t.w, "%-9s FAILED   %s\n", r.ID, bad[len(bad)-1])
		return failed, false
	}
	count := map[verdict]int{}
	for _, c := range r.Clauses {
		count[t.look(r.ID+string(c.Letter))]++
	}
	shown := count[proven] + count[double]
	word := ""
	switch {
	case count[failed] > 0:
		v, word = failed, "FAILED"
	case shown == 0:
		v, word = missing, "MISSING"
	case shown < len(r.Clauses):
		partly, word = true, "PARTLY"
	case count[double] > 0:
		v, word = double, "DOUBLE"
	default:
		v, word = proven, "proven"
	}
	fmt.Fprintf(t.w, "%-9s %-7s  %d of %d clauses\n", r.ID, word, shown, len(r.Clauses))
	for _, c := range r.Clauses {
		t.line(r.ID+string(c.Letter), c.Title)
	}
	return v, partly
}

// line writes what there is of one id.
func (t *table) line(id, title string) verdict {
	passed, bad := t.results.Passed[id], t.results.Failed[id]
	v := t.look(id)
	switch v {
	case missing:
		fmt.Fprintln(t.w, strings.TrimRight(fmt.Sprintf("%-9s MISSING  %s", id, title), " "))
	case failed:
		fmt.Fprintf(t.w, "%-9s FAILED   %s\n", id, bad[len(bad)-1])
	case double:
		fmt.Fprintf(t.w, "%-9s DOUBLE   %s\n", id, passed[0])
	case proven:
		first := passed[slices.IndexFunc(passed, func(name string) bool { return !t.doubles.Has(name) })]
		fmt.Fprintf(t.w, "%-9s %7d  %s\n", id, len(passed), first)
	}
	return v
}

func (t *table) look(id string) verdict {
	passed, bad := t.results.Passed[id], t.results.Failed[id]
	switch {
	case len(bad) > 0:
		return failed
	case len(passed) == 0:
		return missing
	case !slices.ContainsFunc(passed, func(name string) bool { return !t.doubles.Has(name) }):
		return double
	}
	return proven
}

// strays returns what tests name of the families in the list and the list does not have, each with one test.
func strays(wanted []Row, r *Results) [][2]string {
	known, families := map[string]bool{}, map[string]bool{}
	for _, row := range wanted {
		family, _, _ := strings.Cut(row.ID, "-")
		families[family], known[row.ID] = true, true
		for _, c := range row.Clauses {
			known[row.ID+string(c.Letter)] = true
		}
	}
	var all [][2]string
	for _, tests := range []map[string][]string{r.Passed, r.Failed} {
		for id, names := range tests {
			family, _, _ := strings.Cut(id, "-")
			if families[family] && !known[id] {
				all = append(all, [2]string{id, names[0]})
			}
		}
	}
	slices.SortFunc(all, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	return all
}
