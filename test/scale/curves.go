package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/capacity"
	"github.com/inspan/inspan/pkg/events"
)

// table is what was measured and predicted, for the page and for a person.
func (c curves) table(m model) (string, error) {
	var b strings.Builder
	servers := "one server"
	if c.servers > 1 {
		servers = fmt.Sprintf("%d servers on one machine and one disk", c.servers)
	}
	fmt.Fprintf(&b, "Measured by `go run ./test/scale -out -servers %d` on %s, %s, fsync always: %d runs under way, %d windows of %s by turns, medians. It took %s.\n\n",
		c.servers, c.where, servers, c.runs, c.rounds, c.window, c.took.Round(time.Second))
	c.speedUp(&b)
	c.costs(&b, m)
	err := c.predictions(&b, m)
	return b.String(), err
}

// speedUp is the table of processes.
func (c curves) speedUp(b *strings.Builder) {
	b.WriteString("| steps/s, processes of the role | 1 | 2 | 3 | 4 |\n| --- | ---: | ---: | ---: | ---: |\n")
	for _, of := range []struct {
		role events.Service
		what string
	}{
		{events.Executor, fmt.Sprintf("executor, each %d turns at a time of %s", narrow, c.wait)},
		{events.Toolrunner, fmt.Sprintf("toolrunner, each %d calls at a time of %s", narrow, c.wait)},
	} {
		fmt.Fprintf(b, "| %s |", of.what)
		for n := range most {
			name := nameOf(of.role, n+1)
			fmt.Fprintf(b, " %.1f (%.2f x) |", c.perSecond(name), c.ratio(name, nameOf(of.role, 1), sample.perSecond))
		}
		b.WriteString("\n")
	}
	for _, role := range flat {
		name := costOf(role)
		fmt.Fprintf(b, "| %s, with %d such executors and %d runs | %.1f (1.00 x) | | | %.1f (%.2f x) |\n", role, most, costRuns, c.perSecond(base), c.perSecond(name),
			c.perSecond(name)/c.perSecond(base))
	}
	b.WriteString("\nIn brackets: relative to one process, for executor and toolrunner the median of the ratios of each round.\n\n")
}

// costs is the table of CPU.
func (c curves) costs(b *strings.Builder, m model) {
	b.WriteString("| role | CPU of a step | with 4 processes | of that each for every step | steps/s of one core | steps/s of 4 with a core each | no number carries more | CPU of an idle process |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	perStep := m.cpu()
	for _, role := range events.Services() {
		one, more := c.of(role)
		cpu := perStep[role]
		limit := "-"
		if cpu.Every > 0 {
			limit = fmt.Sprintf("%.0f", 1/cpu.Every)
		}
		fmt.Fprintf(b, "| %s | %.2f ms | %.2f ms (%.2f x) | %.2f ms | %.0f | %.0f | %s | %.1f ms/s |\n", role, 1000*one, 1000*more, more/one, 1000*cpu.Every,
			1/cpu.Of(1), 1/cpu.Of(most), limit, 1000*c.idle[string(role)])
	}
	fmt.Fprintf(b, "| each server | %.2f ms | | | %.0f | | | %.1f ms/s |\n", 1000*m.costs.Server, 1/m.costs.Server, 1000*c.idle[server]/float64(c.servers))
	wide := c.named(full)
	busy := c.median(full, func(s sample) float64 {
		all := 0.0
		for _, cpu := range s.cpu {
			all += cpu
		}
		return all / s.seconds
	})
	all := c.machine(m, layout{})
	fmt.Fprintf(b, "\nAt the load of this table one step takes %.2f ms of CPU in one process of each role, the servers and the load (%.2f ms) together. ",
		1000*all, 1000*m.load)
	fmt.Fprintf(b, "At a higher load events come several at a time, and a step takes less: with one process of each role, %d workers for turns and %d for calls, %.1f steps/s were measured with %.2f of %d cores busy, %.2f ms a step. ",
		wide.layout.workers(events.Executor), wide.layout.workers(events.Toolrunner), c.perSecond(full), busy, c.cores,
		1000*busy/c.perSecond(full))
	b.WriteString("A role whose work is CPU shows no curve on this machine: what 4 of them carry is computed from their CPU.\n\n")
}

// predictions is the table of what was computed and measured.
func (c curves) predictions(b *strings.Builder, m model) error {
	b.WriteString("| steps/s | predicted | measured | difference |\n| --- | ---: | ---: | ---: |\n")
	for _, t := range c.heldOut() {
		p, err := c.predict(m, t)
		if err != nil {
			return err
		}
		d := compared{said: p, measure: c.perSecond(t.name)}
		fmt.Fprintf(b, "| %s | %.1f | %.1f | %+.0f %% |\n", c.words(t), d.said, d.measure, 100*d.off())
	}
	b.WriteString("\nThe prediction is made of one executor, one toolrunner, the CPU above and everything wide. None of these rows is in it.\n")
	fmt.Fprintf(b, "\nFigures of this measurement, for internal/core/capacity/measured.go: %s\n", figures(m.costs))
	if shown := 1000 * m.log; shown >= 0.01 {
		fmt.Fprintf(b, "\nBesides its CPU a step takes the log of the servers %.2f ms, one step after the other.\n", shown)
	}
	return nil
}

// figures are costs as the source has them.
func figures(c capacity.Costs) string {
	cpu := func(c capacity.CPU) string { return fmt.Sprintf("{%.5f, %.5f}", c.Every, c.Shared) }
	return fmt.Sprintf("`Costs{Planner: CPU%s, Gatekeeper: CPU%s, Executor: CPU%s, Toolrunner: CPU%s, Persister: CPU%s, Server: %.5f, Turn: %.3f, Call: %.3f}`.",
		cpu(c.Planner), cpu(c.Gatekeeper), cpu(c.Executor), cpu(c.Toolrunner), cpu(c.Persister), c.Server, c.Turn, c.Call)
}

// words say what a trial has.
func (c curves) words(t trial) string {
	at := func(role events.Service) string {
		n := t.layout.processes(role)
		s := fmt.Sprintf("%d %s of %d", n, role, t.layout.workers(role))
		if n > 1 {
			s = fmt.Sprintf("%d %ss of %d", n, role, t.layout.workers(role))
		}
		return s
	}
	return fmt.Sprintf("%d runs, %s, %s, model %s", t.runs, at(events.Executor), at(events.Toolrunner), c.model(t.layout))
}
