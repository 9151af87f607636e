package lineedit

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
)

// editor edits one input at a terminal in raw mode. It knows the width of wide characters, takes pastes of any length
// and of several lines, and never shows what a terminal would act on.
type editor struct {
	prompt string
	// multiline has a line that ends with \ go on on the next one.
	multiline bool
	// hidden shows nothing of what is typed.
	hidden   bool
	history  *History
	complete Completer

	// text with the cursor at a byte, between two characters.
	text string
	at   int
	// pending is what came and is not understood yet; pasting is true inside of a paste.
	pending string
	pasting bool
	// back counts the inputs that were gone back to, draft is what was typed before that.
	back  int
	draft string
	// menu offers what can stand at the cursor; search looks for an earlier input, nil where none is looked for.
	menu   menu
	search *search
	// shown are the rows on the terminal, the cursor in row and col of them.
	shown    []string
	row, col int
	// wipe clears the whole screen with the next draw.
	wipe bool
}

// outcome of what was typed.
type outcome int

const (
	typing outcome = iota
	entered
	broken
)

// Sequences around a paste, where the terminal was asked for them.
const (
	pasteOn    = "\x1b[?2004h"
	pasteOff   = "\x1b[?2004l"
	pasteBegin = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// maxSequence is the longest escape sequence that a key may send.
const maxSequence = 32

// take uses bytes up to the end of an input; the rest stays pending for the next one.
func (e *editor) take(b []byte) outcome {
	e.pending += string(b)
	for e.pending != "" {
		if e.pasting {
			if !e.paste() {
				return typing
			}
			continue
		}
		key, n := keyOf(e.pending)
		if n == 0 {
			return typing // the rest of it is on its way
		}
		e.pending = e.pending[n:]
		if key == pasteBegin {
			e.pasting = true
			continue
		}
		if o := e.key(key); o != typing {
			return o
		}
	}
	return typing
}

// key does what a key says: in a search, in the menu, else in the text.
func (e *editor) key(key string) outcome {
	if e.search != nil && e.searching(key) || e.choosing(key) {
		return typing
	}
	o := e.press(key)
	if o == typing {
		e.offer()
	} else {
		e.menu = menu{}
	}
	return o
}

// paste takes what has come of one, and reports whether it has ended.
func (e *editor) paste() bool {
	text, rest, ended := strings.Cut(e.pending, pasteEnd)
	if !ended {
		keep := 0 // what may be the beginning of the end, or half a character
		for n := min(len(pasteEnd)-1, len(text)); n > 0 && keep == 0; n-- {
			if strings.HasPrefix(pasteEnd, text[len(text)-n:]) {
				keep = n
			}
		}
		for n := 1; n < utf8.UTFMax && n <= len(text) && keep == 0; n++ {
			if c := text[len(text)-n:]; utf8.RuneStart(c[0]) && !utf8.FullRuneInString(c) {
				keep = n
			}
		}
		if strings.HasSuffix(text, "\r") {
			keep = 1 // of \r\n, maybe
		}
		text, rest = text[:len(text)-keep], text[len(text)-keep:]
	}
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.ToValidUTF8(text, "\uFFFD"))
	e.insert(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text))
	e.pending, e.pasting = rest, !ended
	return ended
}

// keyOf returns the first key of what was typed, an escape sequence in one piece, and its length; 0 where it is not
// whole.
func keyOf(s string) (key string, n int) {
	switch {
	case s[0] != '\x1b':
		if !utf8.FullRuneInString(s) {
			return "", 0
		}
		_, n = utf8.DecodeRuneInString(s)
		return s[:n], n
	case len(s) == 1:
		return "", 0
	case s[1] == '[':
		for i := 2; i < len(s) && i < maxSequence; i++ {
			if s[i] >= '@' && s[i] <= '~' {
				return s[:i+1], i + 1
			}
		}
		if len(s) < maxSequence {
			return "", 0
		}
		return s[:2], 2 // no key
	case s[1] == 'O':
		if len(s) == 2 {
			return "", 0
		}
		return s[:3], 3
	case s[1] == '\x1b':
		return s[:1], 1
	}
	if !utf8.FullRuneInString(s[1:]) {
		return "", 0
	}
	_, n = utf8.DecodeRuneInString(s[1:])
	return s[:n+1], n + 1
}

// ctrl is what a key gives together with Ctrl.
func ctrl(letter byte) string { return string(rune(letter - 'a' + 1)) }

