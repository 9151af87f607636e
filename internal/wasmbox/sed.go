package wasmbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// address is where a command of sed applies: a line by number, the last one, or one that fits.
type address struct {
	line int
	last bool
	fits *regexp.Regexp
}

func (a *address) at(n int, last bool, text string) bool {
	switch {
	case a.fits != nil:
		return a.fits.MatchString(text)
	case a.last:
		return last
	}
	return n == a.line
}

// edit is one command of sed.
type edit struct {
	from, to *address
	not      bool
	inside   bool // between from and to
	what     byte
	text     string // of a, i, c and y
	fits     *regexp.Regexp
	by       string
	global   bool
	print    bool
	nth      int
}

// applies reports whether a command applies to a line.
func (e *edit) applies(n int, last bool, text string) bool {
	hit := false
	switch {
	case e.from == nil:
		hit = true
	case e.to == nil:
		hit = e.from.at(n, last, text)
	case e.inside:
		hit = true
		e.inside = !e.to.at(n, last, text) && !(e.to.line > 0 && n >= e.to.line)
	case e.from.at(n, last, text):
		hit = true
		e.inside = !(e.to.line > 0 && e.to.line <= n) && !(e.to.last && last)
	}
	return hit != e.not
}

// editing is one call of sed.
type editing struct {
	*call
	edits    []*edit
	quiet    bool
	extended bool
}

func sed(ctx context.Context, c *call) error {
	// -i takes a suffix that is bound to it, and no other value.
	inPlace := false
	for i, arg := range c.Args {
		if i > 0 && (arg == "-i" || arg == "--in-place") {
			inPlace = true
			c.Args[i] = "-s"
		}
	}
	o, names, err := c.options("nEre:s", "quiet=n", "silent=n", "regexp-extended=E", "expression=e")
	if err != nil {
		return err
	}
	scripts := o.values['e']
	if len(scripts) == 0 {
		if len(names) == 0 {
			return misused("wants a script")
		}
		scripts, names = names[:1], names[1:]
	}
	s := &editing{call: c, quiet: o.has('n'), extended: o.has('E') || o.has('r')}
	if err := s.parse(strings.Join(scripts, "\n")); err != nil {
		return err
	}
	if !inPlace {
		return s.run(ctx, s.joined(names), c.out)
	}
	for _, name := range names {
		data, err := os.ReadFile(c.at(name))
		if err != nil {
			c.warn(err)
			continue
		}
		var out bytes.Buffer
		w := bufio.NewWriter(&out)
		if err := s.run(ctx, bytes.NewReader(data), w); err != nil {
			return err
		}
		_ = w.Flush() // into memory
		if err := os.WriteFile(c.at(name), out.Bytes(), 0o644); err != nil {
			c.warn(err)
		}
		for _, e := range s.edits {
			e.inside = false
		}
	}
	return nil
}

// joined reads files one behind the other.
func (s *editing) joined(names []string) io.Reader {
	if len(names) == 0 {
		return s.In
	}
	r, w := io.Pipe()
	go func() {
		err := s.each(names, func(_ string, r io.Reader) error {
			_, err := io.Copy(w, r)
			return err
		})
		_ = w.CloseWithError(err)
	}()
	return r
}

// parse reads a script: commands apart by newlines or semicolons.
func (s *editing) parse(script string) error {
	for {
		script = strings.TrimLeft(script, " \t\n;")
		if script == "" {
			return nil
		}
		if script[0] == '#' {
			_, script, _ = strings.Cut(script, "\n")
			continue
		}
		e := &edit{}
		var err error
		if e.from, script, err = s.address(script); err != nil {
			return err
		}
		if strings.HasPrefix(script, ",") && e.from != nil {
			if e.to, script, err = s.address(script[1:]); err != nil {
				return err
			}
		}
		script = strings.TrimLeft(script, " ")
		if strings.HasPrefix(script, "!") {
			e.not, script = true, strings.TrimLeft(script[1:], " ")
		}
		if script == "" {
			return misused("an address without a command")
		}
		e.what, script = script[0], script[1:]
		switch e.what {
		case 'p', 'd', 'q', '=':
		case 'a', 'i', 'c':
			e.text, script, _ = strings.Cut(script, "\n")
			e.text = strings.TrimPrefix(strings.TrimLeft(e.text, " "), "\\")
			if e.text == "" {
				e.text, script, _ = strings.Cut(script, "\n")
			}
		case 's':
			if script, err = s.substitution(e, script); err != nil {
				return err
			}
		default:
			return misused("command %c is not known: s p d q a i c = are", e.what)
		}
		s.edits = append(s.edits, e)
	}
}

