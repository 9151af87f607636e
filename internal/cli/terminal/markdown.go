package terminal

import (
	"strings"
	"unicode"

	"github.com/inspan/inspan/internal/pattern"
)

// Markdown shows Markdown that comes in pieces: headings, lists, quotes, code, bold, italic and links. What stands on
// the terminal is never written again, so a span waits for its end, and is shown as it was written where none comes.
// Tables and what else it does not know stay as they are. Without colour all text does. What a terminal would act on
// must have been taken out.
type Markdown struct {
	Flow  Wrapper
	Paint Paint

	// rest is what waits: the beginning of a line whose kind is not known yet, or of a span.
	rest string
	// inLine is true where the kind of the line is known, codes are the colours of its text.
	inLine bool
	codes  string
	// before is the byte of the line that was shown last, 0 at its beginning.
	before byte
	// fence closes the code block that is open; blank is true behind an empty line, list inside of a list.
	fence       string
	blank, list bool
}

// Colours.
const (
	codesBold   = "1"
	codesItalic = "3"
	codesCode   = "36"
	codesURL    = "2"
)

// maxSpan is how many bytes of a line wait for the end of a span, or for the kind of the line.
const maxSpan = 400

// Add shows what can be shown.
func (m *Markdown) Add(text string) {
	if !m.Paint {
		m.Flow.Add(text)
		return
	}
	m.rest += text
	for m.step(false) {
	}
}

// End shows the rest and ends the line. A code block stays open.
func (m *Markdown) End() {
	for m.step(true) {
	}
	m.inLine, m.codes, m.before = false, "", 0
	m.Flow.End()
}

// step shows a line, or what is known of the last one, and reports whether there is more to look at. last is true where
// nothing comes behind it.
func (m *Markdown) step(last bool) bool {
	line, _, ended := strings.Cut(m.rest, "\n")
	if m.rest == "" || !m.inLine && !ended && !last && m.open(line) {
		return false
	}
	if !m.inLine {
		used, shown := m.block(line)
		m.rest, line, m.inLine = m.rest[used:], line[used:], !shown
		if shown {
			m.rest = strings.TrimPrefix(m.rest, "\n")
			return ended
		}
	}
	m.rest = m.rest[m.inline(line, ended || last, m.before):]
	if !ended {
		return false
	}
	m.rest, m.inLine, m.codes, m.before = m.rest[1:], false, "", 0
	m.Flow.Add("\n")
	return true
}

var (
	unclear   = pattern.New("^[ \t]*[#`~*+\\-_>0-9.)]{0,10} ?[-*_ ]*$")
	wholeLine = pattern.New("^(    |\t| {0,3}(```|~~~)|[ \t]*\\|)")
	openFence = pattern.New("^ {0,3}(```+|~~~+)[^`]*$")
	rule      = pattern.New(`^ {0,3}(?:(?:- *){3,}|(?:\* *){3,}|(?:_ *){3,})$`)
	heading   = pattern.New(`^ {0,3}#{1,6} +`)
	quote     = pattern.New(`^ {0,3}> ?`)
	bullet    = pattern.New(`^([ \t]*)[-*+] +`)
	numbered  = pattern.New(`^[ \t]*[0-9]{1,9}[.)] +`)
	indented  = pattern.New(`^(    |\t)`)
	spaces    = pattern.New(`^[ \t]*`)
)

// open reports whether the kind of a line is not known before more of it has come.
func (m *Markdown) open(line string) bool {
	return m.fence != "" || unclear.MatchString(line) || wholeLine.MatchString(line)
}

// block shows the mark that a line begins with, which has the used bytes; shown is true where all of the line was
// shown.
func (m *Markdown) block(line string) (used int, shown bool) {
	blank, trimmed := m.blank, strings.Trim(line, " \t")
	m.blank = trimmed == "" && m.fence == ""
	if m.verbatim(line, trimmed, blank) {
		return len(line), true
	}
	lead, mark := spaces.FindString(line), ""
	switch {
	case trimmed == "":
		return 0, false
	case heading.MatchString(line):
		m.codes, m.list = codesBold, false
		return len(heading.FindString(line)), false
	case quote.MatchString(line):
		bar := m.Paint.Dim("│ ")
		m.Flow.lead, m.Flow.hang = bar, bar
		return len(quote.FindString(line)), false
	case bullet.MatchString(line):
		used, mark, m.list = len(bullet.FindString(line)), "• ", true
	case numbered.MatchString(line):
		used, m.list = len(numbered.FindString(line)), true
		mark = strings.TrimLeft(line[:used], " \t")
	default:
		used = len(lead)
		m.list = m.list && used > 0
	}
	lead = strings.ReplaceAll(lead, "\t", "    ")
	m.Flow.lead, m.Flow.hang = lead+mark, lead+strings.Repeat(" ", len([]rune(mark)))
	return used, false
}

// verbatim shows a line of code, of a table or a rule, where it is one; blank says that an empty line was before it.
func (m *Markdown) verbatim(line, trimmed string, blank bool) bool {
	switch {
	case m.fence != "":
		if strings.HasPrefix(trimmed, m.fence) && strings.Trim(trimmed, m.fence[:1]) == "" {
			m.fence = ""
		} else {
			m.Flow.whole("  "+line, m.colour(codesCode))
		}
	case openFence.MatchString(line):
		m.fence = openFence.FindStringSubmatch(line)[1]
	case strings.HasPrefix(trimmed, "|"):
		m.Flow.whole(line, nil)
	case rule.MatchString(line):
		m.Flow.whole("────────", m.colour(codesURL))
	case indented.MatchString(line) && blank && !m.list && trimmed != "":
		m.Flow.whole("  "+indented.ReplaceAllString(line, ""), m.colour(codesCode))
	default:
		return false
	}
	return true
}

