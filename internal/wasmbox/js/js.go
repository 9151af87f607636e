// Package js runs JavaScript for sandboxes: a file or a text, with a few functions for files and nothing else.
//
// Promises: a script has no modules, no timers and no network. What it can do is in Help.
package js

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/dop251/goja"
)

// Help is what a call without a script is told.
const Help = `js FILE [ARG...] or js -e TEXT [ARG...]. Scripts have: print(...), console.log(...), console.error(...), args,
env(name), stdin(), read(path), write(path, text), append(path, text), list(path), exists(path), remove(path), exit(code).`

// Call is one call. Dir is the absolute path of the directory to work in.
type Call struct {
	Args     []string
	In       io.Reader
	Out, Err io.Writer
	Dir      string
}

// Exit statuses.
const (
	failure  = 1
	misuse   = 2
	deafness = 141 // no one listens any more
)

// Main runs a script and returns its exit status.
func Main(ctx context.Context, c Call) int {
	name, text, args, err := c.script()
	if err != nil {
		fmt.Fprintf(c.Err, "js: %v\n", err)
		return misuse
	}
	vm := goja.New()
	stop := context.AfterFunc(ctx, func() { vm.Interrupt(ctx.Err()) })
	defer stop()
	left := 0
	if err = c.offer(vm, args, func(n int) { left = n & 0xff; vm.Interrupt(errExit) }); err == nil {
		_, err = vm.RunScript(name, text)
	}
	if i, ok := errors.AsType[*goja.InterruptedError](err); ok && i.Value() == errExit { //nolint:errorlint // the value that was thrown
		return left
	}
	if e, ok := errors.AsType[*goja.Exception](err); ok {
		err = errors.New(strings.TrimSpace(e.String()))
	}
	if err != nil {
		fmt.Fprintf(c.Err, "js: %v\n", err)
		return failure
	}
	return 0
}

// script returns what is to be run.
func (c Call) script() (name, text string, args []string, err error) {
	args = c.Args[min(1, len(c.Args)):]
	if len(args) == 0 || args[0] == "-e" && len(args) == 1 {
		return "", "", nil, errors.New(Help)
	}
	if args[0] == "-e" {
		return "-e", args[1], args[2:], nil
	}
	data, err := os.ReadFile(c.at(args[0]))
	if err != nil {
		return "", "", nil, err
	}
	if text = string(data); strings.HasPrefix(text, "#!") {
		text = "//" + text
	}
	return args[0], text, args[1:], nil
}

func (c Call) at(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(c.Dir, name)
}

// errExit ends a script that asked for it.
var errExit = errors.New("exit")

// offer gives a script what it can do.
func (c Call) offer(vm *goja.Runtime, args []string, exit func(int)) error {
	say := func(w io.Writer) func(goja.FunctionCall) goja.Value {
		return func(f goja.FunctionCall) goja.Value {
			var words []string
			for _, arg := range f.Arguments {
				words = append(words, show(arg))
			}
			if _, err := fmt.Fprintln(w, strings.Join(words, " ")); err != nil {
				exit(deafness)
			}
			return goja.Undefined()
		}
	}
	add := func(path, text string, flag int) error {
		f, err := os.OpenFile(c.at(path), os.O_WRONLY|os.O_CREATE|flag, 0o644)
		if err != nil {
			return err
		}
		_, err = f.WriteString(text)
		return errors.Join(err, f.Close())
	}
	console := vm.NewObject()
	err := errors.Join(console.Set("log", say(c.Out)), console.Set("error", say(c.Err)))
	for name, value := range map[string]any{
		"console": console, "print": say(c.Out), "args": args, "env": os.Getenv, "exit": exit,
		"read":   func(path string) (string, error) { data, err := os.ReadFile(c.at(path)); return string(data), err },
		"write":  func(path, text string) error { return add(path, text, os.O_TRUNC) },
		"append": func(path, text string) error { return add(path, text, os.O_APPEND) },
		"stdin":  func() (string, error) { data, err := io.ReadAll(c.In); return string(data), err },
		"remove": func(path string) error { return os.Remove(c.at(path)) },
		"exists": func(path string) bool { _, err := os.Stat(c.at(path)); return err == nil },
		"list": func(path string) ([]string, error) {
			entries, err := os.ReadDir(c.at(path))
			names := make([]string, 0, len(entries))
			for _, entry := range entries {
				names = append(names, entry.Name())
			}
			return names, err
		},
	} {
		err = errors.Join(err, vm.Set(name, value))
	}
	return err
}

// show is a value as print says it: objects as JSON.
func show(v goja.Value) string {
	o, ok := v.(*goja.Object)
	if !ok || o.ClassName() == "Error" || o.ClassName() == "Function" {
		return v.String()
	}
	text, err := o.MarshalJSON()
	if err != nil {
		return v.String()
	}
	return string(text)
}
