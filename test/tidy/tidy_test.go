package tidy

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// module are all Go files of the module, parsed once for all tests: none changes them.
var module = sync.OnceValues(func() ([]*File, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	return Load(root)
})

func load(t *testing.T) []*File {
	t.Helper()
	files, err := module()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 100 {
		t.Fatalf("got %d Go files: the walk misses the module", len(files))
	}
	return files
}

// TestHouse holds the whole module to the rules.
func TestHouse(t *testing.T) {
	t.Parallel()
	files := load(t)
	var faults []Fault
	for _, f := range files {
		faults = append(faults, Check(f)...)
	}
	faults = append(faults, Undocumented(files)...)
	stand, idle := Except(faults, Exceptions)
	for _, f := range stand {
		t.Error(f)
	}
	for _, e := range idle {
		t.Errorf("test/tidy/table_test.go: nothing needs the exception from %q at %s any more: remove it", e.Rule, e.At)
	}
	for _, e := range Exceptions {
		if len(e.Why) < 20 {
			t.Errorf("test/tidy/table_test.go: the exception at %s has no reason", e.At)
		}
	}
}

// TestPaper holds what is not Go to two rules: nothing says that it is unfinished, and no machine's own paths.
func TestPaper(t *testing.T) {
	t.Parallel()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	todo := regexp.MustCompile(`\b(TODO|FIXME)\b`)
	paths := regexp.MustCompile(`(^|[\s"'=(:])/(work/(main|shared|\.)|tmp/brief|root/)`)
	seen := 0
	err = Walk(root, func(rel string, read func() ([]byte, error)) error {
		if strings.HasPrefix(rel, "test/tidy/") || !textual.MatchString(rel) {
			return nil
		}
		b, err := read()
		if err != nil {
			return err
		}
		seen++
		for i, line := range strings.Split(string(b), "\n") {
			if strings.HasSuffix(rel, ".md") || !strings.HasSuffix(rel, ".go") {
				if todo.MatchString(line) {
					t.Errorf("%s:%d: not finished: %s", rel, i+1, strings.TrimSpace(line))
				}
			}
			if strings.Contains(line, "/") && paths.MatchString(line) {
				t.Errorf("%s:%d: the path of one machine: %s", rel, i+1, strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 100 {
		t.Fatalf("got %d text files: the walk misses the module", seen)
	}
}

var textual = regexp.MustCompile(`(\.(go|md|yaml|yml|sh|conf|txt|toml|prompt)|(^|/)(Makefile|Dockerfile|run))$`)

// TestRules shows that each rule finds what it forbids, and lets pass what it does not.
func TestRules(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, path, src string
		// want are the rules that are broken.
		want []string
	}{
		{"the mind imports the loop", "internal/core/x/x.go", `package x; import _ "github.com/inspan/inspan/internal/kernel"`, []string{"import"}},
		{"the mind imports context", "internal/core/x/x.go", `package x; import _ "context"`, []string{"import"}},
		{"the mind imports another room", "internal/core/x/x.go", `package x; import _ "github.com/inspan/inspan/internal/core/plan"`, nil},
		{"the mind looks at a clock", "internal/core/x/x.go", `package x; import "time"; var T = time.Now()`, []string{"pure"}},
		{"the mind looks at a clock of another name", "internal/core/x/x.go", `package x; import t "time"; var T = t.Since`, []string{"pure"}},
		{"the mind is given a duration", "internal/core/x/x.go", `package x; import "time"; const D = time.Second`, nil},
		{"the mind starts a goroutine", "internal/core/x/x.go", `package x; func f() { go f() }`, []string{"pure"}},
		{"the mind has a channel", "internal/core/x/x.go", `package x; func f(c chan int) {}`, []string{"pure"}},
		{"tests of the mind may", "internal/core/x/x_test.go", `package x; import "time"; var T = time.Now()`, nil},
		{"words import memory", "pkg/events/x.go", `package events; import _ "github.com/inspan/inspan/pkg/run"`, []string{"import"}},
		{"memory imports the mind", "pkg/run/x.go", `package run; import _ "github.com/inspan/inspan/internal/core/plan"`, []string{"import"}},
		{"the loop imports a hand", "internal/kernel/x.go", `package kernel; import _ "github.com/inspan/inspan/internal/jet"`, []string{"import"}},
		{"a role sees NATS", "services/planner/x.go", `package planner; import _ "github.com/inspan/inspan/internal/jet"`, []string{"import"}},
		{"a role sees a NATS library", "services/planner/x.go", `package planner; import _ "github.com/nats-io/nats.go"`, []string{"door"}},
		{"a role sees another role", "services/planner/x.go", `package planner; import _ "github.com/inspan/inspan/services/executor"`, []string{"import"}},
		{"a role logs", "services/planner/x.go", `package planner; import _ "github.com/rs/zerolog"`, []string{"door"}},
		{"a role starts a bare goroutine", "services/planner/x.go", `package planner; func f() { go f() }`, []string{"pure"}},
		{"a hand imports a role", "internal/mem/x.go", `package mem; import _ "github.com/inspan/inspan/services/planner"`, []string{"import"}},
		{"a hand imports a door", "internal/tools/x.go", `package tools; import _ "github.com/inspan/inspan/internal/station"`, []string{"import"}},
		{"a dependency beside its door", "internal/llm/openai/x.go", `package openai; import _ "github.com/tetratelabs/wazero"`, []string{"door"}},
		{"NATS through its door", "internal/jet/x.go", `package jet; import _ "github.com/nats-io/nats.go"`, nil},
		{"a dependency without a door", "internal/jet/x.go", `package jet; import _ "example.com/new"`, []string{"door"}},
		{"the global logger", "internal/service/x.go", `package service; import _ "github.com/rs/zerolog/log"`, []string{"door"}},
		{"a folder without a room", "lib/x.go", `package lib`, []string{"import"}},
		{"init", "internal/jet/x.go", `package jet; func init() {}`, []string{"init"}},
		{"a method called init", "internal/jet/x.go", `package jet; type t int; func (t) init() {}`, nil},
		{"exit in a library", "internal/jet/x.go", `package jet; import "os"; func f() { os.Exit(1) }`, []string{"exit"}},
		{"exit in a program", "cmd/x/main.go", `package main; import "os"; func main() { os.Exit(1) }`, nil},
		{"fatal", "cmd/x/main.go", `package main; import "log"; func main() { log.Fatalf("x") }`, []string{"exit"}},
		{"a test that sleeps", "internal/jet/x_test.go", `package jet; import "time"; func f() { time.Sleep(1) }`, []string{"sleep"}},
		{"a test that skips", "internal/jet/x_test.go", `package jet; import "testing"; func f(t *testing.T) { t.Skipf("x") }`, []string{"skip"}},
		{"a word of unfinished work", "internal/jet/x.go", "package jet\n// TO" + "DO later\n", []string{"leftover"}},
		{"a global that changes", "internal/jet/x.go", `package jet; import "sync"; var mu sync.Mutex`, []string{"global"}},
		{"failed to", "internal/jet/x.go", `package jet; import "errors"; var E = errors.New("failed` + ` to load")`, []string{"error"}},
		{"a pattern that does not compile", "internal/jet/x.go", "package jet; import \"github.com/inspan/inspan/internal/pattern\"; var p = pattern.New(`a` + `(`)", []string{"pattern"}},
		{"a pattern that is not in the text", "internal/jet/x.go", "package jet; import \"github.com/inspan/inspan/internal/pattern\"; var p = pattern.New(x)", []string{"pattern"}},
		{"a pattern of a constant that does not compile", "internal/jet/x.go", "package jet; import \"github.com/inspan/inspan/internal/pattern\"; const a, b = `a`, `(`; var p = pattern.New(a + b)", []string{"pattern"}},
		{"a pattern of a constant", "internal/jet/x.go", "package jet; import \"github.com/inspan/inspan/internal/pattern\"; const a, b = `(`, `a`; var p = pattern.New(b + a + `)`)", nil},
		{"a pattern", "internal/jet/x.go", "package jet; import \"github.com/inspan/inspan/internal/pattern\"; var p = pattern.New(`a` + `(b)`)", nil},
		{"a long file", "internal/jet/x.go", "package jet\n" + strings.Repeat("\n", MaxFile), []string{"length"}},
		{"a file at the limit", "internal/jet/x.go", "package jet\n" + strings.Repeat("\n", MaxFile-1), nil},
		{"a wide line", "internal/jet/x.go", "package jet\n// " + strings.Repeat("x", MaxColumns-2), []string{"width"}},
		{"a line at the limit", "internal/jet/x.go", "package jet\n// " + strings.Repeat("x", MaxColumns-3), nil},
		{"a wide line with a text", "internal/jet/x.go", "package jet\nvar x = `\n" + strings.Repeat("x", MaxColumns+1) + "\n`", nil},
		{"a long function", "internal/jet/x.go", "package jet\nfunc f() {" + strings.Repeat("\n", MaxFunction) + "}", []string{"length"}},
		{"a function at the limit", "internal/jet/x.go", "package jet\nfunc f() {" + strings.Repeat("\n", MaxFunction-1) + "}", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, err := Parse(c.path, []byte(c.src))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, fault := range Check(f) {
				got = append(got, fault.Rule)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got broken rules %v, want %v", got, c.want)
			}
		})
	}
}

func TestExcept(t *testing.T) {
	t.Parallel()
	faults := []Fault{{Rule: "skip", At: "a.go"}, {Rule: "skip", At: "b.go"}}
	stand, idle := Except(faults, []Exception{{Rule: "skip", At: "a.go"}, {Rule: "init", At: "b.go"}})
	if len(stand) != 1 || stand[0].At != "b.go" {
		t.Errorf("got faults %v, want the one at b.go", stand)
	}
	if len(idle) != 1 || idle[0].Rule != "init" {
		t.Errorf("got idle exceptions %v, want the one from init", idle)
	}
}

func TestUndocumented(t *testing.T) {
	t.Parallel()
	parse := func(path, src string) *File {
		f, err := Parse(path, []byte(src))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	got := Undocumented([]*File{
		parse("a/a.go", "// Package a is documented.\npackage a"), parse("a/b.go", "package a"),
		parse("b/b.go", "package b"), parse("b/b_test.go", "// Package b in a test file does not count.\npackage b"),
		parse("c/c_test.go", "// Package c has tests only.\npackage c_test"),
		parse("d/main.go", "// Some words.\npackage main"),
	})
	if len(got) != 2 || got[0].At != "b/b.go" || got[1].At != "d/main.go" {
		t.Errorf("got %v, want faults in b and d", got)
	}
}
