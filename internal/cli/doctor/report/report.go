// Package report has what inspan doctor finds, and prints it.
package report

import (
	"fmt"
	"strings"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/sandbox"
)

// Finding is one line of the doctor.
type Finding struct {
	What  string `json:"what"`
	OK    bool   `json:"ok"`
	State string `json:"state"`
	// Needed is true for what agents cannot do without: where it is not ok, the doctor ends with 1.
	Needed bool `json:"needed,omitempty"`
	// Hint says what to do where it is not ok.
	Hint string `json:"hint,omitempty"`
	// Isolation is what a sandbox enforces on this machine.
	Isolation []sandbox.Capability `json:"walls,omitempty"`
}

// Unmet is an error where something that is needed does not work.
func Unmet(found []Finding) error {
	var bad []string
	for _, f := range found {
		if f.Needed && !f.OK {
			bad = append(bad, f.What)
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return app.Exit(app.ExitFailed, fmt.Errorf("agents need what does not work here: %s", strings.Join(bad, ", ")))
}

// textAt is the column that texts begin at; on a terminal of fewer than narrow columns they begin on a line of their
// own, at narrowAt.
const (
	textAt   = 25
	narrowAt = 6
	narrow   = 60
)

// Print prints what was found, a line for each.
func Print(a *app.App, found []Finding) {
	p, at := a.Paint(), textAt
	if width, _ := a.Term.Size(); a.Term.TTY && width < narrow {
		at = narrowAt
	}
	for _, f := range found {
		mark := p.Green("ok  ")
		switch {
		case !f.OK && f.Needed:
			mark = p.Red("FAIL")
		case !f.OK:
			mark = p.Yellow("miss")
		}
		state := strings.Split(strings.TrimRight(a.Wrapped(f.State, at), "\n"), "\n")
		if at == narrowAt {
			fmt.Fprintf(a.Out, "%s  %s\n%*s%s\n", mark, f.What, at, "", state[0])
		} else {
			fmt.Fprintf(a.Out, "%s  %-18s %s\n", mark, f.What, state[0])
		}
		for _, line := range state[1:] {
			fmt.Fprintf(a.Out, "%*s%s\n", at, "", line)
		}
		if f.Hint != "" && !f.OK {
			for line := range strings.Lines(a.Wrapped(f.Hint, at)) {
				fmt.Fprintf(a.Out, "%*s%s\n", at, "", p.Dim(strings.TrimSuffix(line, "\n")))
			}
		}
		for _, said := range isolation(f.Isolation) {
			for line := range strings.Lines(a.Wrapped(said, at)) {
				fmt.Fprintf(a.Out, "%*s%s\n", at, "", p.Dim(strings.TrimSuffix(line, "\n")))
			}
		}
	}
}

// isolation says what a sandbox enforces, and for each wall that it does not, why.
func isolation(has []sandbox.Capability) []string {
	var yes, said []string
	for _, c := range has {
		if c.Enforced {
			yes = append(yes, string(c.Isolation))
		}
	}
	if len(yes) > 0 {
		said = append(said, "enforces "+strings.Join(yes, ", "))
	}
	no := map[string][]string{}
	var order []string
	for _, c := range has {
		if !c.Enforced {
			if no[c.Why] == nil {
				order = append(order, c.Why)
			}
			no[c.Why] = append(no[c.Why], string(c.Isolation))
		}
	}
	for _, why := range order {
		said = append(said, "not "+strings.Join(no[why], ", ")+": "+why)
	}
	return said
}
