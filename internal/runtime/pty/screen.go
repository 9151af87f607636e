package pty

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Size of the terminal. It never changes, so a program is not sent SIGWINCH.
const (
	Rows    = 50
	Columns = 160
)

const (
	// maxSequence is the most bytes of a control sequence that is read; what is longer is skipped.
	maxSequence = 64
	// maxNumbers and maxNumber bound the parameters of one.
	maxNumbers = 8
	maxNumber  = 9999
)

// mode of the parser.
type mode int

const (
	plain mode = iota
	escape
	control // after ESC [
	charset // after ESC ( and such: one more byte
	text    // a string that is not shown, as a title; it ends with BEL or ESC \
	textEsc
)

// screen is what a program has put on its terminal: rows of printable characters and nothing else. What moves the
// cursor and clears is carried out, colours are dropped, and all other sequences do nothing. It is not safe for
// concurrent use.
type screen struct {
	rows        [][]rune
	row, column int
	top, bottom int // of the part that scrolls
	saved       [2]int
	other       [][]rune // that of the program's first screen while it shows its second one
	// paste is true while the program takes pasted text as such.
	paste bool
	// scrolled is given each row that leaves at the top, printed each character and the ends of rows as they come, reply
	// the answers to what the program asks its terminal.
	scrolled func(row string)
	printed  func(r rune)
	reply    func(b []byte)

	mode mode
	rest []byte // an unfinished character or sequence
}

func newScreen() *screen {
	s := &screen{bottom: Rows - 1, scrolled: func(string) {}, printed: func(rune) {}, reply: func([]byte) {}}
	s.rows = blank()
	return s
}

func blank() [][]rune {
	rows := make([][]rune, Rows)
	for i := range rows {
		rows[i] = emptyRow()
	}
	return rows
}

func emptyRow() []rune { return slices.Repeat([]rune{' '}, Columns) }

// text returns the rows without blanks at their ends.
func (s *screen) text() []string {
	all := make([]string, len(s.rows))
	for i, row := range s.rows {
		all[i] = strings.TrimRight(string(row), " ")
	}
	return all
}

// Write takes what the program prints. It never fails.
func (s *screen) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		if s.mode != plain {
			s.sequence(b[0])
			b = b[1:]
			continue
		}
		if len(s.rest) > 0 { // the beginning of a character
			b, s.rest = append(s.rest, b...), nil
		}
		if !utf8.FullRune(b) {
			s.rest = slices.Clone(b)
			break
		}
		r, size := utf8.DecodeRune(b)
		b = b[size:]
		s.put(r)
	}
	return n, nil
}

// put shows a character, or carries out a control character.
func (s *screen) put(r rune) {
	switch r {
	case 0x1b:
		s.mode = escape
	case '\n', '\v', '\f':
		s.feed()
	case '\r':
		s.column = 0
	case '\b':
		s.column = max(0, s.column-1)
	case '\t':
		s.column = min(Columns-1, (s.column/8+1)*8)
	default:
		if !unicode.IsPrint(r) && r != '\u00a0' || unicode.IsMark(r) {
			return
		}
		if r == '\u00a0' {
			r = ' '
		}
		if s.column >= Columns {
			s.column = 0
			s.feed()
		}
		s.rows[s.row][s.column] = r
		s.column++
		s.printed(r)
	}
}

// feed goes down a row, and scrolls at the end.
func (s *screen) feed() {
	s.printed('\n')
	if s.row != s.bottom {
		s.row = min(Rows-1, s.row+1)
		return
	}
	if s.top == 0 && s.other == nil {
		s.scrolled(strings.TrimRight(string(s.rows[0]), " "))
	}
	s.remove(s.top, 1)
}

// remove takes rows away at a place of the part that scrolls, insert makes room for empty ones.
func (s *screen) remove(at, n int) {
	for range min(n, s.bottom-at+1) {
		copy(s.rows[at:s.bottom], s.rows[at+1:s.bottom+1])
		s.rows[s.bottom] = emptyRow()
	}
}

func (s *screen) insert(at, n int) {
	for range min(n, s.bottom-at+1) {
		copy(s.rows[at+1:s.bottom+1], s.rows[at:s.bottom])
		s.rows[at] = emptyRow()
	}
}

// sequence takes a byte of a sequence.
func (s *screen) sequence(c byte) {
	switch s.mode {
	case plain:
	case charset:
		s.mode = plain
	case text:
		switch c {
		case 0x07, 0x18, 0x1a:
			s.mode = plain
		case 0x1b:
			s.mode = textEsc
		}
	case textEsc:
		s.mode = text
		if c == '\\' {
			s.mode = plain
		}
	case escape:
		s.escaped(c)
	case control:
		switch {
		case c == 0x1b:
			s.mode, s.rest = escape, nil
		case c < 0x20: // it does not belong to the sequence
		case c < 0x40:
			if len(s.rest) < maxSequence {
				s.rest = append(s.rest, c)
			}
		default:
			params := string(s.rest)
			s.mode, s.rest = plain, nil
			s.controlled(params, c)
		}
	}
}

