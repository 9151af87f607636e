package wasm_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/wasm"
)

// section is one of a module, with its size before it.
func section(id byte, body ...byte) []byte {
	return append(binary.AppendUvarint([]byte{id}, uint64(len(body))), body...)
}

// module puts sections behind the header, in the order that the format wants.
func module(sections ...[]byte) []byte {
	return append([]byte("\x00asm\x01\x00\x00\x00"), bytes.Join(sections, nil)...)
}

// Parts of modules: the type of a function without arguments, one of that type, its export as _start.
var (
	types   = section(1, 1, 0x60, 0, 0)
	funcs   = section(3, 1, 0)
	exports = section(7, append([]byte{1, 6}, "_start\x00\x00"...)...)
)

// code is the body of the one function.
func code(ops ...byte) []byte {
	body := append([]byte{0}, append(ops, 0x0b)...)
	return section(10, append(binary.AppendUvarint([]byte{1}, uint64(len(body))), body...)...)
}

// unsigned is a number as the format has it.
func unsigned(n uint64) []byte { return binary.AppendUvarint(nil, n) }

// hostileModules are files that a program may be. said is part of the error or, where it runs, of what it says.
func hostileModules() map[string]struct {
	file []byte
	said string
	runs bool
} {
	endless := []byte{0x03, 0x40, 0x0c, 0x00, 0x0b}
	unknown := section(2, append([]byte{1, 3}, "env\x06system\x00\x00"...)...)
	one := append([]byte{1, 0}, unsigned(16384)...)
	four := append([]byte{1, 0}, unsigned(65536)...)
	table := append([]byte{1, 0x70, 0}, unsigned(1<<27)...)
	tables := append(unsigned(1000), bytes.Repeat([]byte{0x70, 0, 1}, 1000)...)
	// A loop that lets a table grow by a million as long as that works, then does the same with nothing.
	growing := []byte{0x03, 0x40, 0xd0, 0x70, 0x41, 0xc0, 0x84, 0x3d, 0xfc, 0x0f, 0x00, 0x41, 0x7f, 0x47, 0x0d, 0x00, 0x0b, 0x00}
	return map[string]struct {
		file []byte
		said string
		runs bool
	}{
		"nothing":                     {nil, "does not begin", false},
		"a program of the machine":    {[]byte("\x7fELF\x02\x01\x01"), "does not begin", false},
		"a version to come":           {[]byte("\x00asm\x0d\x00\x01\x00"), "does not begin", false},
		"cut short":                   {module(types)[:10], "truncated", false},
		"a section without end":       {append(module(types), 3, 0xff, 0xff, 0xff, 0xff, 0x0f), "truncated", false},
		"a number without end":        {append(module(types), bytes.Repeat([]byte{0xff}, 20)...), "number", false},
		"an unknown import":           {module(types, unknown, funcs, section(7, append([]byte{1, 6}, "_start\x00\x01"...)...), code()), "env", false},
		"no _start":                   {module(types, funcs, code()), "_start", false},
		"1 GiB of memory":             {module(types, funcs, section(5, one...), exports, code()), "memory", false},
		"4 GiB of memory":             {module(types, funcs, section(5, four...), exports, code()), "memory", false},
		"a table of 128 Mi entries":   {module(types, funcs, section(4, table...), exports, code()), "tables", false},
		"a thousand tables":           {module(types, funcs, section(4, tables...), exports, code()), "tables", false},
		"a body that does not add up": {module(types, funcs, exports, code(0x6a)), "not a program", false},
		"a table that grows":          {module(types, funcs, section(4, 1, 0x70, 0, 0), exports, code(growing...)), "unreachable", true},
		"an endless start section":    {module(types, funcs, exports, section(8, 0), code(endless...)), "", false},
		"endless recursion":           {module(types, funcs, exports, code(0x10, 0)), "stack overflow", true},
		"a fault":                     {module(types, funcs, exports, code(0x00)), "unreachable", true},
		"a division by zero":          {module(types, funcs, exports, code(0x41, 1, 0x41, 0, 0x6d, 0x1a)), "divide by zero", true},
		"memory that is not there":    {module(types, funcs, section(5, 1, 0, 1), exports, code(0x41, 0x7f, 0x28, 0, 0, 0x1a)), "out of bounds", true},
	}
}

func TestHostileModules(t *testing.T) {
	t.Parallel()
	b := backendOf(t)
	for name, c := range hostileModules() {
		t.Run("SBX-8 SBX-12 "+name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, "x.wasm"), c.file, 0o644))
			cfg := sandbox.Config{Limits: sandbox.Limits{Memory: 256 << 20}}
			if c.said == "" {
				cfg.Limits.Wall = 300 * time.Millisecond
			}
			sb := open(t, b(dir), cfg)
			out, exit, err := said(t, sb, "x")
			switch {
			case c.said == "": // it runs for ever
				if !errors.Is(err, sandbox.ErrLifetime) {
					t.Errorf("got %+v, %v, want the end of its time", exit, err)
				}
			case c.runs:
				if err != nil || exit.Signal != "SIGABRT" || exit.Code != 134 || !strings.Contains(out, c.said) {
					t.Errorf("got %q, %+v, %v, want a fault that says %q", out, exit, err, c.said)
				}
			case !errors.Is(err, sandbox.ErrNotStarted) || !strings.Contains(err.Error(), c.said):
				t.Errorf("got %+v, %v, want ErrNotStarted that says %q", exit, err, c.said)
			}
		})
	}
}

