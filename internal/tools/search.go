package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/tool"
)

const globSchema = `{"type":"object","additionalProperties":false,"required":["pattern"],"properties":{
"pattern":{"type":"string","minLength":1,"maxLength":1024,"description":"glob with **, for example **/*.go"},
"limit":{"type":"integer","minimum":1,"maximum":5000,"description":"most files, 500 if absent"}}}`

const grepSchema = `{"type":"object","additionalProperties":false,"required":["pattern"],"properties":{
"pattern":{"type":"string","minLength":1,"maxLength":1024,"description":"regular expression (RE2)"},
"path":{"type":"string","maxLength":4096,"description":"file or folder to search, the workspace if absent"},
"glob":{"type":"string","maxLength":1024,"description":"only files whose path matches, for example **/*.go"},
"context":{"type":"integer","minimum":0,"maximum":20,"description":"lines shown before and after"},
"limit":{"type":"integer","minimum":1,"maximum":2000,"description":"most matches, 200 if absent"}}}`

type globArgs struct {
	Pattern string
	Limit   int
}

type grepArgs struct {
	Pattern, Path, Glob string
	Context, Limit      int
}

// Limits of a search.
const (
	globLimit = 500
	grepLimit = 200
	// maxVisited bounds the files that one search looks at, maxSearched the size of a file that is searched, and
	// maxMatched how much of one line is: a match cannot be interrupted, and takes longer the longer the line is.
	maxVisited  = 200_000
	maxSearched = 8 << 20
	maxMatched  = 16 << 10
)

// errEnough ends a walk early.
var errEnough = errors.New("enough")

func globFiles(ctx context.Context, a globArgs, env tool.Env) (tool.Result, error) {
	pattern := path.Clean(a.Pattern)
	if path.IsAbs(pattern) || pattern == ".." || strings.HasPrefix(pattern, "../") {
		return fileError("glob", a.Pattern, sandbox.ErrOutside)
	}
	globs, err := parsePattern(pattern)
	if err != nil {
		return failed("glob: invalid pattern %q: %v", a.Pattern, err), nil
	}
	limit := a.Limit
	if limit == 0 {
		limit = globLimit
	}
	var names []string
	all, err := walk(ctx, env, ".", func(f found) error {
		if globs.match(f.name) {
			names = append(names, oneLine(f.name))
		}
		return nil
	})
	if err != nil {
		return fileError("glob", a.Pattern, err)
	}
	if len(names) == 0 {
		return tool.Result{Output: "no file matches " + tool.Visible(a.Pattern) + notSearched(all)}, nil
	}
	slices.Sort(names)
	note := notSearched(all)
	if len(names) > limit {
		note = fmt.Sprintf("\n(truncated: %d of %d files)", limit, len(names)) + note
		names = names[:limit]
	}
	return tool.Show(env, strings.Join(names, "\n")+note), nil
}

// notSearched is the note on files that were not looked at.
func notSearched(all bool) string {
	if all {
		return ""
	}
	return fmt.Sprintf("\n(only the first %d files were searched)", maxVisited)
}

func grepFiles(ctx context.Context, a grepArgs, env tool.Env) (tool.Result, error) {
	return grepMany(ctx, a, env, manyFiles)
}

// grepMany asks ripgrep where there are more than many files.
func grepMany(ctx context.Context, a grepArgs, env tool.Env, many int) (tool.Result, error) {
	re, err := regexp.Compile(a.Pattern)
	if err != nil {
		return failed("grep: invalid regular expression %q: %v", a.Pattern, err), nil
	}
	globs := pattern{"**"}
	if a.Glob != "" {
		if globs, err = parsePattern(a.Glob); err != nil {
			return failed("grep: invalid glob %q: %v", a.Glob, err), nil
		}
	}
	dir := "."
	if a.Path != "" {
		dir = path.Clean(a.Path)
	}
	if !fs.ValidPath(dir) {
		return fileError("grep", a.Path, sandbox.ErrOutside)
	}
	g := grepper{re: re, must: musts(a.Pattern), context: a.Context, limit: a.Limit, env: env, many: many}
	if g.limit == 0 {
		g.limit = grepLimit
	}
	all, err := g.search(ctx, dir, literals(a.Pattern), func(f found) error {
		if !globs.match(f.name) && !globs.match(f.base) {
			return nil
		}
		return g.file(ctx, f)
	})
	switch {
	case errors.Is(err, errEnough):
		fmt.Fprintf(&g.out, "(truncated: more matches than the limit)\n")
	case err != nil:
		return fileError("grep", a.Path, err)
	case g.out.Len() == 0:
		return tool.Result{Output: "no line matches " + tool.Visible(a.Pattern) + notSearched(all)}, nil
	case !all:
		g.out.WriteString(notSearched(all)[1:] + "\n")
	}
	return tool.Show(env, g.out.String()), nil
}