// escaped is the byte after ESC.
func (s *screen) escaped(c byte) {
	s.mode = plain
	switch c {
	case '[':
		s.mode, s.rest = control, nil
	case ']', 'P', '_', '^', 'X':
		s.mode = text
	case '(', ')', '*', '+', '#', '%', ' ':
		s.mode = charset
	case 0x1b:
		s.mode = escape
	case '7':
		s.saved = [2]int{s.row, s.column}
	case '8':
		s.row, s.column = s.saved[0], s.saved[1]
	case 'D':
		s.feed()
	case 'E':
		s.column = 0
		s.feed()
	case 'M':
		if s.row == s.top {
			s.insert(s.top, 1)
		} else {
			s.row = max(0, s.row-1)
		}
	case 'c':
		*s = screen{rows: blank(), bottom: Rows - 1, scrolled: s.scrolled, printed: s.printed, reply: s.reply}
	}
}

// numbers are the parameters of a sequence; what is missing is not among them.
func numbers(params string) (all []int) {
	for part := range strings.SplitSeq(params, ";") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			n = 0
		}
		if all = append(all, min(n, maxNumber)); len(all) == maxNumbers {
			break
		}
	}
	return all
}

// controlled carries out a control sequence.
func (s *screen) controlled(params string, final byte) {
	if params != "" && strings.ContainsRune("?<=>", rune(params[0])) {
		s.private(params, final)
		return
	}
	p := numbers(params)
	one := max(1, p[0]) // how often
	at := func(i int) int {
		if i >= len(p) {
			return 0
		}
		return max(0, p[i]-1)
	}
	if s.column >= Columns {
		s.column = Columns - 1
	}
	switch final {
	case 'A':
		s.moveTo(s.row-one, s.column)
	case 'B', 'e':
		s.moveTo(s.row+one, s.column)
	case 'C', 'a':
		s.moveTo(s.row, s.column+one)
	case 'D':
		s.moveTo(s.row, s.column-one)
	case 'E':
		s.moveTo(s.row+one, 0)
	case 'F':
		s.moveTo(s.row-one, 0)
	case 'G', '`':
		s.moveTo(s.row, at(0))
	case 'H', 'f':
		s.moveTo(at(0), at(1))
	case 'd':
		s.moveTo(at(0), s.column)
	case 'r':
		s.top, s.bottom = 0, Rows-1
		if t, b := at(0), at(1); len(p) > 1 && t < b && b < Rows {
			s.top, s.bottom = t, b
		}
		s.moveTo(0, 0)
	case 's':
		s.saved = [2]int{s.row, s.column}
	case 'u':
		s.row, s.column = s.saved[0], s.saved[1]
	case 'n':
		if p[0] == 6 {
			s.reply([]byte("\x1b[" + strconv.Itoa(s.row+1) + ";" + strconv.Itoa(s.column+1) + "R"))
		}
	case 'c':
		s.reply([]byte("\x1b[?6c"))
	default:
		s.changed(p[0], one, final)
	}
}

// moveTo moves the cursor.
func (s *screen) moveTo(row, column int) {
	s.row, s.column = min(max(row, 0), Rows-1), min(max(column, 0), Columns-1)
	s.printed('\n')
}

// changed carries out what clears, inserts and removes.
func (s *screen) changed(kind, n int, final byte) {
	row := s.rows[s.row]
	switch final {
	case 'J':
		from, to := s.row*Columns+s.column, Rows*Columns
		if kind == 1 {
			from, to = 0, from+1
		} else if kind > 1 {
			from = 0
		}
		for i := from; i < to; i++ {
			s.rows[i/Columns][i%Columns] = ' '
		}
	case 'K':
		from, to := s.column, Columns
		if kind == 1 {
			from, to = 0, s.column+1
		} else if kind > 1 {
			from = 0
		}
		for i := from; i < to; i++ {
			row[i] = ' '
		}
	case 'X':
		for i := s.column; i < min(Columns, s.column+n); i++ {
			row[i] = ' '
		}
	case 'P':
		n = min(n, Columns-s.column)
		copy(row[s.column:], row[s.column+n:])
		for i := Columns - n; i < Columns; i++ {
			row[i] = ' '
		}
	case '@':
		n = min(n, Columns-s.column)
		copy(row[s.column+n:], row[s.column:Columns-n])
		for i := s.column; i < s.column+n; i++ {
			row[i] = ' '
		}
	case 'L', 'M', 'S', 'T':
		from := s.top
		if final == 'L' || final == 'M' {
			if from = s.row; s.row < s.top || s.row > s.bottom {
				return
			}
		}
		if final == 'L' || final == 'T' {
			s.insert(from, n)
		} else {
			s.remove(from, n)
		}
	}
}

// private carries out a sequence of modes.
func (s *screen) private(params string, final byte) {
	if params[0] != '?' || final != 'h' && final != 'l' {
		return
	}
	on := final == 'h'
	for _, n := range numbers(params[1:]) {
		switch n {
		case 2004:
			s.paste = on
		case 47, 1047, 1049:
			switch {
			case on && s.other == nil:
				s.other, s.rows = s.rows, blank()
			case !on && s.other != nil:
				s.other, s.rows = nil, s.other
			}
		}
	}
}
