package tools

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/tool"
)

const (
	// manyFiles is how many files are looked at before ripgrep is asked: starting it is not worth it for fewer.
	manyFiles = 2000
	// eagerFiles are searched before the others are counted: what is common is found in them.
	eagerFiles = 100
	// maxListed is the most bytes of names that ripgrep may answer with.
	maxListed = 64 << 20
	// minLiteral is the shortest text, in bytes, that ripgrep is asked to look for.
	minLiteral = 2
)

// errMany ends a walk that ripgrep could do faster.
var errMany = errors.New("many files")

// quiet has ripgrep look at the same files as walk does, whatever the workspace or its user configured.
var quiet = []string{"rg", "--no-config", "--no-messages", "--no-ignore", "--hidden", "--no-follow", "--null",
	"--color=never", "--sort=none", "--glob=!.git/"}

// listed asks ripgrep for names below a folder, in the order of walk; false where it is not there or could not tell.
// It only names files that may matter: what is shown of them is decided by the same code as without it.
func listed(ctx context.Context, env tool.Env, dir string, args ...string) ([]string, bool, error) {
	if !plainDir(env, dir) {
		return nil, false, nil
	}
	out := &upTo{left: maxListed}
	argv := slices.Concat(quiet, args, []string{"--", "./" + dir})
	exit, err := env.Sandbox.Exec(ctx, sandbox.Cmd{Args: argv, AnyProgram: true, Stdout: out})
	switch {
	case ctx.Err() != nil:
		return nil, false, ctx.Err()
	case err != nil || exit.Code > 1 || exit.Signal != "" || out.full:
		return nil, false, nil
	}
	var names []string
	for name := range strings.SplitSeq(out.String(), "\x00") {
		if name == "" {
			continue
		}
		name = path.Clean(name)
		if parent := path.Dir(name); fs.ValidPath(parent) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00"))
	})
	return names, true, nil
}

// plainDir reports whether a folder is one by its own name, not by a link, and not git's.
func plainDir(env tool.Env, dir string) bool {
	links, ok := env.Sandbox.FS().(fs.ReadLinkFS)
	for at := dir; ok && at != "."; at = path.Dir(at) {
		info, err := links.Lstat(at)
		ok = err == nil && info.IsDir() && path.Base(at) != ".git"
	}
	return ok
}

// upTo keeps output up to a limit.
type upTo struct {
	bytes.Buffer
	left int
	full bool
}

func (u *upTo) Write(p []byte) (int, error) {
	if u.left -= len(p); u.left < 0 {
		u.full = true
		return 0, sandbox.ErrTooLarge
	}
	return u.Buffer.Write(p)
}

// literals are texts of which each line that matches holds at least one, as arguments of ripgrep; nil where there are
// none.
func literals(pattern string) []string {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil
	}
	found := needs(re.Simplify(), minLiteral)
	if len(found) == 0 {
		return nil
	}
	args := []string{"--files-with-matches", "--text", "--encoding=none", "--max-filesize=8M", "--fixed-strings"}
	for _, l := range found {
		args = append(args, "--regexp="+l.text)
		if l.fold {
			args = append(args, "--ignore-case")
		}
	}
	return args
}

type literal struct {
	text string
	fold bool
}

// musts are texts of which each line that matches holds at least one, as they stand; nil where there are none.
func musts(pattern string) [][]byte {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil
	}
	var all [][]byte
	for _, l := range needs(re.Simplify(), 1) {
		if l.fold {
			return nil
		}
		all = append(all, []byte(l.text))
	}
	return all
}

// needs returns texts of at least so many bytes of which a match holds at least one; nil where none can be told.
func needs(re *syntax.Regexp, least int) []literal {
	switch re.Op {
	case syntax.OpLiteral:
		text := string(re.Rune)
		// U+FFFD stands for any byte that is no UTF-8.
		if len(text) < least || strings.ContainsAny(text, "\x00\n\r\uFFFD") {
			return nil
		}
		return []literal{{text, re.Flags&syntax.FoldCase != 0}}
	case syntax.OpCapture, syntax.OpPlus:
		return needs(re.Sub[0], least)
	case syntax.OpRepeat:
		if re.Min > 0 {
			return needs(re.Sub[0], least)
		}
	case syntax.OpConcat:
		var best []literal
		for _, sub := range re.Sub {
			if l := needs(sub, least); shortest(l) > shortest(best) {
				best = l
			}
		}
		return best
	case syntax.OpAlternate:
		var all []literal
		for _, sub := range re.Sub {
			l := needs(sub, least)
			if l == nil {
				return nil
			}
			all = append(all, l...)
		}
		if len(all) <= maxAlternatives {
			return all
		}
	}
	return nil
}

func shortest(list []literal) int {
	n := 0
	for i, l := range list {
		if i == 0 || len(l.text) < n {
			n = len(l.text)
		}
	}
	return n
}
