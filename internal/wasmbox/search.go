package wasmbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// searcher is one call of grep.
type searcher struct {
	*call
	o       options
	match   *regexp.Regexp
	names   bool // say the name of the file before each line
	before  int
	after   int
	most    int
	include []string
	exclude []string
	skipped []string // directories
	found   bool
}

func grep(ctx context.Context, c *call) error {
	o, args, err := c.options("ivnclLrREFwxoqhHsaIGe:m:A:B:C:N:X:D:", "ignore-case=i", "invert-match=v", "line-number=n",
		"count=c",
		"files-with-matches=l", "files-without-match=L", "recursive=r", "extended-regexp=E", "fixed-strings=F",
		"word-regexp=w",
		"line-regexp=x", "only-matching=o", "quiet=q", "no-filename=h", "with-filename=H", "no-messages=s", "regexp=e",
		"max-count=m", "after-context=A", "before-context=B", "context=C", "include=N", "exclude=X", "exclude-dir=D")
	if err != nil {
		return err
	}
	patterns := o.values['e']
	if len(patterns) == 0 {
		if len(args) == 0 {
			return misused("wants a pattern")
		}
		patterns, args = args[:1], args[1:]
	}
	s := &searcher{call: c, o: o, most: -1, include: o.values['N'], exclude: o.values['X'], skipped: o.values['D']}
	if s.match, err = s.pattern(patterns); err != nil {
		return misused("pattern: %v", err)
	}
	for letter, to := range map[byte]*int{'m': &s.most, 'A': &s.after, 'B': &s.before} {
		if text, ok := o.value[letter]; ok {
			if *to, err = strconv.Atoi(text); err != nil {
				return misused("%q is no number", text)
			}
		} else if text, ok := o.value['C']; ok && letter != 'm' {
			if *to, err = strconv.Atoi(text); err != nil {
				return misused("%q is no number", text)
			}
		}
	}
	recursive := o.has('r') || o.has('R')
	if recursive && len(args) == 0 {
		args = []string{"."}
	}
	s.names = (recursive || len(args) > 1 || o.has('H')) && !o.has('h')
	if err := s.all(ctx, args, recursive); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch {
	case s.failed && !(s.found && o.has('q')):
		return misuse
	case !s.found:
		return failure
	}
	return nil
}

// pattern joins the patterns of a call.
func (s *searcher) pattern(patterns []string) (*regexp.Regexp, error) {
	var each []string
	for _, p := range patterns {
		for one := range strings.SplitSeq(p, "\n") {
			each = append(each, "(?:"+expression(one, s.o.has('E'), s.o.has('F'))+")")
		}
	}
	text := strings.Join(each, "|")
	if s.o.has('w') {
		text = `\b(?:` + text + `)\b`
	}
	if s.o.has('x') {
		text = `^(?:` + text + `)$`
	}
	if s.o.has('i') {
		text = "(?i)" + text
	}
	return regexp.Compile(text)
}

