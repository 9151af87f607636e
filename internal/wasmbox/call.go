// Package wasmbox is a small set of programs in one, for sandboxes that run WebAssembly programs and nothing else:
// files and texts as an agent works on them, a shell, and JavaScript.
//
// Promises: it starts no process and opens no connection: a pipeline of the shell runs inside of the one program. Which
// one a call means is said by the name it was called with. An option that is not known is an error, never ignored.
package wasmbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// Call is one call of a program.
type Call struct {
	// Args begin with the name.
	Args []string
	In   io.Reader
	Out  io.Writer
	Err  io.Writer
	// Dir is the absolute path of the directory to work in. Env holds NAME=value.
	Dir string
	Env []string
	// Host does what the system does not.
	Host Host
}

// Host is what the programs run on.
type Host interface {
	// Mode returns the permissions of a file given by absolute path. Chmod sets them.
	Mode(path string) (fs.FileMode, error)
	Chmod(path string, mode fs.FileMode) error
	// Run carries out a call of a program that is none of these; its input is read to the end before, and its output
	// comes when it has ended. The error says why it did not start.
	Run(call Call) (status int, err error)
}

// status is an exit status that is not 0.
type status int

func (s status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

const (
	failure  = status(1)
	misuse   = status(2)
	unknown  = status(127)
	deafness = status(141) // no one listens any more, as a shell tells it of SIGPIPE
)

// call is a Call under way.
type call struct {
	Call
	out    *bufio.Writer
	failed bool
}

// command is a program of the box. Its error is told, but for a status.
type command func(ctx context.Context, c *call) error

func commands() map[string]command {
	return map[string]command{
		"basename": basename, "bash": shell, "cat": cat, "chmod": chmod, "cp": cp, "cut": cut, "date": date,
		"dirname": dirname, "echo": echo, "env": env, "false": func(context.Context, *call) error { return failure },
		"find": find,
		"grep": grep, "head": head, "ln": ln, "ls": ls, "mkdir": mkdir, "mv": mv, "pwd": pwd, "readlink": readlink,
		"rm": rm, "rmdir": rmdir, "sed": sed, "seq": seq, "sh": shell, "sha256sum": sha256sum, "sleep": sleep,
		"sort": sortLines,
		"tail": tail, "tee": tee, "touch": touch, "tr": tr, "true": func(context.Context, *call) error { return nil }, "uniq": uniq,
		"wc": wc, "which": which, "xargs": xargs,
	}
}

// Names lists the programs, in order.
func Names() []string { return slices.Sorted(maps.Keys(commands())) }

// Main carries a call out and returns its exit status. Called by a name that is no program's, the first argument is
// one.
func Main(ctx context.Context, call Call) int {
	if len(call.Args) > 0 {
		call.Args = append([]string{path.Base(call.Args[0])}, call.Args[1:]...)
		if commands()[call.Args[0]] == nil {
			call.Args = call.Args[1:]
		}
	}
	if len(call.Args) == 0 {
		fmt.Fprintln(call.Err, "call it by the name of one of its programs:", strings.Join(Names(), " "))
		return int(misuse)
	}
	return run(ctx, call)
}

// run carries out one call, as Main and the shell ask for it.
func run(ctx context.Context, in Call) int {
	do := commands()[in.Args[0]]
	if do == nil {
		code, err := in.Host.Run(in)
		if err != nil {
			fmt.Fprintln(in.Err, err)
			return int(unknown)
		}
		return code
	}
	c := &call{Call: in, out: bufio.NewWriterSize(in.Out, 32<<10)}
	err := do(ctx, c)
	if flushed := c.out.Flush(); err == nil {
		err = flushed
	}
	if err == nil && c.failed {
		err = failure
	}
	if s, ok := errors.AsType[status](err); ok {
		return int(s)
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, io.ErrClosedPipe):
		return int(deafness)
	}
	c.warn(err)
	if _, ok := errors.AsType[*usage](err); ok {
		return int(misuse)
	}
	return int(failure)
}

