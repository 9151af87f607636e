package top

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/budgets"
	"github.com/inspan/inspan/internal/cli/halts"
	"github.com/inspan/inspan/internal/cli/runtree"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
)

// Widths of a terminal below which columns are left out.
const (
	narrow = 60
	broad  = 100
)

// drawing puts an overview into lines of a width; height 0 is as many as there are.
type drawing struct {
	app.Printer
	width, height int
}

// mostBudgets is how many budgets are shown; inspan budget list shows all.
const mostBudgets = 5

// budget draws how a budget stands; one that runs wait for stands out.
func (d drawing) budget(b budgets.Standing) string {
	if b.Waiting > 0 {
		return d.Paint().Yellow(view.Clip(b.Line(), 200))
	}
	return d.Paint().Dim(view.Clip(b.Line(), 200))
}

// lines draws an overview. trouble says why it is an old one.
func (d drawing) lines(o Overview, trouble string) []string {
	p := d.Paint()
	head := p.Green("●") + " " + p.Bold(o.Station)
	if trouble != "" {
		head = p.Red("●") + " " + p.Bold(o.Station) + "  " + p.Red(view.Clip(trouble, 200))
	} else if d.width >= narrow {
		durability, _, _ := strings.Cut(o.Durability, " (")
		head += p.Dim("  " + strings.Trim(durability+"  server "+o.Server, " "))
	}
	out := []string{terminal.Spread(head, o.At.Format("15:04:05"), d.width), d.today(o)}
	if o.Halted != nil {
		out = append(out, p.Red(halts.Line(*o.Halted, o.At)), p.Dim(halts.Hint(*o.Halted)))
	}
	for _, b := range o.Budgets[:min(len(o.Budgets), mostBudgets)] {
		out = append(out, d.budget(b))
	}
	out = append(append(out, ""), d.roles(o)...)
	for _, m := range o.Missing {
		out = append(out, p.Yellow("not known: "+m))
	}
	room := 1 << 20
	if d.height > 0 {
		room = max(d.height-len(out)-1, 4) // one line stays for the cursor
	}
	gates := len(o.Gates)
	if gates > 0 { // a third of what is left, and what the runs do not need
		gates = min(gates, max(2, room/3, room-len(o.Runs)-5))
	}
	below := 0
	if gates > 0 {
		below = gates + 2
	}
	out = append(out, d.runs(o, max(1, room-below-2))...)
	out = append(out, d.gates(o, gates)...)
	for i := range out {
		out[i] = terminal.Fit(out[i], d.width)
	}
	if d.height > 1 && len(out) > d.height-1 {
		out = out[:d.height-1]
	}
	return out
}

func (d drawing) today(o Overview) string {
	text := fmt.Sprintf("today: %s, %s", view.Plural(o.Today.Runs, "run"),
		cmp.Or(runtree.CostText(o.Today.Cost), "no cost"))
	if o.Today.Failed > 0 {
		text += fmt.Sprintf(", %d failed", o.Today.Failed)
	}
	if d.width >= narrow {
		text += fmt.Sprintf(", %s tokens", view.Count(o.Today.Tokens))
	}
	return text
}

// table draws a table into lines.
func (d drawing) table(heads []string, rows [][]string) []string {
	var b bytes.Buffer
	p := d.Printer
	p.Out = &b
	p.Table(heads, rows)
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}

func (d drawing) roles(o Overview) []string {
	var rows [][]string
	p := d.Paint()
	for _, r := range o.Roles {
		instances, waiting, open, lag := fmt.Sprint(r.Instances), "-", "-", "-"
		if r.Instances == 0 {
			instances = p.Red("0")
		}
		if r.queued {
			waiting, open = fmt.Sprint(r.Waiting), fmt.Sprint(r.Open)
		}
		if r.LagMS > 0 {
			lag = view.Span(time.Duration(r.LagMS) * time.Millisecond)
		}
		rows = append(rows, []string{r.Role, instances, waiting, open, lag})
	}
	return d.table([]string{"ROLE", ">UP", ">WAIT", ">OPEN", ">LAG"}, rows)
}

func (d drawing) runs(o Overview, room int) []string {
	if len(o.Runs) == 0 {
		return []string{"", d.Paint().Dim("No run is under way.")}
	}
	shown := o.Runs
	if len(shown) > room {
		shown = shown[:max(room-1, 1)]
	}
	var rows [][]string
	p := d.Paint()
	for _, r := range shown {
		phase, step := p.State(r.Phase), view.Clip(cmp.Or(r.Step, "-"), 16)
		if r.Phase == view.OnGate {
			phase = p.Yellow(r.Phase)
		}
		age := view.Since(r.Created, o.At)
		switch {
		case d.width < narrow:
			rows = append(rows, []string{view.Clip(r.Run, 16), phase, age})
		case d.width < broad:
			rows = append(rows, []string{view.Clip(r.Run, 20), view.Clip(r.Agent, 12), phase, step, age,
				cmp.Or(runtree.CostText(r.Cost), "-")})
		default:
			rows = append(rows, []string{view.Clip(r.Run, 30), view.Clip(r.Agent, 20), phase, step, fmt.Sprintf("%d/%d", r.Done,
				r.Steps), age, view.Count(r.Tokens), cmp.Or(runtree.CostText(r.Cost), "-")})
		}
	}
	heads := []string{"RUN", "AGENT", "PHASE", "STEP", ">DONE", ">AGE", ">TOKENS", ">COST"}
	switch {
	case d.width < narrow:
		heads = []string{"RUN", "PHASE", ">AGE"}
	case d.width < broad:
		heads = []string{"RUN", "AGENT", "PHASE", "STEP", ">AGE", ">COST"}
	}
	out := append([]string{""}, d.table(heads, rows)...)
	if more := len(o.Runs) - len(shown); more > 0 {
		out = append(out, p.Dim(fmt.Sprintf("… and %s under way", view.Plural(more, "more run"))))
	}
	return out
}

func (d drawing) gates(o Overview, room int) []string {
	if len(o.Gates) == 0 {
		return nil
	}
	p := d.Paint()
	out := []string{"", p.Yellow(view.Plural(len(o.Gates), "gate")+" waiting") + p.Dim("  inspan approve RUN/GATE")}
	for _, g := range o.Gates[:min(room, len(o.Gates))] {
		out = append(out, fmt.Sprintf("%s  %s  %s", g.Gate, view.Since(g.Since, o.At), p.Dim(view.Clip(g.What, 120))))
	}
	return out
}