// press does what a key says.
func (e *editor) press(key string) outcome {
	switch key {
	case "\r", "\n":
		if e.multiline && e.at == len(e.text) && strings.HasSuffix(e.text, `\`) {
			e.text = strings.TrimSuffix(e.text, `\`)
			e.at = len(e.text)
			e.insert("\n")
			return typing
		}
		return entered
	case "\x1b\r", "\x1b\n":
		if e.multiline {
			e.insert("\n")
		}
	case ctrl('c'):
		if e.text == "" || !e.multiline {
			return broken
		}
		e.text, e.at, e.back = "", 0, 0
	case ctrl('d'):
		if e.text == "" {
			return broken
		}
		e.cut(e.at, e.after(e.at))
	case ctrl('r'):
		if e.multiline && e.history != nil {
			e.search = &search{text: e.text, at: e.at}
		}
	case "\x1b[A", "\x1bOA", ctrl('p'):
		if !e.lineUp() {
			e.recall(e.back + 1)
		}
	case "\x1b[B", "\x1bOB", ctrl('n'):
		if !e.lineDown() {
			e.recall(e.back - 1)
		}
	default:
		if !e.move(key) && !e.erase(key) {
			if r, n := utf8.DecodeRuneInString(key); n == len(key) && !unicode.IsControl(r) && (r != utf8.RuneError || n > 1) {
				e.insert(key)
			}
		}
	}
	return typing
}

// move moves the cursor; false where the key is for something else.
func (e *editor) move(key string) bool {
	switch key {
	case "\x1b[D", "\x1bOD", ctrl('b'):
		e.at = e.before(e.at)
	case "\x1b[C", "\x1bOC", ctrl('f'):
		e.at = e.after(e.at)
	case "\x1b[H", "\x1bOH", "\x1b[1~", "\x1b[7~", ctrl('a'):
		e.at = strings.LastIndexByte(e.text[:e.at], '\n') + 1
	case "\x1b[F", "\x1bOF", "\x1b[4~", "\x1b[8~", ctrl('e'):
		e.at = e.lineEnd()
	case "\x1b[1;5D", "\x1b[1;3D", "\x1bb":
		e.at = e.wordBefore()
	case "\x1b[1;5C", "\x1b[1;3C", "\x1bf":
		e.at = e.wordAfter()
	default:
		return false
	}
	return true
}

// erase takes something away; false where the key is for something else.
func (e *editor) erase(key string) bool {
	switch key {
	case "\x7f", "\b":
		e.cut(e.before(e.at), e.at)
	case "\x1b[3~":
		e.cut(e.at, e.after(e.at))
	case ctrl('u'):
		e.cut(strings.LastIndexByte(e.text[:e.at], '\n')+1, e.at)
	case ctrl('k'):
		e.cut(e.at, e.lineEnd())
	case ctrl('w'), "\x1b\x7f", "\x1b\b":
		e.cut(e.wordBefore(), e.at)
	case "\x1bd", "\x1b[3;5~":
		e.cut(e.at, e.wordAfter())
	case ctrl('l'):
		e.wipe = true
	default:
		return false
	}
	return true
}

func (e *editor) insert(s string) {
	e.text = e.text[:e.at] + s + e.text[e.at:]
	e.at += len(s)
}

func (e *editor) cut(from, to int) { e.text, e.at = e.text[:from]+e.text[to:], from }

// before and after are the places of the cursor one character away, as people count them.
func (e *editor) before(at int) int {
	begin := strings.LastIndexByte(e.text[:max(at-1, 0)], '\n') + 1
	last := begin
	for i := begin; i < at; {
		last = i
		i += cluster(e.text[i:])
	}
	return last
}

func (e *editor) after(at int) int {
	if at == len(e.text) {
		return at
	}
	return at + cluster(e.text[at:])
}

// cluster is the length in bytes of the first character.
func cluster(s string) int {
	c, _ := ansi.FirstGraphemeCluster(s, ansi.GraphemeWidth)
	return max(len(c), 1)
}

func (e *editor) lineEnd() int {
	if n := strings.IndexByte(e.text[e.at:], '\n'); n >= 0 {
		return e.at + n
	}
	return len(e.text)
}

// lineUp and lineDown move the cursor within an input of several lines; false where there is no such line.
func (e *editor) lineUp() bool {
	begin := strings.LastIndexByte(e.text[:e.at], '\n') + 1
	if begin == 0 {
		return false
	}
	cells := ansi.StringWidth(e.text[begin:e.at])
	e.at = column(e.text, strings.LastIndexByte(e.text[:begin-1], '\n')+1, cells)
	return true
}

func (e *editor) lineDown() bool {
	end := e.lineEnd()
	if end == len(e.text) {
		return false
	}
	cells := ansi.StringWidth(e.text[strings.LastIndexByte(e.text[:e.at], '\n')+1 : e.at])
	e.at = column(e.text, end+1, cells)
	return true
}

// column is the place in the line that begins at a byte which is so many cells behind it, or the end of the line.
func column(text string, begin, cells int) int {
	at := begin
	for at < len(text) && text[at] != '\n' {
		next := at + cluster(text[at:])
		if ansi.StringWidth(text[begin:next]) > cells {
			break
		}
		at = next
	}
	return at
}

func (e *editor) wordBefore() int {
	s := strings.TrimRightFunc(e.text[:e.at], unicode.IsSpace)
	return strings.LastIndexFunc(s, unicode.IsSpace) + 1
}

func (e *editor) wordAfter() int {
	rest := strings.TrimLeftFunc(e.text[e.at:], unicode.IsSpace)
	if n := strings.IndexFunc(rest, unicode.IsSpace); n >= 0 {
		rest = rest[n:]
	} else {
		rest = ""
	}
	return len(e.text) - len(rest)
}

// recall shows an earlier input, or at 0 what was being typed.
func (e *editor) recall(back int) {
	if e.history == nil || !e.multiline || back < 0 || back > e.history.Len() {
		return
	}
	if e.back == 0 {
		e.draft = e.text
	}
	if e.back = back; back == 0 {
		e.text = e.draft
	} else {
		e.text = e.history.At(back - 1)
	}
	e.at = len(e.text)
}

// more stands before the second and later lines of an input.
const more = "… "

// layout breaks prompt and text into rows of at most width cells, and finds the cursor.
func (e *editor) layout(width int) (rows []string, row, col int) {
	width = max(width-1, 4) // the last column is where terminals differ
	prompt := e.prompt
	if e.search != nil {
		prompt = e.search.prompt()
	}
	rows = strings.Split(ansi.Hardwrap(prompt, width, true), "\n")
	line, used := rows[len(rows)-1], ansi.StringWidth(rows[len(rows)-1])
	rows = rows[:len(rows)-1]
	fresh := func(begin string) { rows, line, used = append(rows, line), begin, ansi.StringWidth(begin) }
	for i := 0; ; {
		if i == e.at {
			row, col = len(rows), used
		}
		if i == len(e.text) {
			break
		}
		begin, wide := i, 4
		c, _ := ansi.FirstGraphemeCluster(e.text[i:], ansi.GraphemeWidth)
		i += max(len(c), 1)
		if e.hidden {
			continue
		}
		switch c {
		case "\n":
			fresh(more)
			continue
		case "\t":
			c = "    "
		default:
			c = view.Whole(c)
			wide = ansi.StringWidth(c) // what is made visible has one
		}
		if used+wide > width {
			fresh("")
			if begin == e.at {
				row, col = len(rows), 0
			}
		}
		line, used = line+c, used+wide
	}
	return append(rows, line), row, col
}

// draw shows the input in place of what is shown. Of one that is higher than the terminal the rows about the cursor are
// shown. last puts the cursor behind the end, on a row of its own.
func (e *editor) draw(width, height int, last bool) string {
	var b strings.Builder
	b.WriteString(e.rewind(width))
	rows, row, col := e.layout(width)
	if most := max(height-1, 1); len(rows) > most {
		top := min(max(row-most+1, 0), len(rows)-most)
		rows, row = rows[top:top+most], row-top
	}
	if room := height - 1 - len(rows); !last && room > 0 {
		rows = append(rows, e.menu.rows(width, room)...)
	}
	b.WriteString(strings.Join(rows, "\r\n"))
	if last {
		b.WriteString("\r\n")
		e.shown = nil
		return b.String()
	}
	if up := len(rows) - 1 - row; up > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", up)
	}
	b.WriteString("\r")
	if col > 0 {
		fmt.Fprintf(&b, "\x1b[%dC", col)
	}
	e.shown, e.row, e.col = rows, row, col
	return b.String()
}

// rewind goes to the beginning of what is shown and clears it. A terminal that became narrower has broken the rows
// anew.
func (e *editor) rewind(width int) string {
	if e.wipe {
		e.wipe = false
		return "\x1b[H\x1b[2J"
	}
	if e.shown == nil {
		return "\r" + terminal.ClearBelow
	}
	up := 0
	for i := range e.row {
		up += max(ansi.StringWidth(e.shown[i])-1, 0)/max(width, 1) + 1
	}
	if up += e.col / max(width, 1); up > 0 {
		return fmt.Sprintf("\x1b[%dA\r", up) + terminal.ClearBelow
	}
	return "\r" + terminal.ClearBelow
}
