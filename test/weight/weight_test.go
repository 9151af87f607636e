package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain is the program that does nothing where it is told to be.
func TestMain(m *testing.M) {
	if os.Getenv(nothing) == "" {
		m.Run()
	}
}

// TestWeight holds the limits that a busy machine does not change; go run ./test/weight -cold holds them all.
func TestWeight(t *testing.T) {
	t.Parallel()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var w weight
	program, err := w.build(t.Context(), root, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.sources(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	if err := w.start(t.Context(), program); err != nil {
		t.Fatal(err)
	}
	if err := w.rest(t.Context(), program, filepath.Join(dir, "store"), 0); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + w.table())
	if err := w.above(); err != nil {
		t.Error(err)
	}
}

func TestAbove(t *testing.T) {
	t.Parallel()
	fits := weight{size: maxSize, source: 285, natsSource: 100, help: maxHelp * time.Millisecond, nothing: time.Millisecond, helpRSS: maxHelpRSS, idleRSS: maxIdleRSS, cold: 35 * time.Second, natsCold: 10 * time.Second}
	if err := fits.above(); err != nil {
		t.Errorf("got %v at the limits", err)
	}
	heavy := weight{size: maxSize + 1<<18, source: 30, natsSource: 10, help: (maxHelp + 1) * time.Millisecond, nothing: time.Millisecond, helpRSS: maxHelpRSS + 1<<18,
		idleRSS: maxIdleRSS + 1<<18, cold: 36 * time.Second, natsCold: 10 * time.Second, linked: []string{"google.golang.org/grpc/codes"},
		byName: []string{"text/template.(*state).evalField, which x needs"}}
	err := heavy.above()
	if err == nil || strings.Count(err.Error(), "\n") != 7 || !strings.Contains(err.Error(), "evalField") || !strings.Contains(err.Error(), "go mod why google.golang.org/grpc/codes") {
		t.Errorf("got %v, want eight lines", err)
	}
}

// TestCallByName: what the linker marks is found in a program that fills a template, and in one that does not nothing is.
func TestCallByName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, c := range map[string]struct {
		text string
		none bool
	}{
		"no.go":  {"package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(1) }\n", true},
		"yes.go": {"package main\n\nimport (\n\t\"os\"\n\t\"text/template\"\n)\n\nfunc main() { _ = template.New(\"\").Execute(os.Stdout, 1) }\n", false},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		found, err := callByName(exec.CommandContext(t.Context(), "go", "build", "-ldflags=-dumpdep", "-o", path+".exe", path))
		if err != nil || (len(found) == 0) != c.none || !c.none && !strings.Contains(found[0], "text/template") {
			t.Errorf("%s: got %q, %v", name, found, err)
		}
	}
	for what, args := range map[string][]string{"a linker that names nothing": {"version"}, "a build that fails": {"build", filepath.Join(dir, "none.go")}} {
		if _, err := callByName(exec.CommandContext(t.Context(), "go", args...)); err == nil {
			t.Errorf("%s is not noticed", what)
		}
	}
}

func TestInsert(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte("# Page\n\ntext\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two"} {
		if err := insert(path, begin+text+"\n"+end); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "# Page\n\ntext\n\n"+begin+"two\n"+end {
		t.Errorf("got %q, %v", b, err)
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	over := fmt.Sprintf("%.1f MB", float64(maxSize+1<<20)/(1<<20))
	broken := errors.New("make test: TestX failed")
	for name, c := range map[string]struct {
		w       weight
		failed  error
		shown   []string
		hidden  []string
		said    []string
		written bool
	}{
		"a limit":               {weight{size: maxSize + 1<<20, source: 9, natsSource: 3, helpRSS: 1, help: 1, nothing: 1}, nil, []string{over, "`inspan --help`"}, nil, []string{"the size of inspan is " + over}, true},
		"a test":                {weight{size: 7 << 20, suite: 9 * time.Second, natsCold: time.Second, suiteWall: time.Minute}, broken, []string{"7.0 MB", "nats-server | 9.0 x (9 s against 1 s)"}, nil, []string{"TestX failed"}, false},
		"a test and a limit":    {weight{size: maxSize + 1<<20}, broken, []string{over}, nil, []string{"TestX failed", "the size of inspan is " + over}, false},
		"a suite":               {weight{size: 7 << 20, suite: 13 * time.Second, natsCold: time.Second, suiteWall: time.Minute}, nil, []string{"13.0 x"}, nil, []string{"make test is 13.0 x"}, true},
		"a start, and the rest": {weight{size: 7 << 20}, broken, []string{"7.0 MB"}, []string{"--help", "inspan up", "make test"}, []string{"TestX failed"}, false},
	} {
		t.Run("what was measured is printed where there fails "+name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			written := false
			err := report(&out, c.w, c.failed, func() error { written = true; return nil })
			for _, want := range c.shown {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not printed:\n%s", want, out.String())
				}
			}
			for _, not := range c.hidden {
				if strings.Contains(out.String(), not) {
					t.Errorf("%q was not measured and is printed:\n%s", not, out.String())
				}
			}
			for _, want := range c.said {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
			if written != c.written {
				t.Errorf("written: %v, want %v", written, c.written)
			}
		})
	}
}
