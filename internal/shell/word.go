package shell

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/inspan/inspan/internal/core/guard"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// words returns the words of a command, braces written out; ok is false where they stand for more than limit.
func words(args []*syntax.Word, limit int) (argv []string, ok bool) {
	for i, w := range args {
		if bracesIn(w) > maxBraces {
			return argv, false
		}
		split := &syntax.Word{Parts: append([]syntax.WordPart(nil), w.Parts...)}
		if !syntax.SplitBraces(split) {
			argv = append(argv, named(w, i == 0))
			continue
		}
		for one, err := range expand.BracesSeq(nil, split) {
			if err != nil || len(argv) > limit {
				return argv, false
			}
			argv = append(argv, named(one, len(argv) == 0))
		}
	}
	return argv, len(argv) <= limit
}

// maxBraces is the most braces in one word; the work of writing them out grows with the square of it.
const maxBraces = 64

func bracesIn(w *syntax.Word) (n int) {
	for _, p := range w.Parts {
		if lit, ok := p.(*syntax.Lit); ok {
			n += strings.Count(lit.Value, "{")
		}
	}
	return n
}

// named is literal, but a command's name with a wildcard is only known when it runs.
func named(w *syntax.Word, first bool) string {
	text := literal(w)
	if !first || text == "[" {
		return text
	}
	for _, p := range w.Parts {
		if lit, ok := p.(*syntax.Lit); ok && wild(lit.Value) {
			return guard.Many
		}
	}
	return text
}

// wild reports whether an unquoted text has a wildcard.
func wild(s string) bool {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '*', '?', '[':
			return true
		}
	}
	return false
}

// literal returns a word with its quotes removed; what is only known when it runs stands as guard.Unknown inside of
// quotes and as guard.Many outside.
func literal(w *syntax.Word) string {
	if w == nil {
		return ""
	}
	var b strings.Builder
	for _, p := range w.Parts {
		part(&b, p, false)
	}
	return b.String()
}

func part(b *strings.Builder, p syntax.WordPart, quoted bool) {
	switch p := p.(type) {
	case *syntax.Lit:
		b.WriteString(unescape(p.Value, quoted))
	case *syntax.SglQuoted:
		if p.Dollar {
			b.WriteString(ansi(p.Value))
			return
		}
		b.WriteString(p.Value)
	case *syntax.DblQuoted:
		for _, inner := range p.Parts {
			part(b, inner, true)
		}
	case *syntax.ParamExp:
		b.WriteString(variable(p, quoted))
	default:
		b.WriteString(unknown(quoted))
	}
}

func unknown(quoted bool) string {
	if quoted {
		return guard.Unknown
	}
	return guard.Many
}

// variable knows the two variables that name a place the rules know.
func variable(p *syntax.ParamExp, quoted bool) string {
	if p.Param == nil {
		return guard.Many
	}
	bare := !p.Excl && !p.Length && !p.Width && !p.IsSet && p.Flags == nil && p.NestedParam == nil && p.Index == nil &&
		len(p.Modifiers) == 0 && p.Slice == nil && p.Repl == nil && p.Names == 0 && p.Exp == nil
	switch name := p.Param.Value; {
	case bare && name == "HOME":
		return "~"
	case bare && name == "PWD":
		return "."
	case name == "@", p.Index != nil, p.Names != 0, p.Excl:
		return guard.Many // several words even inside of quotes
	}
	return unknown(quoted)
}

// heredoc returns the text of a here-document.
func heredoc(d *syntax.Redirect) string {
	for _, p := range d.Word.Parts {
		lit, ok := p.(*syntax.Lit)
		if ok && !strings.Contains(lit.Value, `\`) {
			continue
		}
		var b strings.Builder // a quoted delimiter: nothing is expanded
		for _, p := range d.Hdoc.Parts {
			if lit, ok := p.(*syntax.Lit); ok {
				b.WriteString(lit.Value)
			}
		}
		return b.String()
	}
	var b strings.Builder
	for _, p := range d.Hdoc.Parts {
		part(&b, p, true)
	}
	return b.String()
}

// unescape removes backslashes as the shell does: all of them outside of quotes, inside only before " \ $ and `. A
// backslash at the end of a line joins it with the next.
func unescape(s string, quoted bool) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && (!quoted || strings.IndexByte("\"\\$`\n", s[i+1]) >= 0) {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// ansi reads the escapes of $'...'. A zero byte ends the word there, as in the shell.
func ansi(s string) string {
	simple := map[byte]byte{'a': 7, 'b': 8, 'e': 27, 'E': 27, 'f': 12, 'n': 10, 'r': 13, 't': 9, 'v': 11}
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b = append(b, s[i])
			continue
		}
		i++
		c := s[i]
		if plain, ok := simple[c]; ok {
			b = append(b, plain)
			continue
		}
		from, most, base := i+1, 0, 16
		switch c {
		case 'x':
			most = 2
		case 'u':
			most = 4
		case 'U':
			most = 8
		case 'c':
			return string(b) + guard.Unknown
		default:
			if c < '0' || c > '7' {
				if strings.IndexByte(`\'"?`, c) < 0 {
					b = append(b, '\\')
				}
				b = append(b, c)
				continue
			}
			from, most, base = i, 3, 8
		}
		n, used := digits(s[from:], most, base)
		switch {
		case used == 0:
			b = append(b, '\\', c)
		case n == 0:
			return string(b)
		case c == 'u' || c == 'U':
			b = utf8.AppendRune(b, rune(n))
		default:
			b = append(b, byte(n))
		}
		i = from + used - 1
	}
	return string(b)
}

// digits reads at most so many digits of a number.
func digits(s string, most, base int) (n uint64, used int) {
	for used < most && used < len(s) {
		next, err := strconv.ParseUint(s[:used+1], base, 32)
		if err != nil || s[used] == '_' {
			break
		}
		n, used = next, used+1
	}
	return n, used
}
