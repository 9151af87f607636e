package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/goccy/go-yaml"

	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
)

// Printer prints for people and programs.
type Printer struct {
	Out, Err io.Writer
	// JSON has data printed as JSON, UTC times in UTC.
	JSON, UTC bool
	// Form is what -o says: FormJSON and so on, empty for a table or text.
	Form string
	// Term is what Out is.
	Term terminal.Screen
	// Notices are lines that come up while something else is shown: whoever shows it shows them. Nil has none.
	Notices <-chan string
}

// PrintJSON prints a value. What is stored has its signs < > & escaped, as JSON in a page of HTML would; here they are
// as they are.
func (o *Printer) PrintJSON(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	text := events.Plain(b.Bytes())
	if o.Form == FormYAML {
		var err error
		if text, err = yaml.JSONToYAML(text); err != nil {
			return fmt.Errorf("%w: %w", errYAML, err)
		}
	}
	_, err := o.Out.Write(text)
	return err
}

// PrintJSONLine prints a value as one line, with its signs as they are.
func (o *Printer) PrintJSONLine(v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = fmt.Fprintf(o.Out, "%s\n", events.Plain(b))
	}
	return err
}

// Zone is the time zone of what is shown.
func (o *Printer) Zone() *time.Location {
	if o.UTC {
		return time.UTC
	}
	return time.Local
}

// Age is the time since t, in words.
func Age(t time.Time) string { return view.Since(t, time.Now()) }

// Paint colours text where the output takes colour.
func (o *Printer) Paint() terminal.Paint { return terminal.Paint(o.Term.Colour()) }

// What the head of a column begins with.
const (
	// rightAligned is for cells that are aligned to the right, onlyWide for a column that -o wide alone shows.
	rightAligned = ">"
	onlyWide     = "+"
)

// Table prints aligned columns; a head that begins with rightAligned is that of numbers. The last column gives way
// where a terminal is too narrow.
func (o *Printer) Table(heads []string, rows [][]string) { o.table(heads, rows, false) }

// table is Table; bare leaves the line of heads out.
func (o *Printer) table(heads []string, rows [][]string, bare bool) {
	width, _ := o.Term.Size()
	heads, rows = o.columns(heads, rows)
	p, cells := o.Paint(), make([]string, len(heads))
	widths, right := make([]int, len(heads)), make([]bool, len(heads))
	for i, head := range heads {
		head, right[i] = strings.CutPrefix(head, rightAligned)
		cells[i], widths[i] = p.Dim(head), len(head)
		for _, r := range rows {
			widths[i] = max(widths[i], ansi.StringWidth(r[i]))
		}
	}
	if !bare {
		rows = append([][]string{cells}, rows...)
	}
	for _, cells := range rows {
		var b strings.Builder
		for i, cell := range cells {
			gap := strings.Repeat(" ", widths[i]-ansi.StringWidth(cell))
			if right[i] {
				cell, gap = gap+cell, ""
			}
			b.WriteString(cell)
			if i < len(cells)-1 {
				b.WriteString(gap + "  ")
			}
		}
		text := strings.TrimRight(b.String(), " ")
		if o.Term.TTY && o.Form != FormWide {
			text = terminal.Fit(text, width)
		}
		fmt.Fprintln(o.Out, text)
	}
}

// columns leaves out those that -o wide alone shows, where it is not asked for.
func (o *Printer) columns(heads []string, rows [][]string) (shown []string, cells [][]string) {
	cells = make([][]string, len(rows))
	for i, head := range heads {
		head, wide := strings.CutPrefix(head, onlyWide)
		if wide && o.Form != FormWide {
			continue
		}
		shown = append(shown, head)
		for j := range rows {
			cells[j] = append(cells[j], rows[j][i])
		}
	}
	return shown, cells
}

// Pairs prints names and values, one a line.
func (o *Printer) Pairs(pairs [][2]string) {
	p, most := o.Paint(), 0
	for _, kv := range pairs {
		most = max(most, len(kv[0]))
	}
	for _, kv := range pairs {
		if kv[1] != "" {
			fmt.Fprintf(o.Out, "%s  %s\n", p.Dim(fmt.Sprintf("%-*s", most, kv[0])), kv[1])
		}
	}
}

// Wrapped breaks a text between words where a terminal is too narrow for it and what stands before it.
func (o *Printer) Wrapped(text string, before int) string {
	if !o.Term.TTY {
		return text
	}
	width, _ := o.Term.Size()
	return ansi.Wordwrap(text, max(20, width-before), "")
}

// OrEmpty has an empty list printed as [] in JSON.
func OrEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
