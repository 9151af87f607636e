// Package sandboxtest is the exam that every sandbox backend passes.
package sandboxtest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
)

// NeedVariable lists, separated by commas, the modes that this machine must be able to run. A backend named there
// that is unavailable fails its tests; any other is skipped with its reason. Continuous integration names all.
const NeedVariable = "INSPAN_TEST_NEED_SANDBOX"

// patience bounds a single step of the exam. Nothing waits for it unless something is broken.
const patience = 60 * time.Second

// Need skips loudly where the backend cannot run on this machine, or fails where NeedVariable says that it must.
func Need(t testing.TB, b sandbox.Backend) {
	t.Helper()
	err := b.Probe(t.Context())
	if err == nil {
		return
	}
	if slices.Contains(strings.Split(os.Getenv(NeedVariable), ","), string(b.Mode())) {
		t.Fatalf("%s names %s, which this machine cannot run: %v", NeedVariable, b.Mode(), err)
	}
	t.Skipf("NOT TESTED: sandbox mode %s: %v", b.Mode(), err)
}

// untested leaves a test out, loudly, with what the machine lacks for it.
func untested(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Skipf("NOT TESTED: "+format, args...)
}

// Part is something that the commands of a backend may not have by their nature.
type Part string

const (
	// Processes: commands are processes, which start others, also in the background, and have descriptors.
	Processes Part = "processes"
	// Signals: commands can send signals and catch them.
	Signals Part = "signals"
	// Limits: processors, memory, disk and processes are really limited where the exam is taken; a double of a machine
	// has no kernel that could.
	Limits Part = "limits"
)

// Without declares that a part of the exam cannot apply to a backend, and why. Its own tests prove instead what it
// promises.
type Without struct {
	Part Part
	Why  string
}

// Scope says how much of the exam is taken.
type Scope int

const (
	// Whole is all of it.
	Whole Scope = iota
	// Carried leaves out what the backend has from the mirror, which another backend is examined with: what remains goes
	// through the backend's own way to start, feed, read, signal and end programs on another machine.
	Carried
	// Made is how machines come, what they are refused for, how they are limited and how they end.
	Made
)

// declared is a backend with what was declared of it.
type declared struct {
	sandbox.Backend
	without []Without
	scope   Scope
}

// own leaves a test of the mirror out where only what is the backend's own is examined.
func own(t *testing.T, b sandbox.Backend) {
	t.Helper()
	if d, ok := b.(declared); ok && d.scope != Whole {
		t.Skip(notHere)
	}
}

const notHere = "NOT RUN HERE: the mirror does this, and e2b is examined with it; make robust runs it for each backend"

// wants leaves a test out, with the reason, where the backend was declared to be without what it needs.
func wants(t *testing.T, b sandbox.Backend, part Part) {
	t.Helper()
	if w, ok := lacks(b, part); ok {
		t.Skipf("NOT TESTED: sandbox mode %s has no %s: %s", b.Mode(), part, w.Why)
	}
}

// lacks returns why a backend was declared to be without a part.
func lacks(b sandbox.Backend, part Part) (Without, bool) {
	d, _ := b.(declared)
	for _, w := range d.without {
		if w.Part == part {
			return w, true
		}
	}
	return Without{}, false
}

// Exam runs the exam. The sandboxes are opened with an open network, which every backend accepts.
func Exam(t *testing.T, b sandbox.Backend, without ...Without) { take(t, b, Whole, without) }

// ExamDouble is the exam of a backend of other machines against a double of them on this one. Each such backend has
// the copies of workspaces, the search for processes and the files of the same mirror, so that only what is in the
// scope is run, and what is not is named by its skipped tests. Built with the tag slow, as make robust does, all is
// run.
func ExamDouble(t *testing.T, b sandbox.Backend, scope Scope, without ...Without) {
	if slow {
		scope = Whole
	}
	take(t, b, scope, without)
}

func take(t *testing.T, b sandbox.Backend, scope Scope, without []Without) {
	Need(t, b)
	b = declared{b, without, scope}
	// First and not in parallel, because it counts what the whole process allocates.
	t.Run("output of 100 MB is passed on and not held", func(t *testing.T) {
		if scope > Carried {
			t.Skip(notHere)
		}
		bigOutput(t, b)
	})
	for _, part := range []struct {
		name string
		most Scope // the narrowest scope that has the part
		run  func(t *testing.T, b sandbox.Backend)
	}{
		{"SBX-1 exec", Carried, examExec},
		{"SBX-3 environment", Whole, examEnvironment},
		{"TOOL-22 process tree", Carried, examTree},
		{"WS-12 files", Whole, examFiles},
		{"WS-12 outside", Whole, examOutside},
		{"TOOL-10 move", Whole, examMove},
		{"WS-12 races", Whole, examRaces},
		{"SBX-15 destroy", Made, examDestroy},
		{"SBX-2 start", Carried, examStart},
		{"SBX-12 limits", Made, examLimits},
		{"hostile input", Whole, examHostile},
		{"SBX-1 git", Whole, examGit},
		{"SBX-14 itself", Whole, examItself},
		{"GUARD-12 programs", Made, examPrograms},
		{"configuration", Made, examConfig},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			if scope > part.most {
				t.Skip(notHere)
			}
			part.run(t, b)
		})
	}
}

// workdir is a workspace with something outside of it that must stay as it is.
type workdir struct {
	sandbox   sandbox.Sandbox
	workspace string
	outside   string // a directory beside the workspace
	secret    string // a file in it
}

const secretText = "the secret outside"

func open(t *testing.T, b sandbox.Backend) workdir {
	t.Helper()
	base := t.TempDir()
	p := workdir{workspace: filepath.Join(base, "ws"), outside: filepath.Join(base, "outside")}
	p.secret = filepath.Join(p.outside, "secret")
	must(t, os.Mkdir(p.workspace, 0o755))
	must(t, os.Mkdir(p.outside, 0o755))
	must(t, os.WriteFile(p.secret, []byte(secretText), 0o644))
	sb, err := b.Open(t.Context(), sandbox.Config{ID: "exam", Workspace: p.workspace, Network: true})
	must(t, err)
	p.sandbox = sb
	t.Cleanup(func() {
		if err := sb.Destroy(context.Background()); err != nil {
			t.Errorf("destroy at the end: %v", err)
		}
	})
	return p
}

// untouched checks that nothing outside was changed or added.
func (p workdir) untouched(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(p.secret)
	if err != nil || string(data) != secretText {
		t.Errorf("outside: got %q, %v, want it untouched", data, err)
	}
	list, err := os.ReadDir(p.outside)
	if err != nil || len(list) != 1 {
		t.Errorf("outside: got %d entries, %v, want 1", len(list), err)
	}
}

// is reports whether a backend implements T besides, whatever was declared of it.
func is[T any](b sandbox.Backend) bool {
	if d, ok := b.(declared); ok {
		b = d.Backend
	}
	_, ok := b.(T)
	return ok
}

// away reports whether the commands of a backend run on another machine.
func away(b sandbox.Backend) bool { return is[sandbox.Away](b) }

// inside is where commands see the workspace.
func (p workdir) inside() string { return sandbox.Seen(p.sandbox) }

// sh runs a script that must end by itself.
func (p workdir) sh(t *testing.T, script string) (stdout, stderr string, exit sandbox.Exit) {
	t.Helper()
	var out, errs safe
	exit, err := p.sandbox.Exec(within(t), sandbox.Cmd{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &errs})
	if err != nil {
		t.Fatalf("sh -c %q: %v; stderr %q", script, err, errs.String())
	}
	return out.String(), errs.String(), exit
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
