package colony

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/runtree"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/mailbox"
)

// Widths of a terminal below which columns are left out.
const (
	narrow = 60
	broad  = 100
)

// drawing puts a view into lines of a width; height 0 is as many as there are.
type drawing struct {
	app.Printer
	width, height int
}

func (d drawing) lines(v View, trouble string) []string {
	p := d.Paint()
	head := p.Green("●") + " " + p.Bold(v.Station)
	if trouble != "" {
		head = p.Red("●") + " " + p.Bold(v.Station) + "  " + p.Red(view.Clip(trouble, 200))
	}
	out := []string{terminal.Spread(head, v.At.Format("15:04:05"), d.width), d.sums(v), ""}
	for _, m := range v.Missing {
		out = append(out, p.Yellow("not known: "+m))
	}
	if len(v.Agents) == 0 {
		return append(out,
			p.Dim("No named agents. Register one with: inspan agents register PROJECT/ROLE/NAME --agent DEFINITION"))
	}
	shown := v.Agents
	if room := d.height - len(out) - 3; d.height > 0 && d.Term.TTY && len(shown) > max(room, 1) {
		shown = shown[:max(room, 1)]
	}
	out = append(out, d.table(shown, v)...)
	if more := len(v.Agents) - len(shown); more > 0 {
		out = append(out, p.Dim(fmt.Sprintf("… and %s", view.Plural(more, "more agent"))))
	}
	for i := range out {
		out[i] = terminal.Fit(out[i], d.width)
	}
	return out
}

// sums is the line that counts.
func (d drawing) sums(v View) string {
	states, gates, mail := map[string]int{}, 0, 0
	for _, m := range v.Agents {
		states[m.State]++
		gates, mail = gates+m.Gates, mail+m.Mail
	}
	parts := []string{view.Plural(len(v.Agents), "agent")}
	for _, s := range []string{mailbox.IsStuck, mailbox.IsDied, mailbox.IsWorking, mailbox.IsIdle, mailbox.IsStopped} {
		if states[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", states[s], s))
		}
	}
	if gates > 0 {
		parts = append(parts, view.Plural(gates, "gate"))
	}
	if d.width >= narrow {
		parts = append(parts, view.Plural(mail, "message"))
	}
	if d.width >= broad || v.Open+v.Bound > 0 && d.width >= narrow {
		parts = append(parts, fmt.Sprintf("work: %d open, %d held", v.Open, v.Bound))
	}
	return strings.Join(parts, ", ")
}

// table draws the agents.
func (d drawing) table(shown []Member, v View) []string {
	var rows [][]string
	p := d.Paint()
	for _, m := range shown {
		state, since := paint(p, m.State), view.Since(m.Since, v.At)
		count := func(n int) string {
			if n == 0 {
				return "-"
			}
			return fmt.Sprint(n)
		}
		gates := count(m.Gates)
		if m.Gates > 0 {
			gates = p.Yellow(gates)
		}
		doing := cmp.Or(m.Doing, m.Work, "-")
		switch {
		case d.width < narrow:
			rows = append(rows, []string{view.Clip(m.Agent, max(12, d.width-24)), state, since})
		case d.width < broad:
			rows = append(rows, []string{view.Clip(m.Agent, 26), state, since, count(m.Mail), gates,
				cmp.Or(runtree.CostText(m.Cost), "-"),
				view.Clip(doing, 120)})
		default:
			rows = append(rows, []string{view.Clip(m.Agent, 32), state, since, count(m.Mail), gates,
				cmp.Or(runtree.CostText(m.Cost), "-"),
				view.Count(m.Tokens), view.Clip(cmp.Or(m.Run, "-"), 14), view.Clip(doing, 160)})
		}
	}
	heads := []string{"AGENT", "STATE", ">SINCE", ">MAIL", ">GATES", ">COST", ">TOKENS", "RUN", "DOING"}
	switch {
	case d.width < narrow:
		heads = []string{"AGENT", "STATE", ">SINCE"}
	case d.width < broad:
		heads = []string{"AGENT", "STATE", ">SINCE", ">MAIL", ">GATES", ">COST", "DOING"}
	}
	var b bytes.Buffer
	printer := d.Printer
	printer.Out = &b
	printer.Table(heads, rows)
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}
