package shell

import "strings"

// sedRuns reports whether a script of sed runs commands: by e, or by the flag e of s. What cannot be read as a script is
// no script.
func sedRuns(script string) bool {
	p := sedReader{text: script}
	for p.at < len(p.text) {
		if p.command() {
			return true
		}
		if p.bad {
			return false
		}
	}
	return false
}

// sedReader reads a script from its beginning.
type sedReader struct {
	text string
	at   int
	bad  bool
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
		case pattern && !inside && c == '[':
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
	case 'a', 'i', 'c', 'r', 'R', 'w', 'W', 'b', 't', 'T', ':', '#':
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

// isFile reports whether a word of sed is the name of a file: the script is the value of -e, or else the first word that
// is no option.
func isFile(argv []string, at int) bool {
	given := false
	for i := 1; i < at; i++ {
		w := argv[i]
		switch {
		case strings.HasPrefix(w, "--expression") || strings.HasPrefix(w, "--file"):
			given = true
		case len(w) > 1 && w[0] == '-' && w[1] != '-' && strings.ContainsAny(w, "ef"):
			given = true
			if i+1 == at && strings.HasSuffix(w, "e") {
				return false
			}
		case !strings.HasPrefix(w, "-") && !given:
			return true
		}
	}
	return given
}