// warn tells of something that failed; the rest is done all the same.
func (c *call) warn(err error) {
	c.failed = true
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = fmt.Errorf("%s: %w", c.short(e.Path), e.Err)
	}
	fmt.Fprintf(c.Err, "%s: %v\n", c.Args[0], err)
}

// short is a path as it was probably given.
func (c *call) short(name string) string {
	if rest, ok := strings.CutPrefix(name, c.Dir+"/"); ok {
		return rest
	}
	return name
}

// at makes a path absolute.
func (c *call) at(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(c.Dir, name)
}

// line says one line.
func (c *call) line(text string) error {
	_, err := c.out.WriteString(text + "\n")
	return err
}

// each calls a function with each file that is named, standard input for "-" and for none. What cannot be opened is
// told.
func (c *call) each(names []string, do func(name string, r io.Reader) error) error {
	if len(names) == 0 {
		names = []string{"-"}
	}
	for _, name := range names {
		if name == "-" {
			if err := do(name, c.In); err != nil {
				return err
			}
			continue
		}
		f, err := os.Open(c.at(name))
		if err != nil {
			c.warn(err)
			continue
		}
		err = do(name, f)
		_ = f.Close() // it was only read
		if _, ok := errors.AsType[*fs.PathError](err); ok {
			c.warn(err)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lines calls a function with each line, without its end.
func lines(ctx context.Context, r io.Reader, do func(line string) error) error {
	return rawLines(ctx, r, func(line string) error { return do(strings.TrimSuffix(line, "\n")) })
}

// rawLines calls a function with each line and its end, which the last may lack.
func rawLines(ctx context.Context, r io.Reader, do func(line string) error) error {
	in := bufio.NewReaderSize(r, 32<<10)
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		text, err := in.ReadString('\n')
		if text != "" {
			if err := do(text); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// usage is a call that was not understood.
type usage struct{ text string }

func (u *usage) Error() string { return u.text }

func misused(format string, args ...any) error { return &usage{fmt.Sprintf(format, args...)} }

// options are those of a call: the letters with how often each was given, and the last value of those that take one.
type options struct {
	given  map[byte]int
	value  map[byte]string
	values map[byte][]string
}

func (o options) has(letter byte) bool { return o.given[letter] > 0 }

// options reads the options of a call: spec lists their letters, with a colon behind those that take a value. long
// names some of them as "name=l". Options may stand between the other arguments, which are returned.
func (c *call) options(spec string, long ...string) (options, []string, error) {
	o := options{map[byte]int{}, map[byte]string{}, map[byte][]string{}}
	set := func(letter byte, value string) {
		o.given[letter]++
		o.value[letter] = value
		o.values[letter] = append(o.values[letter], value)
	}
	takes := func(letter byte) (known, value bool) {
		at := strings.IndexByte(spec, letter)
		return at >= 0 && letter != ':', at >= 0 && at+1 < len(spec) && spec[at+1] == ':'
	}
	var rest []string
	for args := c.Args[1:]; len(args) > 0; {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			return o, append(rest, args...), nil
		}
		if len(arg) < 2 || arg[0] != '-' {
			rest = append(rest, arg)
			continue
		}
		if name, value, has := strings.Cut(arg, "="); strings.HasPrefix(arg, "--") {
			at := slices.IndexFunc(long, func(l string) bool { return strings.HasPrefix(l, name[2:]+"=") })
			if at < 0 {
				return o, nil, misused("option %s is not known", name)
			}
			letter := long[at][len(long[at])-1]
			if _, wants := takes(letter); wants && !has {
				if len(args) == 0 {
					return o, nil, misused("option %s wants a value", name)
				}
				value, args = args[0], args[1:]
			}
			set(letter, value)
			continue
		}
		for letters := arg[1:]; letters != ""; {
			letter := letters[0]
			letters = letters[1:]
			known, wants := takes(letter)
			if !known {
				return o, nil, misused("option -%c is not known", letter)
			}
			if !wants {
				set(letter, "")
				continue
			}
			if letters == "" {
				if len(args) == 0 {
					return o, nil, misused("option -%c wants a value", letter)
				}
				letters, args = args[0], args[1:]
			}
			set(letter, letters)
			letters = ""
		}
	}
	return o, rest, nil
}
