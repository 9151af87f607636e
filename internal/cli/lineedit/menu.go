package lineedit

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/inspan/inspan/internal/core/view"
)

// Candidate is one text that can stand at the cursor, and what it is in a few words.
type Candidate struct{ Text, Note string }

// Completer returns what can stand in place of the bytes of text from from to the cursor at; none where nothing is
// completed there. A candidate that ends with a space needs more behind it, or nothing follows.
type Completer func(text string, at int) (from int, all []Candidate)

// maxMenu is how many candidates are shown at a time.
const maxMenu = 8

// menu is what is offered at the cursor. chosen is one more than the index of the one that is marked, 0 for none.
type menu struct {
	from   int
	all    []Candidate
	chosen int
	// closed is the text for which a person closed the menu.
	closed string
}

// offer looks for what can stand at the cursor.
func (e *editor) offer() {
	if e.complete == nil || e.search != nil {
		e.menu = menu{}
		return
	}
	closed := e.menu.closed
	if closed != "" && closed == e.text {
		return
	}
	e.menu = menu{}
	e.menu.from, e.menu.all = e.complete(e.text, e.at)
}

// choosing reports whether a key was one for the menu.
func (e *editor) choosing(key string) bool {
	m := &e.menu
	if key == "\t" && len(m.all) == 0 {
		m.closed = ""
		e.offer()
	}
	if len(m.all) == 0 {
		return key == "\t"
	}
	switch key {
	case "\t":
		if m.chosen == 0 && e.extend() {
			return true
		}
		m.chosen = m.chosen%len(m.all) + 1
	case "\x1b[Z": // Shift-Tab
		m.chosen--
		if m.chosen <= 0 {
			m.chosen = len(m.all)
		}
	case "\x1b[B", "\x1bOB", ctrl('n'):
		m.chosen = m.chosen%len(m.all) + 1
	case "\x1b[A", "\x1bOA", ctrl('p'):
		if m.chosen == 0 {
			return false
		}
		m.chosen--
	case "\r", "\n":
		if m.chosen == 0 {
			return false
		}
		e.put(m.all[m.chosen-1].Text)
	case "\x1b":
		*m = menu{closed: e.text}
	default:
		return false
	}
	return true
}

// extend writes the only candidate, or as much as all of them begin with; false where that is nothing.
func (e *editor) extend() bool {
	m := &e.menu
	if len(m.all) == 1 {
		e.put(m.all[0].Text)
		return true
	}
	common := m.all[0].Text
	for _, c := range m.all[1:] {
		for !strings.HasPrefix(c.Text, common) {
			common = common[:len(common)-1]
		}
	}
	common = strings.ToValidUTF8(common, "")
	if typed := e.text[m.from:e.at]; len(common) <= len(typed) || !strings.HasPrefix(common, typed) {
		return false
	}
	e.put(common)
	return true
}

// put writes a candidate in place of what was typed of it.
func (e *editor) put(text string) {
	from := e.menu.from
	e.text = e.text[:from] + text + e.text[e.at:]
	e.at = from + len(text)
	e.menu = menu{}
	e.offer()
	if len(e.menu.all) == 1 && e.menu.all[0].Text == e.text[e.menu.from:e.at] {
		e.menu = menu{closed: e.text} // it is there
	}
}

// rows shows the candidates about the marked one, in at most room rows.
func (m menu) rows(width, room int) []string {
	n := min(len(m.all), maxMenu, room)
	if n == 0 {
		return nil
	}
	top := min(max(0, m.chosen-n), len(m.all)-n)
	wide := 0
	for _, c := range m.all[top : top+n] {
		wide = max(wide, ansi.StringWidth(view.Clip(c.Text, width)))
	}
	wide = min(wide, max(width-6, 4))
	var out []string
	for i, c := range m.all[top : top+n] {
		mark := "  "
		if top+i+1 == m.chosen {
			mark = "❯ "
		}
		name := ansi.Truncate(view.Clip(c.Text, width), wide, "…")
		row := mark + name + strings.Repeat(" ", max(0, wide-ansi.StringWidth(name)))
		if c.Note != "" {
			row += "  " + view.Clip(c.Note, width)
		}
		out = append(out, ansi.Truncate(row, max(width-1, 4), "…"))
	}
	return out
}