func (s *editing) address(script string) (*address, string, error) {
	end := 0
	for end < len(script) && script[end] >= '0' && script[end] <= '9' {
		end++
	}
	switch {
	case end > 0:
		n, err := strconv.Atoi(script[:end])
		if err != nil {
			return nil, "", misused("%q is no line", script[:end])
		}
		return &address{line: n}, script[end:], nil
	case strings.HasPrefix(script, "$"):
		return &address{last: true}, script[1:], nil
	case strings.HasPrefix(script, "/"):
		text, rest, ok := until(script[1:], '/')
		if !ok {
			return nil, "", misused("an address without its end")
		}
		fits, err := regexp.Compile(expression(text, s.extended, false))
		if err != nil {
			return nil, "", misused("%v", err)
		}
		return &address{fits: fits}, rest, nil
	}
	return nil, script, nil
}

// until cuts a text at a character that no backslash stands before.
func until(text string, mark byte) (before, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			i++
			if text[i] != mark {
				b.WriteByte('\\')
			}
			b.WriteByte(text[i])
		case text[i] == mark:
			return b.String(), text[i+1:], true
		default:
			b.WriteByte(text[i])
		}
	}
	return "", "", false
}

func (s *editing) substitution(e *edit, script string) (rest string, err error) {
	if script == "" {
		return "", misused("s without its parts")
	}
	mark := script[0]
	what, rest, ok := until(script[1:], mark)
	if ok {
		e.by, rest, ok = until(rest, mark)
	}
	if !ok {
		return "", misused("s without its end")
	}
	what = expression(what, s.extended, false)
	for rest != "" && !strings.ContainsRune("\n;} ", rune(rest[0])) {
		switch flag := rest[0]; {
		case flag == 'g':
			e.global = true
		case flag == 'p':
			e.print = true
		case flag == 'i' || flag == 'I':
			what = "(?i)" + what
		case flag >= '1' && flag <= '9':
			e.nth = int(flag - '0')
		default:
			return "", misused("flag %c of s is not known", flag)
		}
		rest = rest[1:]
	}
	if e.fits, err = regexp.Compile(what); err != nil {
		return "", misused("%v", err)
	}
	return rest, nil
}

// replace carries out s on a line.
func (e *edit) replace(line string) (string, bool) {
	var b strings.Builder
	at, n, done := 0, 0, false
	for _, m := range e.fits.FindAllStringSubmatchIndex(line, -1) {
		if n++; n < max(e.nth, 1) {
			continue
		}
		if done && !e.global {
			break
		}
		b.WriteString(line[at:m[0]])
		e.write(&b, line, m)
		at, done = m[1], true
	}
	b.WriteString(line[at:])
	return b.String(), done
}

// write says what stands for a match: & is all of it, \1 a group.
func (e *edit) write(b *strings.Builder, line string, m []int) {
	for i := 0; i < len(e.by); i++ {
		ch := e.by[i]
		group := -1
		if ch == '&' {
			group = 0
		}
		if ch == '\\' && i+1 < len(e.by) {
			i++
			switch next := e.by[i]; {
			case next >= '0' && next <= '9':
				group = int(next - '0')
			case next == 'n':
				ch = '\n'
			case next == 't':
				ch = '\t'
			default:
				ch = next
			}
		}
		if group < 0 {
			b.WriteByte(ch)
		} else if 2*group+1 < len(m) && m[2*group] >= 0 {
			b.WriteString(line[m[2*group]:m[2*group+1]])
		}
	}
}

// run edits a text.
func (s *editing) run(ctx context.Context, r io.Reader, w *bufio.Writer) error {
	in := bufio.NewReaderSize(r, 32<<10)
	for n := 1; ; n++ {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		line, err := in.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if line == "" {
			return nil
		}
		_, err = in.Peek(1)
		quit, err := s.edit(w, strings.TrimSuffix(line, "\n"), n, errors.Is(err, io.EOF))
		if err != nil || quit {
			return err
		}
	}
}

// edit carries out all commands on one line.
func (s *editing) edit(w *bufio.Writer, line string, n int, last bool) (quit bool, err error) {
	var after []string
	say := func(text string) {
		if err == nil {
			_, err = w.WriteString(text + "\n")
		}
	}
	gone := false
	for _, e := range s.edits {
		if gone || quit {
			break
		}
		if !e.applies(n, last, line) {
			continue
		}
		switch e.what {
		case 'p':
			say(line)
		case '=':
			say(strconv.Itoa(n))
		case 'd':
			gone = true
		case 'q':
			quit = true
		case 'i':
			say(e.text)
		case 'a':
			after = append(after, e.text)
		case 'c':
			if gone = true; !e.inside {
				say(e.text)
			}
		case 's':
			var done bool
			if line, done = e.replace(line); done && e.print {
				say(line)
			}
		}
	}
	if !gone && !s.quiet {
		say(line)
	}
	for _, text := range after {
		say(text)
	}
	return quit, err
}
