package shell

import (
	"strings"

	"github.com/inspan/inspan/internal/pattern"
)

// sedMarks is for scripts that the reader cannot follow.
var sedMarks = pattern.New(`(^|[;{\n])\s*([0-9,$~+]+|/[^/\n]*/)?\s*!?\s*(e(\s|$)|s[/|,#@!].*[/|,#@!][gpiImM0-9]*e[gpiImM0-9]*\s*(;|$|\}))`)

// sedRuns reports whether a script of sed runs commands: by e, or by the flag e of s.
func sedRuns(script string) bool {
	for _, sets := range []bool{true, false} {
		if p := readSed(script, sets); p.runs {
			return true
		}
	}
	return sedMarks.MatchString(script)
}

// sedWrites returns the files that a script writes.
func sedWrites(script string) []string {
	return append(readSed(script, true).files, readSed(script, false).files...)
}

// readSed reads a script to its end, or to where it is none.
func readSed(script string, sets bool) *sedReader {
	p := &sedReader{text: script, sets: sets}
	for p.at < len(p.text) && !p.runs && !p.bad {
		p.runs = p.command() && !p.bad
	}
	return p
}

// sedScripts returns the words of sed that may be scripts: the values of -e, and every other word, as an option that is
// not known may have a value.
func sedScripts(argv []string) (scripts []string) {
	for i := 1; i < len(argv); i++ {
		w := argv[i]
		switch at := strings.IndexByte(w, 'e'); {
		case strings.HasPrefix(w, "--"):
			if _, value, ok := strings.Cut(w, "="); ok && strings.HasPrefix(w, "--e") {
				scripts = append(scripts, value)
			}
		case strings.HasPrefix(w, "-") && at > 0 && at+1 < len(w):
			scripts = append(scripts, w[at+1:])
		case !strings.HasPrefix(w, "-"):
			scripts = append(scripts, w)
		}
	}
	return scripts
}

// sedReader reads a script from its beginning.
type sedReader struct {
	text string
	at   int
	// sets is set where a sign within [] does not end a pattern.
	sets bool
	// bad is set where it is no script, runs where it runs a command; files are those that it writes.
	bad, runs bool
	files     []string
}

func (p *sedReader) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *sedReader) skip(signs string) {
	for p.at < len(p.text) && strings.IndexByte(signs, p.text[p.at]) >= 0 {
		p.at++
	}
}

// until moves behind the next sign that no backslash stands before. One in [...] does not end a pattern.
func (p *sedReader) until(sign byte, pattern bool) {
	inside := false
	for ; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; {
		case c == '\\':
			p.at++
		case p.sets && pattern && !inside && c == '[':
			inside = true
		case inside && c == ']':
			inside = false
		case c == sign && !inside:
			p.at++
			return
		}
	}
	p.bad = true
}

// address reads what stands before a command.
func (p *sedReader) address() {
	for {
		p.skip(" \t,~+!$0123456789")
		switch p.peek() {
		case '/':
			p.at++
			p.until('/', true)
			p.skip("IM")
		case '\\':
			if p.at+1 >= len(p.text) {
				p.bad = true
				return
			}
			sign := p.text[p.at+1]
			p.at += 2
			p.until(sign, true)
			p.skip("IM")
		default:
			return
		}
	}
}

// command reads one command and reports whether it runs another.
func (p *sedReader) command() (runs bool) {
	p.skip(" \t\n;}")
	p.address()
	c := p.peek()
	p.at++
	switch c {
	case 'e':
		return strings.IndexByte(" \t\n;}\x00", p.peek()) >= 0
	case 's', 'y':
		sign := p.peek()
		p.at++
		p.until(sign, c == 's')
		p.until(sign, false)
		from := p.at
		p.skip("gpiImMe0123456789")
		return c == 's' && strings.Contains(p.text[from:min(p.at, len(p.text))], "e") && !p.bad
	case 'b', 't', 'T', ':', 'v':
		for p.at < len(p.text) && strings.IndexByte("\n;", p.text[p.at]) < 0 {
			p.at++
		}
	case 'w', 'W':
		line, _, _ := strings.Cut(p.text[p.at:], "\n")
		p.files = append(p.files, strings.TrimSpace(line))
		p.at += len(line)
	case 'a', 'i', 'c', 'r', 'R', '#':
		for p.at < len(p.text) && p.text[p.at] != '\n' {
			if p.text[p.at] == '\\' {
				p.at++
			}
			p.at++
		}
	case '{', '}', '=', 'd', 'D', 'g', 'G', 'h', 'H', 'l', 'n', 'N', 'p', 'P', 'q', 'Q', 'x', 'z', 'F', ';', '\n', 0:
	default:
		p.bad = true
	}
	return false
}

// awkPipes reports whether a program of awk has a pipe outside of its strings and patterns.
func awkPipes(text string) bool {
	if !strings.Contains(text, "{") {
		return false // a name, or a pattern alone
	}
	var last byte = '{' // the last sign that is no blank
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '"', c == '/' && strings.IndexByte("{(,;!&|~\n=", last) >= 0:
			for i++; i < len(text) && text[i] != c; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case c == '|' && i+1 < len(text) && text[i+1] == '|':
			i++
		case c == '|':
			return true
		}
		if c != ' ' && c != '\t' {
			last = c
		}
	}
	return false
}