// search visits the files of a folder. Where they are many and the pattern holds a text, ripgrep says in which of them
// that text is, and only those are visited.
func (g *grepper) search(ctx context.Context, dir string, literals []string, visit visitor) (all bool, err error) {
	g.left = g.limit
	if all, err = g.eagerly(ctx, dir, literals != nil, visit); !errors.Is(err, errMany) {
		return all, err
	}
	g.out.Reset()
	g.left = g.limit
	names, ok, err := listed(ctx, g.env, dir, literals...)
	switch {
	case err != nil:
		return false, err
	case !ok:
		return walk(ctx, g.env, dir, visit)
	}
	return true, visitAll(ctx, g.env, names, visit)
}

// eagerly visits the first files at once and counts the others, to end with errMany where they are more than g.many and
// that matters; else it visits them too.
func (g *grepper) eagerly(ctx context.Context, dir string, matters bool, visit visitor) (all bool, err error) {
	if !matters {
		return walk(ctx, g.env, dir, visit)
	}
	n := 0
	all, err = walk(ctx, g.env, dir, func(f found) error {
		switch n++; {
		case n > g.many:
			return errMany
		case n <= eagerFiles:
			return visit(f)
		}
		return nil
	})
	if err != nil || n <= eagerFiles {
		return all, err
	}
	n = 0
	return walk(ctx, g.env, dir, func(f found) error {
		if n++; n <= eagerFiles {
			return nil
		}
		return visit(f)
	})
}

type grepper struct {
	re *regexp.Regexp
	// must are texts of which each line that matches holds at least one; none where that is not known.
	must    [][]byte
	context int
	// limit is the most matches, left how many more may come.
	limit, left int
	many        int
	env         tool.Env
	out         strings.Builder
}

// file searches one file; binary and very large ones are passed over.
func (g *grepper) file(ctx context.Context, f found) error {
	data, ok := f.read()
	if !ok {
		return nil
	}
	if any, err := g.any(ctx, data); err != nil || !any {
		return err
	}
	name := f.name
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	shown := -1
	for i, l := range lines {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !g.matches(l) {
			continue
		}
		if g.left == 0 {
			return errEnough
		}
		g.left--
		for j := max(i-g.context, shown+1); j <= min(i+g.context, len(lines)-1); j++ {
			mark := "-"
			if j == i || g.matches(lines[j]) {
				mark = ":"
			}
			fmt.Fprintf(&g.out, "%s%s%d%s%s\n", oneLine(name), mark, j+1, mark, clipLine(lines[j]))
			shown = j
		}
	}
	return nil
}

// any reports whether a line of a file matches.
func (g *grepper) any(ctx context.Context, data []byte) (bool, error) {
	if !g.may(data) {
		return false, nil
	}
	for line := range bytes.SplitSeq(bytes.TrimSuffix(data, []byte("\n")), []byte("\n")) {
		if !g.may(line) {
			continue
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if g.re.Match(line[:min(len(line), maxMatched)]) {
			return true, nil
		}
	}
	return false, nil
}

// may reports whether a text can hold a match.
func (g *grepper) may(text []byte) bool {
	for _, m := range g.must {
		if bytes.Contains(text, m) {
			return true
		}
	}
	return len(g.must) == 0
}

// matches looks at the beginning of a line.
func (g *grepper) matches(line string) bool {
	return g.re.MatchString(line[:min(len(line), maxMatched)])
}