// backendOf returns backends with a directory of programs and nothing else.
func backendOf(t *testing.T) func(dir string) *wasm.Backend {
	return func(dir string) *wasm.Backend {
		b := wasm.New(wasm.Config{Dirs: []string{dir}})
		t.Cleanup(func() { _ = b.Close(t.Context()) })
		return b
	}
}

// TestSpoiledModules changes bytes of a program that works: whatever comes of it, the process that runs it goes on.
func TestSpoiledModules(t *testing.T) {
	t.Parallel()
	t.Run("SBX-8 a spoiled program is refused, fails or ends, and harms no one", func(t *testing.T) {
		t.Parallel()
		whole := module(types, funcs, section(4, 1, 0x70, 1, 1, 2), section(5, 1, 1, 1, 2), exports,
			code(0x41, 1, 0x04, 0x40, 0x41, 0, 0x41, 7, 0x36, 2, 0, 0x0b), section(11, 1, 0, 0x41, 0, 0x0b, 2, 'h', 'i'))
		r := rand.New(rand.NewPCG(1, 2))
		dir := t.TempDir()
		b := backendOf(t)(dir)
		sb := open(t, b, sandbox.Config{Limits: sandbox.Limits{Memory: 64 << 20}})
		file := filepath.Join(dir, "x.wasm")
		must(t, os.WriteFile(file, whole, 0o644))
		if _, exit, err := said(t, sb, "x"); err != nil || exit.Code != 0 {
			t.Fatalf("the whole one: got %+v, %v", exit, err)
		}
		ran := 0
		for i := range 400 {
			data := bytes.Clone(whole)
			for range 1 + r.IntN(3) {
				data[8+r.IntN(len(data)-8)] = byte(r.Uint32())
			}
			must(t, os.WriteFile(file, data, 0o644))
			must(t, os.Chtimes(file, time.Time{}, time.Unix(int64(i), 0)))
			_, _, err := said(t, sb, "x")
			if err == nil {
				ran++
			} else if !errors.Is(err, sandbox.ErrNotStarted) {
				t.Fatalf("%x: got %v", data, err)
			}
		}
		if ran == 0 || ran == 400 {
			t.Errorf("%d of 400 ran: want some and not all", ran)
		}
	})
}

// TestImage looks at the memory that a program begins with: it is the file's, and what one command did with it is no
// other's.
func TestImage(t *testing.T) {
	t.Parallel()
	one := section(5, 1, 0, 1)
	// want ends the program where a byte of the memory is not what it should be; spoil writes there.
	at := func(place int64) []byte { return append([]byte{0x41}, signed(place)...) }
	want := func(place int64, b byte) []byte {
		return append(append(append(at(place), 0x2d, 0, 0), at(int64(b))...), 0x47, 0x04, 0x40, 0x00, 0x0b)
	}
	spoil := func(place int64) []byte { return append(at(place), 0x41, 7, 0x3a, 0, 0) }
	segment := func(place int64, data string) []byte {
		return append(append(append([]byte{0}, at(place)...), 0x0b, byte(len(data))), data...)
	}
	data := func(parts ...[]byte) []byte {
		return section(11, append([]byte{byte(len(parts))}, bytes.Join(parts, nil)...)...)
	}
	program := func(parts [][]byte, ops ...[]byte) []byte {
		return module(types, funcs, one, exports, code(bytes.Join(ops, nil)...), data(parts...))
	}
	negative := bytes.Clone(segment(1, "n"))
	negative[2] = 0x7f // -1
	for name, c := range map[string]struct {
		file []byte
		runs bool
	}{
		"what a command writes is not seen by the next": {program([][]byte{segment(0, "hi"), segment(65535, "z")},
			want(0, 'h'), want(1, 'i'), want(2, 0), want(9000, 0), want(65535, 'z'), spoil(0), spoil(9000), spoil(65535)), true},
		"a later part of the memory covers an earlier": {program([][]byte{segment(4, "abc"), segment(5, "\x00d")}, want(4, 'a'), want(5, 0), want(6, 'd')), true},
		"nothing at all":                                {program([][]byte{segment(0, "")}, want(0, 0), spoil(0)), true},
		"a part that does not fit":                      {program([][]byte{segment(0, "ok"), segment(65535, "zz")}), false},
		"a part at a negative place":                    {program([][]byte{negative}), false},
		"a part that the code copies by itself":         {module(types, funcs, one, exports, section(12, 1), code(0x41, 3, 0x41, 0, 0x41, 1, 0xfc, 8, 0, 0, 0x41, 3, 0x2d, 0, 0, 0x45, 0x04, 0x40, 0x00, 0x0b, 0x41, 3, 0x41, 0, 0x3a, 0, 0), section(11, 1, 1, 1, 'p')), true},
		"more parts than there are, of a program's own": {module(types, funcs, one, exports, code(), section(11, 9, 0, 0x41, 0, 0x0b, 1, 'x')), false},
	} {
		t.Run("SBX-8 "+name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, "x.wasm"), c.file, 0o644))
			sb := open(t, backendOf(t)(dir), sandbox.Config{})
			for range 3 {
				out, exit, err := said(t, sb, "x")
				if c.runs != (err == nil && exit.Code == 0) {
					t.Errorf("got %q, %+v, %v, want that it runs: %v", out, exit, err, c.runs)
				}
			}
		})
	}
}

// signed is a number as the format has it.
func signed(n int64) (list []byte) {
	for ; n < -64 || n > 63; n >>= 7 {
		list = append(list, byte(n&0x7f|0x80))
	}
	return append(list, byte(n&0x7f))
}
