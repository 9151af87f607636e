package wasmbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

func cat(_ context.Context, c *call) error {
	o, names, err := c.options("nu", "number=n")
	if err != nil {
		return err
	}
	n := 0
	return c.each(names, func(_ string, r io.Reader) error {
		if !o.has('n') {
			_, err := io.Copy(c.out, r)
			if flushed := c.out.Flush(); err == nil {
				err = flushed
			}
			return err
		}
		return lines(context.Background(), r, func(line string) error {
			n++
			return c.line(fmt.Sprintf("%6d\t%s", n, line))
		})
	})
}

// size reads a number with a suffix such as k or M.
func size(text string) (int64, error) {
	digits := strings.TrimRight(text, "bBkKmMgGi")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 && digits[0] != '-' {
		return 0, misused("%q is no number", text)
	}
	switch suffix := strings.ToLower(text[len(digits):]); suffix {
	case "", "b":
		return n, nil
	case "k", "kb", "kib":
		return n << 10, nil
	case "m", "mb", "mib":
		return n << 20, nil
	case "g", "gb", "gib":
		return n << 30, nil
	}
	return 0, misused("%q is no number", text)
}

// short numbers: head -5 is head -n 5.
func (c *call) numbered() {
	for i, arg := range c.Args[1:] {
		if len(arg) > 1 && arg[0] == '-' && arg[1] >= '0' && arg[1] <= '9' {
			c.Args = slices.Replace(slices.Clone(c.Args), i+1, i+2, "-n", arg[1:])
			return
		}
	}
}

func head(ctx context.Context, c *call) error {
	c.numbered()
	o, names, err := c.options("n:c:q", "lines=n", "bytes=c", "quiet=q")
	if err != nil {
		return err
	}
	count, bytes := int64(10), o.has('c')
	for _, letter := range []byte{'n', 'c'} {
		if o.has(letter) {
			if count, err = size(o.value[letter]); err != nil {
				return err
			}
		}
	}
	if count < 0 {
		return misused("a count from the end is not known here")
	}
	return c.each(names, func(name string, r io.Reader) error {
		if len(names) > 1 && !o.has('q') {
			if err := c.line("==> " + name + " <=="); err != nil {
				return err
			}
		}
		if bytes {
			_, err := io.Copy(c.out, io.LimitReader(r, count))
			return err
		}
		left := count
		if left == 0 {
			return nil
		}
		err := rawLines(ctx, r, func(line string) error {
			if _, err := c.out.WriteString(line); err != nil {
				return err
			}
			if left--; left == 0 {
				return io.EOF
			}
			return nil
		})
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	})
}

func tail(ctx context.Context, c *call) error {
	c.numbered()
	o, names, err := c.options("n:c:q", "lines=n", "bytes=c", "quiet=q")
	if err != nil {
		return err
	}
	text := "10"
	if o.has('n') {
		text = o.value['n']
	}
	if o.has('c') {
		text = o.value['c']
	}
	count, err := size(strings.TrimPrefix(text, "-"))
	if err != nil {
		return err
	}
	from := strings.HasPrefix(text, "+")
	return c.each(names, func(name string, r io.Reader) error {
		if len(names) > 1 && !o.has('q') {
			if err := c.line("==> " + name + " <=="); err != nil {
				return err
			}
		}
		if o.has('c') {
			return c.tailBytes(r, count, from)
		}
		n := int64(0)
		var last []string
		err := rawLines(ctx, r, func(line string) error {
			n++
			if from {
				if n >= count {
					_, err := c.out.WriteString(line)
					return err
				}
				return nil
			}
			if last = append(last, line); int64(len(last)) > count {
				last = last[1:]
			}
			return nil
		})
		for _, line := range last {
			if err == nil {
				_, err = c.out.WriteString(line)
			}
		}
		return err
	})
}

func (c *call) tailBytes(r io.Reader, count int64, from bool) error {
	if from {
		if _, err := io.CopyN(io.Discard, r, max(count-1, 0)); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		_, err := io.Copy(c.out, r)
		return err
	}
	var last []byte
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		last = append(last, buf[:n]...)
		if over := int64(len(last)) - count; over > 0 {
			last = append(last[:0], last[over:]...)
		}
		if errors.Is(err, io.EOF) {
			_, err = c.out.Write(last)
			return err
		}
		if err != nil {
			return err
		}
	}
}

