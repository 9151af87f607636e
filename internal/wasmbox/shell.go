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
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// ReportOption, with a mark behind it, has the shell say on its way out, on standard error, the mark, the directory
// that it ends in and a NUL.
const ReportOption = "--told"

// shell runs a text (-c) or a file, as bash would read it, with the programs of the box for commands. There are no
// processes: a pipeline and what runs in the background are threads of this program and end with it.
func shell(ctx context.Context, c *call) error {
	args := c.Args[1:]
	mark, text, inline, set := "", "", false, []string{}
	for len(args) > 0 && (strings.HasPrefix(args[0], "-") || strings.HasPrefix(args[0], "+")) && args[0] != "-" {
		option := args[0]
		args = args[1:]
		switch {
		case option == "--":
		case (option == ReportOption || option == "-c" || option == "-o" || option == "+o") && len(args) == 0:
			return misused("option %s wants a value", option)
		case option == ReportOption:
			mark, args = args[0], args[1:]
			continue
		case option == "-o" || option == "+o":
			set, args = append(set, option, args[0]), args[1:]
			continue
		case strings.HasPrefix(option, "--"):
			return misused("option %s is not known", option)
		case option[0] == '-' && strings.Contains(option, "c"):
			inline = true
			if rest := strings.NewReplacer("c", "", "l", "").Replace(option); rest != "-" {
				set = append(set, rest)
			}
			continue
		default:
			set = append(set, option)
			continue
		}
		break
	}
	name := c.Args[0]
	switch {
	case inline && len(args) == 0:
		return misused("-c wants a text")
	case inline:
		if text, args = args[0], args[1:]; len(args) > 0 {
			name, args = args[0], args[1:]
		}
	case len(args) > 0:
		data, err := os.ReadFile(c.at(args[0]))
		if err != nil {
			c.warn(err)
			return unknown
		}
		text, name, args = string(data), args[0], args[1:]
	default:
		data, err := io.ReadAll(c.In)
		if err != nil {
			return err
		}
		text = string(data)
		c.In = bytes.NewReader(nil)
	}
	return c.interpret(ctx, text, name, append(append(set, "--"), args...), mark)
}

// interpret runs a text.
func (c *call) interpret(ctx context.Context, text, name string, params []string, mark string) error {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), name)
	if err != nil {
		fmt.Fprintln(c.Err, err)
		return misuse
	}
	r, err := interp.New(
		interp.Env(expand.ListEnviron(c.Env...)), interp.Dir(c.Dir), interp.StdIO(c.In, c.Out, c.Err),
		interp.Params(params...),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return c.exec }),
		interp.OpenHandler(open), interp.StatHandler(c.stat), interp.AccessHandler(c.access),
	)
	if err != nil {
		return err
	}
	err = r.Run(ctx, file)
	if mark != "" {
		fmt.Fprintf(c.Err, "%s%s\x00", mark, r.Dir)
	}
	if s, ok := errors.AsType[interp.ExitStatus](err); ok {
		return status(s)
	}
	return err
}

// exec carries out a command of the shell.
func (c *call) exec(ctx context.Context, args []string) error {
	h := interp.HandlerCtx(ctx)
	next := Call{Args: args, In: h.Stdin, Out: h.Stdout, Err: h.Stderr, Dir: h.Dir, Host: c.Host}
	if h.Stdin == nil {
		next.In = bytes.NewReader(nil)
	}
	for name, v := range h.Env.Each {
		if v.Exported && v.Kind == expand.String {
			next.Env = append(next.Env, name+"="+v.Str)
		}
	}
	n := 0
	if base, ok := system(args[0]); ok {
		next.Args = append([]string{base}, args[1:]...)
		n = run(ctx, next)
	} else {
		n = next.file(ctx)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if n != 0 {
		return interp.ExitStatus(uint8(n))
	}
	return nil
}

// system is the name of a program that is called without a path, or by one where systems have programs.
func system(name string) (string, bool) {
	for _, dir := range []string{"/bin/", "/usr/bin/"} {
		if rest, ok := strings.CutPrefix(name, dir); ok {
			return rest, true
		}
	}
	return name, !strings.Contains(name, "/")
}

// file runs a script by its path.
func (c Call) file(ctx context.Context) int {
	refuse := func(code status, text string) int {
		fmt.Fprintf(c.Err, "%s: %s\n", c.Args[0], text)
		return int(code)
	}
	at := c.Args[0]
	if !path.IsAbs(at) {
		at = path.Join(c.Dir, at)
	}
	data, err := os.ReadFile(at)
	if err != nil {
		return refuse(unknown, cause(err).Error())
	}
	if mode, err := c.Host.Mode(at); err != nil || mode&0o111 == 0 {
		return refuse(126, "permission denied: it is not executable, chmod +x makes it so")
	}
	line, _, _ := strings.Cut(string(data), "\n")
	if strings.ContainsRune(line, 0) {
		return refuse(126, "not a script: this sandbox starts no other programs")
	}
	by := []string{"sh"}
	if words, ok := strings.CutPrefix(line, "#!"); ok {
		if by = strings.Fields(words); len(by) > 1 && path.Base(by[0]) == "env" {
			by = by[1:]
		}
	}
	if len(by) == 0 {
		return refuse(126, "its first line names no interpreter")
	}
	c.Args = append(append([]string{path.Base(by[0])}, by[1:]...), append([]string{at}, c.Args[1:]...)...)
	return run(ctx, c)
}

// open opens what the shell redirects. The names of the standard streams mean those of the command.
func open(ctx context.Context, name string, flag int, perm os.FileMode) (io.ReadWriteCloser, error) {
	h := interp.HandlerCtx(ctx)
	switch name {
	case "/dev/stdout":
		return stream{h.Stdout}, nil
	case "/dev/stderr":
		return stream{h.Stderr}, nil
	}
	if !path.IsAbs(name) {
		name = path.Join(h.Dir, name)
	}
	return os.OpenFile(name, flag, perm)
}

// stream is a writer as a file that is not closed.
type stream struct{ io.Writer }

func (stream) Read([]byte) (int, error) { return 0, io.EOF }
func (stream) Close() error             { return nil }

// info is what the shell is told of a file, with the mode that it really has.
type info struct {
	fs.FileInfo
	mode fs.FileMode
}

func (i info) Mode() fs.FileMode { return i.mode }

func (c *call) stat(_ context.Context, name string, follow bool) (fs.FileInfo, error) {
	look := os.Lstat
	if follow {
		look = os.Stat
	}
	found, err := look(name)
	if err != nil {
		return nil, err
	}
	mode := found.Mode()
	if real, err := c.Host.Mode(name); err == nil && mode&fs.ModeSymlink == 0 {
		mode = mode&^fs.ModePerm | real
	}
	return info{found, mode}, nil
}

// access tells what may be done with a file, by the bits of its owner: whether a write is allowed is seen when it is
// tried.
func (c *call) access(ctx context.Context, name string, wanted interp.AccessMode) error {
	found, err := c.stat(ctx, name, true)
	if err != nil {
		return err
	}
	if bits := interp.AccessMode(found.Mode().Perm()>>6) & 7; bits&wanted != wanted {
		return fs.ErrPermission
	}
	return nil
}
