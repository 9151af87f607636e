package tools

import (
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
	// maxMatched how much of one line is: a match can not be interrupted, and takes longer the longer the line is.
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
		return failed("glob: %q is not a pattern to search with: %v", a.Pattern, err), nil
	}
	limit := a.Limit
	if limit == 0 {
		limit = globLimit
	}
	var found []string
	all, err := walk(ctx, env, ".", func(name string, _ fs.DirEntry) error {
		if globs.match(name) {
			found = append(found, oneLine(name))
		}
		return nil
	})
	if err != nil {
		return fileError("glob", a.Pattern, err)
	}
	if len(found) == 0 {
		return tool.Result{Output: "no file matches " + Visible(a.Pattern) + beyond(all)}, nil
	}
	slices.Sort(found)
	note := beyond(all)
	if len(found) > limit {
		note = fmt.Sprintf("\n(truncated: %d of %d files)", limit, len(found)) + note
		found = found[:limit]
	}
	return Show(env, strings.Join(found, "\n")+note), nil
}

type visitor func(name string, d fs.DirEntry) error

// few ends a walk with errMany where there are more than most files.
func few(most int, visit visitor) visitor {
	visited := 0
	return func(name string, d fs.DirEntry) error {
		if visited++; visited > most {
			return errMany
		}
		return visit(name, d)
	}
}

// beyond is the note on files that were not looked at.
func beyond(all bool) string {
	if all {
		return ""
	}
	return fmt.Sprintf("\n(only the first %d files were looked at)", maxVisited)
}

// walk visits the regular files below a folder, but not git's own; all is false where there are more than maxVisited.
func walk(ctx context.Context, env tool.Env, dir string, visit visitor) (all bool, err error) {
	visited := 0
	err = fs.WalkDir(env.Box.FS(), dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && name == dir:
			return err
		case err != nil:
			return nil // a folder that can not be read is passed over
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		if visited++; visited > maxVisited {
			return fs.SkipAll
		}
		return visit(name, d)
	})
	return visited <= maxVisited, err
}

func grepFiles(ctx context.Context, a grepArgs, env tool.Env) (tool.Result, error) {
	return grepBeyond(ctx, a, env, manyFiles)
}

// grepBeyond asks ripgrep where there are more than many files.
func grepBeyond(ctx context.Context, a grepArgs, env tool.Env, many int) (tool.Result, error) {
	re, err := regexp.Compile(a.Pattern)
	if err != nil {
		return failed("grep: %q is not a regular expression: %v", a.Pattern, err), nil
	}
	globs := pattern{"**"}
	if a.Glob != "" {
		if globs, err = parsePattern(a.Glob); err != nil {
			return failed("grep: %q is not a glob to search with: %v", a.Glob, err), nil
		}
	}
	dir := "."
	if a.Path != "" {
		dir = path.Clean(a.Path)
	}
	if !fs.ValidPath(dir) {
		return fileError("grep", a.Path, sandbox.ErrOutside)
	}
	g := grepper{re: re, context: a.Context, limit: a.Limit, env: env, many: many}
	if g.limit == 0 {
		g.limit = grepLimit
	}
	all, err := g.search(ctx, dir, literals(a.Pattern), func(name string, d fs.DirEntry) error {
		if !globs.match(name) && !globs.match(path.Base(name)) {
			return nil
		}
		return g.file(ctx, name, d)
	})
	switch {
	case errors.Is(err, errEnough):
		fmt.Fprintf(&g.out, "(truncated: more matches than the limit)\n")
	case err != nil:
		return fileError("grep", a.Path, err)
	case g.out.Len() == 0:
		return tool.Result{Output: "no line matches " + Visible(a.Pattern) + beyond(all)}, nil
	case !all:
		g.out.WriteString(beyond(all)[1:] + "\n")
	}
	return Show(env, g.out.String()), nil
}

// search visits the files of a folder. Where they are many and the pattern holds a text, ripgrep says in which of them
// that text is, and only those are visited.
func (g *grepper) search(ctx context.Context, dir string, literals []string, visit visitor) (all bool, err error) {
	first := visit
	if literals != nil {
		first = few(g.many, visit)
	}
	g.left = g.limit
	all, err = walk(ctx, g.env, dir, first)
	if !errors.Is(err, errMany) {
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
	for _, name := range names {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if err := visit(name, nil); err != nil {
			return true, err
		}
	}
	return true, nil
}

type grepper struct {
	re      *regexp.Regexp
	context int
	// limit is the most matches, left how many more may come.
	limit, left int
	many        int
	env         tool.Env
	out         strings.Builder
}

// file searches one file; binary and very large ones are passed over.
func (g *grepper) file(ctx context.Context, name string, d fs.DirEntry) error {
	if d != nil { // else ripgrep looked at its size
		if info, err := d.Info(); err != nil || info.Size() > maxSearched {
			return nil
		}
	}
	data, err := g.env.Box.ReadFile(name)
	if err != nil || binary(data) {
		return nil
	}
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

// matches looks at the beginning of a line.
func (g *grepper) matches(line string) bool {
	return g.re.MatchString(line[:min(len(line), maxMatched)])
}
