package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// document is docs/robustness.md.
func document(w whole) string {
	var b strings.Builder
	b.WriteString("# What the kernel withstands\n\n")
	b.WriteString("Written by `make robust`, which runs every part again and exits 1 where a promise is broken. Each figure is what that run saw.\n\n")
	held := "All promises held."
	if !w.Passed {
		held = "**Not all promises held; see below.**"
	}
	fmt.Fprintf(&b, "%s Run on %s, %s, commit %s, in %s", held, w.When, w.Machine, w.Commit, w.Took)
	if w.Goes > 1 {
		fmt.Fprintf(&b, " and %d goes: what took too long in one was run again", w.Goes)
	}
	b.WriteString(".\n")
	for _, p := range w.Parts {
		title := p.Title
		if title == "" {
			title = p.Name
		}
		fmt.Fprintf(&b, "\n## %s\n\n`go run ./test/robust -only %s", title, p.Name)
		if p.Seed > 0 {
			fmt.Fprintf(&b, " -seed %d", p.Seed)
		}
		fmt.Fprintf(&b, "`, %s.\n\n", p.Took)
		if p.Failed != "" {
			fmt.Fprintf(&b, "**Failed:** %s\n\n", cell(firstLine(p.Failed)))
		}
		if len(p.Rows) > 0 {
			b.WriteString("| what | seen | promised |\n|---|---|---|\n")
		}
		for _, r := range p.Rows {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", cell(r.What), cell(r.Saw), cell(r.Want))
		}
		for _, v := range p.Violations {
			fmt.Fprintf(&b, "\n**Broken:** %s\n", cell(v))
		}
		for _, u := range p.Untried {
			fmt.Fprintf(&b, "\nNot tried on this machine: %s\n", cell(u))
		}
	}
	return b.String()
}

// firstLine is what a table has room for; the rest is in robust.json.
func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// cell keeps a text in one cell of a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(s)
}

// machine says in a few words what the programme ran on.
func machine() string {
	memory := "unknown memory"
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kb int
		if _, err := fmt.Sscanf(string(b), "MemTotal: %d kB", &kb); err == nil {
			memory = fmt.Sprintf("%d GiB", (kb+1<<19)>>20)
		}
	}
	return fmt.Sprintf("%d processors, %s, %s/%s, %s", runtime.NumCPU(), memory, runtime.GOOS, runtime.GOARCH,
		runtime.Version())
}

func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
