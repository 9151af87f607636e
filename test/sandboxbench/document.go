package main

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// line is what is told of a backend while it goes on.
func line(r result) string {
	if r.NotRun != "" {
		return "not run: " + r.NotRun
	}
	said := fmt.Sprintf("exam %s; ways out %s; cold %s, warm %s", examined(r), tried(r), cost(r, "cold"), cost(r, "warm"))
	if len(r.Failed) > 0 {
		said += "; FAILED: " + strings.Join(r.Failed, "; ")
	}
	return said
}

// document is docs/sandboxes-measured.md.
func document(w whole) string {
	var b strings.Builder
	b.WriteString("# Sandboxes, measured\n\n")
	b.WriteString("Written by `make boxes`, which takes every backend of the machine through the same exam, the same ways out and the same\n")
	b.WriteString("measurements, and exits 1 where one does not keep what it promises. What each enforces is in [sandboxes.md](sandboxes.md).\n\n")
	fmt.Fprintf(&b, "Run on %s, %s, in %s.\n", w.When, w.Machine, w.Took)
	b.WriteString("\n## Walls\n\n| mode | real | exam | ways out | bombs |\n|---|---|---|---|---|\n")
	for _, r := range w.Sandboxes {
		if r.NotRun != "" {
			fmt.Fprintf(&b, "| %s | not run: %s | | | |\n", r.Mode, cell(r.NotRun))
			continue
		}
		real := "real"
		if r.Against != "" {
			real = "double"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.Mode, real, examined(r), tried(r), bombs(r))
	}
	b.WriteString("\nThe exam counts its smallest parts, those of links that are put in the place of named paths among them. A way out is tried\n")
	b.WriteString("where it gets through without a sandbox; the others are closed on the machine. \"double\" is " +
		onDouble + ".\n")
	var notes []string
	for _, r := range w.Sandboxes {
		if r.Exam != nil {
			for _, why := range slices.Sorted(maps.Keys(r.Exam.Declared)) {
				notes = append(notes, fmt.Sprintf("%s: %s (parts: %d)", r.Mode, why, r.Exam.Declared[why]))
			}
		}
		for _, failed := range r.Failed {
			notes = append(notes, fmt.Sprintf("**%s failed:** %s", r.Mode, failed))
		}
	}
	if len(notes) > 0 {
		b.WriteString("\nWhat was left out, as declared, and what failed:\n\n")
		for _, note := range notes {
			b.WriteString("- " + cell(note) + "\n")
		}
	}
	fmt.Fprintf(&b, "\n## Costs\n\nMedians of %d turns: a bare `/bin/true`, the same as the first command of a new sandbox (cold), the end of that sandbox, and the\n", w.Turns)
	b.WriteString("same in a sandbox that is there (warm). \"times\" is how many times the bare command of the same turns takes: it tells more than\n")
	b.WriteString("milliseconds do, where the machine did other work; \"load\" is that before the measurement. \"processor time\" is the mean of the\n")
	b.WriteString("warm commands, as their backends count it.\n\n")
	if busy(w) {
		b.WriteString("**The machine was busy with other work while this was measured: milliseconds and aims say little.**\n\n")
	}
	b.WriteString("| mode | load | bare | cold | times | end | warm | times | processor time | 64 at a time: failed | took | memory each |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range w.Sandboxes {
		if len(r.Costs) == 0 {
			continue
		}
		memory := "unknown"
		if v := r.Costs["together-MiB-each"]; v > 0 {
			memory = fmt.Sprintf("%.1f MiB", v)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %.1f s | %s |\n", r.Mode, r.Load,
			cost(r, "bare"), cost(r, "cold"), times(r, "cold"),
			cost(r, "end"), cost(r, "warm"), times(r, "warm"), cpu(r), crowd(r), r.Costs["together-s"], memory)
	}
	b.WriteString("\n64 sandboxes have a command each at the same moment: none ends before all run. Memory is the median of what their backends\n")
	b.WriteString("count: of all processes where there is a control group, else of the largest.\n")
	b.WriteString("\n## Aims\n\n| mode | figure | saw | at most | met |\n|---|---|---|---|---|\n")
	for _, r := range w.Sandboxes {
		for _, v := range r.Aims {
			met := "yes"
			if !v.Met {
				met = "**no**"
			}
			if r.Against != "" {
				met += ", against a double"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.Mode, v.Figure, v.Saw, v.Want, met)
		}
	}
	return b.String()
}

func examined(r result) string {
	if r.Exam == nil {
		return "none"
	}
	said := fmt.Sprintf("%d passed", r.Exam.Passed)
	if r.Exam.Failed > 0 {
		said += fmt.Sprintf(", **%d failed**", r.Exam.Failed)
	}
	declared := 0
	for _, n := range r.Exam.Declared {
		declared += n
	}
	if declared > 0 {
		said += fmt.Sprintf(", %d declared", declared)
	}
	return said
}

func tried(r result) string {
	switch e := r.Escape; {
	case e == nil:
		return "none"
	case e.Why != "":
		return "none: " + e.Why
	case e.Tried+e.Closed == 0:
		return "none"
	default:
		said := fmt.Sprintf("%d tried, ", e.Tried)
		if e.Out > 0 {
			said += fmt.Sprintf("**%d got out**", e.Out)
		} else {
			said += "0 got out"
		}
		if e.Closed > 0 {
			said += fmt.Sprintf(" (%d closed anyway)", e.Closed)
		}
		return said
	}
}

func bombs(r result) string {
	switch e := r.Escape; {
	case e == nil || e.Why != "":
		return ""
	case e.Bombs == 0:
		return "none: " + cell(e.NoBombs)
	case e.Left > 0:
		return fmt.Sprintf("%d, **%d left something**", e.Bombs, e.Left)
	default:
		return fmt.Sprintf("%d, nothing left", e.Bombs)
	}
}

func cost(r result, name string) string {
	v, ok := r.Costs[name+"-ms"]
	if !ok {
		return "not measured"
	}
	return figure(name, v)
}

// crowd is how many of the sandboxes at a time failed, and of how many where they were not 64.
func crowd(r result) string {
	failed := fmt.Sprintf("%.0f", r.Costs["together-failed"])
	if n := r.Costs["together"]; n > 0 && n != sandboxtest.Together {
		failed += fmt.Sprintf(" of %.0f", n)
	}
	return failed
}

// cpu is the processor time of a command; a backend that does not know it says 0.
func cpu(r result) string {
	if r.Costs["warm-cpu-ms"] == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%.1f ms", r.Costs["warm-cpu-ms"])
}

// busy reports whether much more wanted to run, before something was measured, than the machine has processors.
func busy(w whole) bool {
	return slices.ContainsFunc(w.Sandboxes, func(r result) bool {
		n, err := strconv.ParseFloat(r.Load, 64)
		return err == nil && n > float64(3*runtime.NumCPU())
	})
}

func times(r result, name string) string { return figure(name+"-times", r.Costs[name+"-times"]) }

// cell keeps a text in one cell of a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(s)
}
