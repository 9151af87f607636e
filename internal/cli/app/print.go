package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

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
	text := escaped(events.Plain(b.Bytes()))
	if o.Form == FormYAML {
		var err error
		if text, err = yamlOf(text); err != nil {
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
		_, err = fmt.Fprintf(o.Out, "%s\n", escaped(events.Plain(b)))
	}
	return err
}

// escaped is JSON in which characters that a terminal would act on, and that JSON may leave as they are, are escaped.
func escaped(text []byte) []byte {
	var out []byte
	done := 0
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r >= 0x7f && acted(r) {
			out = fmt.Appendf(append(out, text[done:i]...), "\\u%04x", r)
			done = i + size
		}
		i += size
	}
	if done == 0 {
		return text
	}
	return append(out, text[done:]...)
}

// acted reports whether a terminal acts on a character.
func acted(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// yamlOf is JSON as YAML. Text with a character that a terminal would act on is quoted: a block of YAML has it raw.
func yamlOf(text []byte) ([]byte, error) {
	var v any
	if err := yaml.UnmarshalWithOptions(text, &v, yaml.UseOrderedMap()); err != nil {
		return nil, err
	}
	return yaml.Marshal(quoted(v))
}

// quotedText is text that YAML has in quotes on one line.
type quotedText string

// MarshalYAML quotes it; the escapes of JSON are some of YAML's.
func (q quotedText) MarshalYAML() ([]byte, error) {
	b, err := json.Marshal(string(q))
	return escaped(b), err
}

// quoted replaces text in a value that YAML would have raw.
func quoted(v any) any {
	switch v := v.(type) {
	case string:
		if strings.ContainsFunc(v, func(r rune) bool { return r != '\n' && acted(r) }) {
			return quotedText(v)
		}
	case yaml.MapSlice:
		for i := range v {
			if key, ok := v[i].Key.(string); ok {
				v[i].Key = strings.Map(view.Tame, key) // the encoder takes no quotes for a key
			}
			v[i].Value = quoted(v[i].Value)
		}
	case []any:
		for i := range v {
			v[i] = quoted(v[i])
		}
	}
	return v
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