// colour paints with the codes of the line and further ones.
func (m *Markdown) colour(codes string) func(string) string {
	codes = strings.Trim(m.codes+";"+codes, ";")
	if codes == "" {
		return nil
	}
	return func(s string) string { return m.Paint.code(codes, s) }
}

// inline shows the text of a line up to a span that has not ended, and returns how much that was; all of it where
// nothing comes behind it. before is the byte before the text.
func (m *Markdown) inline(line string, last bool, before byte) (used int) {
	plain := 0 // what is before it was shown
	show := func(to int) { m.Flow.styled(line[plain:to], m.colour("")) }
	done := func(to int) int {
		if to > 0 {
			m.before = line[to-1]
		}
		return to
	}
	for i := 0; i < len(line); {
		if !strings.ContainsRune("\\`*_[!", rune(line[i])) {
			i++
			continue
		}
		if i > 0 {
			before = line[i-1]
		}
		near := line[i:min(i+maxSpan, len(line))]
		s := spanOf(near, before, last || len(near) == maxSpan)
		switch {
		case s.open:
			show(i)
			return done(i)
		case s.length == 0:
			i += max(1, s.skip)
			continue
		}
		show(i)
		m.span(s)
		i += s.length
		plain = i
	}
	show(len(line))
	return done(len(line))
}

// span shows one.
func (m *Markdown) span(s span) {
	before := m.codes
	if m.codes = strings.Trim(before+";"+s.codes, ";"); s.nested {
		m.inline(s.text, true, 0)
	} else {
		m.Flow.styled(s.text, m.colour(""))
	}
	m.codes = before
	if s.url != "" && s.url != s.text {
		m.Flow.styled(" ", nil)
		m.Flow.styled("("+s.url+")", m.colour(codesURL))
	}
}

// span is a piece of a line with a style of its own. length is how much of the line it is, 0 where there is none: then
// skip bytes are text, or open says that more of the line must come first.
type span struct {
	text, codes, url string
	nested, open     bool
	length, skip     int
}

// spanOf is the span that a text begins with. The shorter text never says otherwise than the longer one, but for open:
// how the text was cut into pieces makes no difference.
func spanOf(text string, before byte, last bool) span {
	switch text[0] {
	case '\\':
		switch {
		case len(text) == 1:
			return span{open: !last}
		case text[1] < unicode.MaxASCII && (unicode.IsPunct(rune(text[1])) || unicode.IsSymbol(rune(text[1]))):
			return span{text: text[1:2], length: 2}
		}
		return span{}
	case '`':
		return code(text, last)
	case '[':
		return link(text, 1, last)
	case '!':
		if len(text) > 1 && text[1] == '[' {
			return link(text, 2, last)
		}
		return span{open: len(text) == 1 && !last}
	}
	return emphasis(text, before, last)
}

// run is how many bytes like the first one a text begins with.
func run(text string) int { return len(text) - len(strings.TrimLeft(text, text[:1])) }

func code(text string, last bool) span {
	n := run(text)
	for at := n; at < len(text); {
		if text[at] != '`' {
			at++
			continue
		}
		closing := run(text[at:])
		end := at + closing
		if end == len(text) && !last {
			break // it may be longer
		}
		if closing == n {
			inner := text[n:at]
			if t := strings.TrimSpace(inner); t != "" {
				inner = t
			}
			return span{text: inner, codes: codesCode, length: end}
		}
		at = end
	}
	return span{open: !last, skip: n}
}

func link(text string, label int, last bool) span {
	length := strings.IndexByte(text, ']')
	if length < 0 || length+1 == len(text) {
		return span{open: !last}
	}
	if text[length+1] != '(' {
		return span{}
	}
	address := strings.IndexByte(text[length:], ')')
	if address < 0 {
		return span{open: !last}
	}
	url, _, _ := strings.Cut(strings.TrimSpace(text[length+2:length+address]), " ")
	shown := text[label:length]
	if shown == "" {
		shown = url
	}
	return span{text: shown, url: url, nested: shown != url, length: length + address + 1}
}

// letter reports whether a byte is part of a word.
func letter(b byte) bool { return b >= 0x80 || unicode.IsLetter(rune(b)) || unicode.IsDigit(rune(b)) }

func emphasis(text string, before byte, last bool) span {
	n, mark := run(text), text[0]
	if n == len(text) {
		return span{open: !last, skip: n}
	}
	if n > 3 || text[n] == ' ' || mark == '_' && letter(before) {
		return span{skip: n}
	}
	for at := n; at < len(text); {
		if text[at] == '`' { // a mark in code is none
			c := code(text[at:], last)
			if c.open {
				return c
			}
			at += max(c.length, c.skip)
			continue
		}
		if text[at] != mark {
			at++
			continue
		}
		closing := run(text[at:])
		end := at + closing
		if end == len(text) && !last {
			break // it may be longer
		}
		if closing == n && text[at-1] != ' ' && (mark != '_' || end == len(text) || !letter(text[end])) {
			codes := []string{codesItalic, codesBold, codesBold + ";" + codesItalic}[n-1]
			return span{text: text[n:at], codes: codes, nested: true, length: end}
		}
		at = end
	}
	return span{open: !last, skip: n}
}