func wc(_ context.Context, c *call) error {
	o, names, err := c.options("lwcm", "lines=l", "words=w", "bytes=c", "chars=m")
	if err != nil {
		return err
	}
	if len(o.given) == 0 {
		o.given = map[byte]int{'l': 1, 'w': 1, 'c': 1}
	}
	say := func(counts map[byte]int, name string) error {
		var parts []string
		for _, letter := range []byte("lwmc") {
			if o.has(letter) {
				parts = append(parts, strconv.Itoa(counts[letter]))
			}
		}
		if name != "-" {
			parts = append(parts, name)
		}
		return c.line(strings.Join(parts, " "))
	}
	total := map[byte]int{}
	err = c.each(names, func(name string, r io.Reader) error {
		counts, err := countText(r)
		if err != nil {
			return err
		}
		for letter, n := range counts {
			total[letter] += n
		}
		return say(counts, name)
	})
	if err == nil && len(names) > 1 {
		err = say(total, "total")
	}
	return err
}

func countText(r io.Reader) (map[byte]int, error) {
	var newlines, words, bytes, chars int
	buf := make([]byte, 32<<10)
	word := false
	for {
		n, err := r.Read(buf)
		for _, b := range buf[:n] {
			space := b == ' ' || b >= '\t' && b <= '\r'
			if b == '\n' {
				newlines++
			}
			if !space && !word {
				words++
			}
			if utf8.RuneStart(b) {
				chars++
			}
			word = !space
		}
		bytes += n
		if errors.Is(err, io.EOF) {
			return map[byte]int{'l': newlines, 'w': words, 'c': bytes, 'm': chars}, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func uniq(ctx context.Context, c *call) error {
	o, names, err := c.options("cdu", "count=c", "repeated=d", "unique=u")
	if err != nil {
		return err
	}
	last, n := "", 0
	say := func() error {
		if n == 0 || o.has('d') && n < 2 || o.has('u') && n > 1 {
			return nil
		}
		if o.has('c') {
			return c.line(fmt.Sprintf("%7d %s", n, last))
		}
		return c.line(last)
	}
	err = c.each(names[:min(len(names), 1)], func(_ string, r io.Reader) error {
		return lines(ctx, r, func(line string) error {
			if n > 0 && line == last {
				n++
				return nil
			}
			err := say()
			last, n = line, 1
			return err
		})
	})
	if err == nil {
		err = say()
	}
	return err
}

func tee(_ context.Context, c *call) error {
	o, names, err := c.options("a", "append=a")
	if err != nil {
		return err
	}
	to := []io.Writer{c.Out}
	flag := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if o.has('a') {
		flag = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	for _, name := range names {
		f, err := os.OpenFile(c.at(name), flag, 0o644)
		if err != nil {
			c.warn(err)
			continue
		}
		defer func() {
			if err := f.Close(); err != nil {
				c.warn(err)
			}
		}()
		to = append(to, f)
	}
	_, err = io.Copy(io.MultiWriter(to...), c.In)
	return err
}

// ranges reads a list such as 1,3-5,7-.
func ranges(list string) (func(n int) bool, error) {
	type span struct{ from, to int }
	var spans []span
	for part := range strings.SplitSeq(list, ",") {
		from, to, dash := strings.Cut(part, "-")
		s := span{1, int(^uint(0) >> 1)}
		var err error
		if from != "" {
			s.from, err = strconv.Atoi(from)
		}
		if err == nil && !dash {
			s.to = s.from
		}
		if err == nil && to != "" {
			s.to, err = strconv.Atoi(to)
		}
		if err != nil || s.from < 1 || part == "-" || part == "" {
			return nil, misused("%q is no list of numbers", list)
		}
		spans = append(spans, s)
	}
	return func(n int) bool {
		return slices.ContainsFunc(spans, func(s span) bool { return n >= s.from && n <= s.to })
	}, nil
}

func cut(ctx context.Context, c *call) error {
	o, names, err := c.options("d:f:c:b:s", "delimiter=d", "fields=f", "characters=c", "only-delimited=s")
	if err != nil {
		return err
	}
	list, apart := o.value['f'], "\t"
	chars := !o.has('f')
	if chars {
		list = o.value['c'] + o.value['b']
	}
	if o.has('d') {
		apart = o.value['d']
	}
	wanted, err := ranges(list)
	if err != nil {
		return err
	}
	return c.each(names, func(_ string, r io.Reader) error {
		return lines(ctx, r, func(line string) error {
			parts, glue := strings.Split(line, apart), apart
			if chars {
				parts, glue = strings.Split(line, ""), ""
			} else if len(parts) == 1 {
				if o.has('s') {
					return nil
				}
				return c.line(line)
			}
			var kept []string
			for i, part := range parts {
				if wanted(i + 1) {
					kept = append(kept, part)
				}
			}
			return c.line(strings.Join(kept, glue))
		})
	})
}

// set reads a set of characters as tr knows them: a-z, \n, [:space:].
func set(text string) []rune {
	for class, all := range map[string]string{
		"[:digit:]": "0-9", "[:lower:]": "a-z", "[:upper:]": "A-Z", "[:alpha:]": "A-Za-z", "[:alnum:]": "0-9A-Za-z",
		"[:space:]": `\t\n\v\f\r `, "[:blank:]": `\t `, "[:punct:]": "!-/:-@\\[-`{-~",
	} {
		text = strings.ReplaceAll(text, class, all)
	}
	var out []rune
	all := []rune(text)
	one := func(i int) (rune, int) {
		if all[i] != '\\' || i+1 >= len(all) {
			return all[i], i + 1
		}
		if at := strings.IndexRune("ntrvf0", all[i+1]); at >= 0 {
			return rune("\n\t\r\v\f\x00"[at]), i + 2
		}
		return all[i+1], i + 2
	}
	for i := 0; i < len(all); {
		from, next := one(i)
		to := from
		if next+1 < len(all) && all[next] == '-' {
			to, next = one(next + 1)
		}
		for r := from; r <= to; r++ {
			out = append(out, r)
		}
		i = next
	}
	return out
}

func tr(_ context.Context, c *call) error {
	o, args, err := c.options("dsc", "delete=d", "squeeze-repeats=s", "complement=c")
	if err != nil {
		return err
	}
	if len(args) == 0 || len(args) == 1 && !o.has('d') && !o.has('s') {
		return misused("wants two sets of characters")
	}
	from := set(args[0])
	var to []rune
	if len(args) > 1 {
		to = set(args[1])
	}
	in := bufio.NewReaderSize(c.In, 32<<10)
	last := rune(-1)
	for {
		r, _, err := in.ReadRune()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		at := slices.Index(from, r)
		meant := (at >= 0) != o.has('c')
		if meant && o.has('d') {
			continue
		}
		if meant && len(to) > 0 && !o.has('d') {
			r = to[min(max(at, 0), len(to)-1)]
			if o.has('c') {
				r = to[len(to)-1]
			}
		}
		if meant && o.has('s') && r == last {
			continue
		}
		last = r
		if _, err := c.out.WriteRune(r); err != nil {
			return err
		}
	}
}

// expression makes a pattern of POSIX into one of Go. In basic ones the special characters are those behind a
// backslash.
func expression(pattern string, extended, fixed bool) string {
	if fixed {
		return regexp.QuoteMeta(pattern)
	}
	pattern = strings.NewReplacer(`\<`, `\b`, `\>`, `\b`).Replace(pattern)
	if extended {
		return pattern
	}
	var b strings.Builder
	bracket := false
	for i := 0; i < len(pattern); i++ {
		ch := pattern[i]
		switch {
		case bracket:
			b.WriteByte(ch)
			bracket = ch != ']' || pattern[i-1] == '[' || pattern[i-1] == '^'
		case ch == '\\' && i+1 < len(pattern):
			i++
			if !strings.ContainsRune("(){}|+?", rune(pattern[i])) {
				b.WriteByte('\\')
			}
			b.WriteByte(pattern[i])
		case strings.ContainsRune("(){}|+?", rune(ch)):
			b.WriteString("\\" + string(ch))
		case ch == '*' && (i == 0 || i == 1 && pattern[0] == '^'):
			b.WriteString(`\*`)
		default:
			bracket = ch == '['
			b.WriteByte(ch)
		}
	}
	return b.String()
}
