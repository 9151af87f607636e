package wasmbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/dop251/goja"
)

// scriptHelp is what a call of js without a script is told.
const scriptHelp = `js FILE [ARG...] or js -e TEXT [ARG...]. Scripts have: print(...), console.log(...), console.error(...), args,
env(name), stdin(), read(path), write(path, text), append(path, text), list(path), exists(path), remove(path), exit(code).`

// script runs JavaScript: no modules, no timers, no network.
func script(ctx context.Context, c *call) error {
	args := c.Args[1:]
	if len(args) == 0 || args[0] == "-e" && len(args) == 1 {
		return misused("%s", scriptHelp)
	}
	name, text := args[0], ""
	if name == "-e" {
		name, text, args = "-e", args[1], args[2:]
	} else {
		data, err := os.ReadFile(c.at(name))
		if err != nil {
			return err
		}
		text, args = string(data), args[1:]
	}
	if strings.HasPrefix(text, "#!") {
		text = "//" + text
	}
	vm := goja.New()
	stop := context.AfterFunc(ctx, func() { vm.Interrupt(ctx.Err()) })
	defer stop()
	left := status(0)
	if err := c.offer(vm, args, func(n int) { left = status(n & 0xff); vm.Interrupt(errExit) }); err != nil {
		return err
	}
	_, err := vm.RunScript(name, text)
	if i, ok := errors.AsType[*goja.InterruptedError](err); ok && errors.Is(i, errExit) {
		err = code(int(left))
	}
	if e, ok := errors.AsType[*goja.Exception](err); ok {
		return errors.New(strings.TrimSpace(e.String()))
	}
	return err
}

// errExit ends a script that asked for it.
var errExit = errors.New("exit")

// offer gives a script what it can do.
func (c *call) offer(vm *goja.Runtime, args []string, exit func(int)) error {
	say := func(w io.Writer) func(goja.FunctionCall) goja.Value {
		return func(f goja.FunctionCall) goja.Value {
			var words []string
			for _, arg := range f.Arguments {
				words = append(words, c.show(vm, arg))
			}
			if _, err := fmt.Fprintln(w, strings.Join(words, " ")); err != nil {
				exit(int(deafness))
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
	err := errors.Join(console.Set("log", say(c.out)), console.Set("error", say(c.Err)))
	for name, value := range map[string]any{
		"console": console, "print": say(c.out), "args": args, "env": c.getenv, "exit": exit,
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
func (c *call) show(vm *goja.Runtime, v goja.Value) string {
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