func (s *searcher) all(ctx context.Context, args []string, recursive bool) error {
	if !recursive {
		return s.each(args, func(name string, r io.Reader) error { return s.file(ctx, name, r) })
	}
	for _, root := range args {
		err := filepath.WalkDir(s.at(root), func(at string, d fs.DirEntry, err error) error {
			if err != nil {
				s.warn(err)
				return nil
			}
			name := path.Join(root, strings.TrimPrefix(at, s.at(root)))
			if d.IsDir() {
				if at != s.at(root) && matches(s.skipped, d.Name()) {
					return fs.SkipDir
				}
				return ctx.Err()
			}
			if !d.Type().IsRegular() || matches(s.exclude, d.Name()) || len(s.include) > 0 && !matches(s.include, d.Name()) {
				return nil
			}
			return s.each([]string{at}, func(_ string, r io.Reader) error { return s.file(ctx, name, r) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// matches reports whether one of the patterns for names fits.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return err == nil && ok
	})
}

// file searches one text. It returns io.EOF where nothing more is to be searched at all.
func (s *searcher) file(ctx context.Context, name string, r io.Reader) error {
	if name == "-" {
		name = "(standard input)"
	}
	n, hits, owed, shown := 0, 0, 0, 0
	var last []string
	prefix := func(mark string, n int) string {
		p := ""
		if s.names {
			p = name + mark
		}
		if s.o.has('n') {
			p += strconv.Itoa(n) + mark
		}
		return p
	}
	quiet := s.o.has('q') || s.o.has('c') || s.o.has('l') || s.o.has('L')
	err := lines(ctx, r, func(line string) error {
		n++
		if s.match.MatchString(line) == s.o.has('v') {
			if owed > 0 && !quiet {
				owed, shown = owed-1, n
				return s.line(prefix("-", n) + line)
			}
			if last = append(last, line); len(last) > s.before {
				last = last[1:]
			}
			return nil
		}
		hits++
		s.found = true
		if s.o.has('q') {
			return io.EOF
		}
		if !quiet {
			if err := s.hit(line, last, prefix, n, shown); err != nil {
				return err
			}
			shown = n
		}
		last, owed = nil, s.after
		if s.o.has('l') || hits == s.most {
			return fs.SkipAll
		}
		return nil
	})
	if errors.Is(err, fs.SkipAll) {
		err = nil
	}
	if err != nil {
		return err
	}
	switch {
	case s.o.has('l') && hits > 0, s.o.has('L') && hits == 0:
		return s.line(name)
	case s.o.has('c'):
		p := ""
		if s.names {
			p = name + ":"
		}
		return s.line(p + strconv.Itoa(hits))
	}
	return nil
}

// hit says a line that was found, with those before it.
func (s *searcher) hit(line string, last []string, prefix func(string, int) string, n, shown int) error {
	if (s.before > 0 || s.after > 0) && shown > 0 && n-len(last) > shown+1 {
		if err := s.line("--"); err != nil {
			return err
		}
	}
	for i, text := range last {
		if err := s.line(prefix("-", n-len(last)+i) + text); err != nil {
			return err
		}
	}
	if !s.o.has('o') || s.o.has('v') {
		return s.line(prefix(":", n) + line)
	}
	for _, part := range s.match.FindAllString(line, -1) {
		if part == "" {
			continue
		}
		if err := s.line(prefix(":", n) + part); err != nil {
			return err
		}
	}
	return nil
}

// test says whether find wants a file.
type test func(at, name string, d fs.DirEntry) bool

// finder is one call of find.
type finder struct {
	*call
	tests       []test
	least, most int
	print0      bool
	remove      bool
	each        []string // the command of -exec
}

func find(ctx context.Context, c *call) error {
	args := c.Args[1:]
	var roots []string
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") && args[0] != "!" {
		roots, args = append(roots, args[0]), args[1:]
	}
	if len(roots) == 0 {
		roots = []string{"."}
	}
	f := &finder{call: c, most: 1 << 30}
	if err := f.parse(args); err != nil {
		return err
	}
	for _, root := range roots {
		if err := f.walk(ctx, root, 0); err != nil {
			return err
		}
	}
	return nil
}

func (f *finder) parse(args []string) error {
	no := false
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		value := func() string {
			if len(args) == 0 {
				return ""
			}
			v := args[0]
			args = args[1:]
			return v
		}
		var t test
		var err error
		switch word {
		case "!", "-not":
			no = !no
			continue
		case "-name", "-iname", "-path":
			t = named(word, value())
		case "-type":
			kind := value()
			t = func(_, _ string, d fs.DirEntry) bool { return kind == kindOf(d.Type()) }
		case "-empty":
			t = f.empty
		case "-newer":
			t, err = f.newer(value())
		case "-maxdepth":
			f.most, err = strconv.Atoi(value())
		case "-mindepth":
			f.least, err = strconv.Atoi(value())
		case "-print":
		case "-print0":
			f.print0 = true
		case "-delete":
			f.remove = true
		case "-exec":
			end := slices.IndexFunc(args, func(a string) bool { return a == ";" || a == "+" })
			if end < 1 {
				return misused("-exec wants a command that ends with ;")
			}
			f.each, args = args[:end], args[end+1:]
		default:
			return misused("%s is not known", word)
		}
		if err != nil {
			return misused("%s: %v", word, err)
		}
		if t != nil {
			if inner := t; no {
				t = func(at, name string, d fs.DirEntry) bool { return !inner(at, name, d) }
			}
			f.tests = append(f.tests, t)
		}
		no = false
	}
	return nil
}

func named(word, pattern string) test {
	return func(_, name string, d fs.DirEntry) bool {
		what := d.Name()
		switch word {
		case "-iname":
			pattern, what = strings.ToLower(pattern), strings.ToLower(what)
		case "-path":
			// Here a star fits a slash, too.
			expr, err := regexp.Compile("^" + strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern)) +
				"$")
			return err == nil && expr.MatchString(name)
		}
		ok, err := path.Match(pattern, what)
		return err == nil && ok
	}
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "d"
	case mode&fs.ModeSymlink != 0:
		return "l"
	case mode.IsRegular():
		return "f"
	}
	return "?"
}

func (f *finder) empty(at, _ string, d fs.DirEntry) bool {
	if d.IsDir() {
		list, err := os.ReadDir(at)
		return err == nil && len(list) == 0
	}
	info, err := d.Info()
	return err == nil && info.Size() == 0
}

func (f *finder) newer(name string) (test, error) {
	than, err := os.Stat(f.at(name))
	if err != nil {
		return nil, err
	}
	return func(_, _ string, d fs.DirEntry) bool {
		info, err := d.Info()
		return err == nil && info.ModTime().After(than.ModTime())
	}, nil
}

func (f *finder) walk(ctx context.Context, name string, depth int) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	info, err := os.Lstat(f.at(name))
	if err != nil {
		f.warn(err)
		return nil
	}
	d := fs.FileInfoToDirEntry(info)
	if f.remove {
		defer f.act(ctx, name, d, depth)
	} else if err := f.act(ctx, name, d, depth); err != nil {
		return err
	}
	if !info.IsDir() || depth >= f.most {
		return nil
	}
	list, err := os.ReadDir(f.at(name))
	if err != nil {
		f.warn(err)
		return nil
	}
	for _, entry := range list {
		if err := f.walk(ctx, strings.TrimSuffix(name, "/")+"/"+entry.Name(), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// act does what is asked with one file that passes the tests.
func (f *finder) act(ctx context.Context, name string, d fs.DirEntry, depth int) error {
	if depth < f.least || slices.ContainsFunc(f.tests, func(t test) bool { return !t(f.at(name), name, d) }) {
		return nil
	}
	switch {
	case f.remove:
		if err := os.Remove(f.at(name)); err != nil {
			f.warn(err)
		}
		return nil
	case f.each != nil:
		if err := f.out.Flush(); err != nil {
			return err
		}
		next := f.Call
		next.Args = nil
		for _, arg := range f.each {
			next.Args = append(next.Args, strings.ReplaceAll(arg, "{}", name))
		}
		next.In = bytes.NewReader(nil)
		if code := run(ctx, next); code != 0 {
			f.failed = true
		}
		return nil
	case f.print0:
		_, err := fmt.Fprintf(f.out, "%s\x00", name)
		return err
	}
	return f.line(name)
}
