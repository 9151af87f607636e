package capture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// desktop is a keeper with a store and one workspace.
type desktop struct {
	t     *testing.T
	store *counting
	cfg   Config
	k     *Keeper
	dir   string
	s     run.State
}

// counting counts what is put, and fails where it is told to.
type counting struct {
	kernel.Artifacts
	puts int
	fail error
}

func (c *counting) Put(ctx context.Context, run string, data []byte, ttl time.Duration) (events.Ref, error) {
	if c.fail != nil {
		return events.Ref{}, c.fail
	}
	c.puts++
	return c.Artifacts.Put(ctx, run, data, ttl)
}

func newDesktop(t *testing.T) *desktop {
	t.Helper()
	st, err := mem.New("s1", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	d := &desktop{t: t, store: &counting{Artifacts: st.Artifacts()}, dir: t.TempDir(), s: run.State{HarnessID: "r1", Open: map[string]*run.Call{"c": {Fence: 1}}}}
	d.cfg = Config{Store: d.store, Lists: filepath.Join(t.TempDir(), "lists"), Mask: func(s string) string { return strings.ReplaceAll(s, "hunter2secret", "***") }}
	d.restart()
	return d
}

// restart is another process of the same machine.
func (d *desktop) restart() {
	d.t.Helper()
	k, err := New(d.cfg)
	if err != nil {
		d.t.Fatal(err)
	}
	d.k = k
}

func (d *desktop) begin() {
	d.t.Helper()
	if err := d.k.Begin(d.t.Context(), "r1", d.dir); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desktop) write(name, text string) {
	d.t.Helper()
	full := filepath.Join(d.dir, name)
	err := os.MkdirAll(filepath.Dir(full), 0o755)
	if err == nil {
		err = os.WriteFile(full, []byte(text), 0o644)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// look looks after a command and says what was found.
func (d *desktop) look(rules *events.ArtifactRules) *Look {
	d.t.Helper()
	l := d.k.Look(d.t.Context(), d.s, Job{Dir: d.dir, Step: "a", Rules: rules, All: true})
	d.say(l)
	return l
}

func (d *desktop) say(l *Look) {
	for _, p := range artifact.Saved(d.s, events.ToolRef{Call: "c"}, 1, l.Found) {
		if saved, ok := p.(*events.ArtifactSavedData); ok {
			for _, a := range saved.Artifacts {
				d.s.Artifacts = run.Append(d.s.Artifacts, a)
			}
		}
	}
	l.Commit()
}

func paths(l *Look) string {
	var out []string
	for _, a := range l.Artifacts {
		out = append(out, a.Path)
	}
	return strings.Join(out, " ")
}

func codes(l *Look) string {
	var out []string
	for _, f := range l.Left {
		out = append(out, f.Path+"="+f.Code)
	}
	return strings.Join(out, " ")
}

func TestLook(t *testing.T) {
	t.Parallel()
	t.Run("ART-3 new and changed files by the default patterns, and nothing that was there before", func(t *testing.T) {
		t.Parallel()
		d := newDesktop(t)
		d.write("old.md", "old")
		d.write("src/main.py", "1")
		d.begin()
		for _, name := range []string{"new.md", "src/main.py", "a/b/c.json", "x.log", "x.go", "node_modules/x.md", "deep/node_modules/y.md", ".git/z.md", "t.tmp", ".harness/n.json"} {
			d.write(name, name)
		}
		l := d.look(nil)
		if got := paths(l); got != "a/b/c.json new.md src/main.py x.log" || len(l.Left) != 0 {
			t.Errorf("got %s, left %s", got, codes(l))
		}
		a := l.Artifacts[1]
		if a.Type != "report" || a.Name != "new.md" || a.Size != 6 || a.ContentType != "text/markdown" || a.Key != "runs/r1/output/new.md" || a.Run != "r1" || a.Step != "a" ||
			a.Kept != "nats" || a.TTLMS != 86_400_000 || a.CreatedAt.IsZero() {
			t.Errorf("ART-2 %+v", a)
		}
		if got, err := d.store.Get(t.Context(), "r1", a.Ref()); err != nil || string(got) != "new.md" {
			t.Errorf("%q, %v", got, err)
		}
		if l := d.look(nil); len(l.Artifacts) != 0 || d.store.puts != 4 {
			t.Errorf("a second look finds %s; %d puts", paths(l), d.store.puts)
		}
	})
	t.Run("ART-3 the agent's own patterns", func(t *testing.T) {
		t.Parallel()
		d := newDesktop(t)
		d.begin()
		for _, name := range []string{"a.go", "gen/b.go", "deep/gen/c.go", "b.md"} {
			d.write(name, name)
		}
		if got := paths(d.look(&events.ArtifactRules{Include: []string{"*.go"}, Exclude: []string{"gen/**"}})); got != "a.go deep/gen/c.go" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("ART-4 patterns in .harnessignore exclude, as git reads them", func(t *testing.T) {
		t.Parallel()
		d := newDesktop(t)
		d.begin()
		d.write(IgnoreFile, "# secret things\nprivate/\n*.log\n!keep.log\n/top.md\n")
		for _, name := range []string{"private/a.md", "x/private/b.md", "private.md", "a.log", "sub/keep.log", "top.md", "sub/top.md"} {
			d.write(name, name)
		}
		if got := paths(d.look(nil)); got != "private.md sub/keep.log sub/top.md" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("ART-4 an ignore file that cannot be followed keeps everything out", func(t *testing.T) {
		t.Parallel()
		for name, make := range map[string]func(d *desktop) error{
			"large":  func(d *desktop) error { d.write(IgnoreFile, strings.Repeat("x\n", maxIgnore)); return nil },
			"link":   func(d *desktop) error { return os.Symlink("/dev/null", filepath.Join(d.dir, IgnoreFile)) },
			"folder": func(d *desktop) error { return os.Mkdir(filepath.Join(d.dir, IgnoreFile), 0o755) },
			"pipe":   func(d *desktop) error { return syscall.Mkfifo(filepath.Join(d.dir, IgnoreFile), 0o644) },
		} {
			d := newDesktop(t)
			d.begin()
			d.write("a.md", "a")
			if err := make(d); err != nil {
				t.Fatal(err)
			}
			if l := d.look(nil); len(l.Artifacts) != 0 || codes(l) != ".harnessignore=unreadable" {
				t.Errorf("%s: %s, left %s", name, paths(l), codes(l))
			}
		}
	})
	t.Run("ART-5 capture can be switched off, by agent and by station", func(t *testing.T) {
		t.Parallel()
		d := newDesktop(t)
		d.begin()
		d.write("a.md", "a")
		if l := d.look(&events.ArtifactRules{Off: true}); len(l.Artifacts) != 0 || d.store.puts != 0 {
			t.Errorf("%s", paths(l))
		}
		d.cfg.Off = true
		d.restart()
		if l := d.look(nil); len(l.Artifacts) != 0 || d.store.puts != 0 {
			t.Errorf("%s", paths(l))
		}
		if l := d.look(&events.ArtifactRules{On: true}); paths(l) != "a.md" {
			t.Errorf("an agent that says it wants capture: %s", paths(l))
		}
	})
	t.Run("ART-6 local keeps the bytes in the workspace and the record in the log", func(t *testing.T) {
		t.Parallel()
		d := newDesktop(t)
		d.begin()
		d.write("a.md", "a")
		l := d.look(&events.ArtifactRules{Mode: events.StoredInWorkspace})
		if paths(l) != "a.md" || l.Artifacts[0].Kept != "local" || l.Artifacts[0].TTLMS != 0 || d.store.puts != 0 {
			t.Errorf("%+v", l.Artifacts)
		}
		for mode, good := range map[string]bool{"nats": true, "local": true, "cloudship": false, "s3": false} {
			if err := CheckMode(mode); (err == nil) != good {
				t.Errorf("%s: %v", mode, err)
			}
		}
	})
	t.Run("ART-7 the total of a run, and content that is there already costs nothing", func(t *testing.T) {
		t.Parallel()
		d := newDesktop(t)
		d.begin()
		d.write("a.md", "12345")
		d.write("b.md", "12345")
		d.write("c.md", "1234567")
		l := d.look(&events.ArtifactRules{MaxRun: 10})
		if paths(l) != "a.md b.md" || codes(l) != "c.md=run_full" || d.store.puts != 1+1 { // the second put of the same content stores nothing
			t.Errorf("%s, left %s, %d puts", paths(l), codes(l), d.store.puts)
		}
		if l := d.look(&events.ArtifactRules{MaxRun: 10}); len(l.Left) != 0 {
			t.Errorf("the same file is complained of again: %s", codes(l))
		}
	})
}

func TestHostile(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-12 links, pipes and what they lead to are never taken, names are refused, and nothing waits", func(t *testing.T) {
		t.Parallel()
		d := newDesktop(t)
		outside := t.TempDir()
		if err := os.WriteFile(filepath.Join(outside, "passwd.md"), []byte("root"), 0o644); err != nil {
			t.Fatal(err)
		}
		d.begin()
		d.write("real.md", "x")
		err := errors.Join(os.Symlink(filepath.Join(outside, "passwd.md"), filepath.Join(d.dir, "link.md")), os.Symlink(outside, filepath.Join(d.dir, "folder")),
			os.Symlink(".", filepath.Join(d.dir, "round")), syscall.Mkfifo(filepath.Join(d.dir, "pipe.md"), 0o644), os.Symlink("real.md", filepath.Join(d.dir, "inner.md")),
			os.WriteFile(filepath.Join(d.dir, "new\nline.md"), nil, 0o644), os.WriteFile(filepath.Join(d.dir, "bad\xff.md"), nil, 0o644), os.WriteFile(filepath.Join(d.dir, `back\slash.md`), nil, 0o644))
		if err != nil {
			t.Fatal(err)
		}
		l := d.look(nil)
		if paths(l) != "real.md" || len(l.Left) != 3 {
			t.Errorf("%s, left %s", paths(l), codes(l))
		}
		for _, left := range l.Left {
			if left.Code != events.LeftBadName || strings.ContainsAny(left.Path, "\n\xff") {
				t.Errorf("%+v", left)
			}
		}
		for _, p := range []string{"link.md", "folder/passwd.md", "pipe.md", "inner.md", "../x.md", "/etc/passwd", "round/real.md"} {
			if a, err := d.k.Save(t.Context(), d.s, Job{Dir: d.dir}, p, "", ""); err == nil {
				t.Errorf("%s was saved as %+v", p, a)
			}
			if l := d.k.Look(t.Context(), d.s, Job{Dir: d.dir, Paths: []string{p}}); len(l.Artifacts) != 0 {
				t.Errorf("%s was taken", p)
			}
		}
	})
	t.Run("ART-5 a file of a terabyte costs nothing", func(t *testing.T) {
		t.Parallel()
		d := newDesktop(t)
		d.begin()
		d.write("huge.log", "")
		if err := os.Truncate(filepath.Join(d.dir, "huge.log"), 1<<40); err != nil {
			t.Fatal(err)
		}
		l := d.look(nil)
		if codes(l) != "huge.log=too_large" || l.Left[0].Size != 1<<40 {
			t.Errorf("%+v", l.Left)
		}
		if _, err := d.k.Save(t.Context(), d.s, Job{Dir: d.dir}, "huge.log", "", ""); err == nil || !Refused(err) {
			t.Errorf("saved by name: %v", err)
		}
	})
	t.Run("ART-5 at the limit of a file, one byte more, and by name", func(t *testing.T) {
		t.Parallel()
		d := newDesktop(t)
		d.begin()
		d.write("at.log", strings.Repeat("x", 100))
		d.write("over.log", strings.Repeat("x", 101))
		rules := &events.ArtifactRules{MaxFile: 100}
		if l := d.look(rules); paths(l) != "at.log" || codes(l) != "over.log=too_large" {
			t.Errorf("%s, left %s", paths(l), codes(l))
		}
		if a, err := d.k.Save(t.Context(), d.s, Job{Dir: d.dir, Rules: rules}, "over.log", events.ArtifactData, "my name"); err != nil || a.Size != 101 || a.Type != "data" || a.Name != "my name" || !a.Saved {
			t.Errorf("%+v, %v", a, err)
		}
	})
	t.Run("PERS-16 the station's limit of a file holds whatever an agent says, at the limit and one byte more, also by name", func(t *testing.T) {
		t.Parallel()
		d := newDesktop(t)
		d.cfg.MaxFile = 100
		d.restart()
		d.begin()
		d.write("at.log", strings.Repeat("x", 100))
		d.write("over.log", strings.Repeat("x", 101))
		rules := &events.ArtifactRules{MaxFile: 1 << 20}
		if l := d.look(rules); paths(l) != "at.log" || codes(l) != "over.log=too_large" {
			t.Errorf("%s, left %s", paths(l), codes(l))
		}
		if _, err := d.k.Save(t.Context(), d.s, Job{Dir: d.dir, Rules: rules}, "over.log", "", ""); err == nil || !Refused(err) || !strings.Contains(err.Error(), "100") {
			t.Errorf("saved by name: %v", err)
		}
	})
	t.Run("SAFE-11 a file with a secret of the station is left out, and not put", func(t *testing.T) {
		t.Parallel()
		d := newDesktop(t)
		d.begin()
		d.write("env.log", "TOKEN=hunter2secret\n")
		if l := d.look(nil); codes(l) != "env.log=secret" || d.store.puts != 0 {
			t.Errorf("%s, left %s", paths(l), codes(l))
		}
	})
	t.Run("a file that changes while it is read is not stored half", func(t *testing.T) {
		t.Parallel()
		d := newDesktop(t)
		d.write("a.log", "12345")
		root, err := os.OpenRoot(d.dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		for name, change := range map[string]func(){
			"grows":   func() { d.write("a.log", "1234567") },
			"shrinks": func() { d.write("a.log", "1") },
			"becomes other bytes of the same length": func() {
				d.write("a.log", "54321")
				if err := os.Chtimes(filepath.Join(d.dir, "a.log"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
					t.Error(err)
				}
			},
		} {
			d.write("a.log", "12345")
			_, _, err := read(root, "a.log", func(int64) (string, string) { change(); return "", "" })
			if u, ok := errors.AsType[*unfit](err); !ok || u.code != events.LeftChanging {
				t.Errorf("one that %s: %v", name, err)
			}
		}
	})
}

func TestTwiceLateHalfNever(t *testing.T) {
	t.Parallel()
	t.Run("ART-3 a crash between put and event: the next process finds it again and puts nothing twice", func(t *testing.T) {
		t.Parallel()
		d := newDesktop(t)
		d.write("old.md", "old")
		d.begin()
		d.write("a.md", "a")
		lost := d.k.Look(t.Context(), d.s, Job{Dir: d.dir, All: true}) // stored, and never said
		if paths(lost) != "a.md" {
			t.Fatal(paths(lost))
		}
		d.restart()
		d.begin() // the list of the first process stands
		if l := d.look(nil); paths(l) != "a.md" {
			t.Errorf("the next process found %q", paths(l))
		}
		if all, err := d.store.Stored(t.Context()); err != nil || len(all) != 1 {
			t.Errorf("%+v, %v", all, err)
		}
		d.restart()
		if l := d.look(nil); len(l.Artifacts) != 0 {
			t.Errorf("what is said was found again: %s", paths(l))
		}
	})
	t.Run("half a list is none: nothing that was there before looks new", func(t *testing.T) {
		t.Parallel()
		d := newDesktop(t)
		d.write("old.md", "old")
		d.begin()
		if err := os.WriteFile(d.k.listPath("r1"), []byte(`{"old.md":{"s":`), 0o600); err != nil {
			t.Fatal(err)
		}
		d.restart()
		if l := d.look(nil); len(l.Artifacts) != 0 {
			t.Errorf("found %s", paths(l))
		}
	})
	t.Run("SAFE-14 a full store leaves files out, says so, and takes them once it has room", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			fail error
			code string
		}{{fmt.Errorf("put: %w", kernel.ErrFull), events.LeftStoreFull}, {context.DeadlineExceeded, events.LeftStoreAway}} {
			d := newDesktop(t)
			d.begin()
			d.write("a.md", "a")
			d.write("b.md", "b")
			d.store.fail = c.fail
			if l := d.look(nil); codes(l) != "a.md="+c.code+" b.md="+c.code || len(l.Artifacts) != 0 {
				t.Errorf("%s, left %s", paths(l), codes(l))
			}
			if _, err := d.k.Save(t.Context(), d.s, Job{Dir: d.dir}, "a.md", "", ""); err == nil {
				t.Error("it was saved by name")
			}
			d.store.fail = nil
			if l := d.look(nil); paths(l) != "a.md b.md" {
				t.Errorf("once there is room: %s, left %s", paths(l), codes(l))
			}
		}
	})
	t.Run("what was found and never said is found again", func(t *testing.T) {
		t.Parallel()
		d := newDesktop(t)
		d.begin()
		d.write("a.md", "a")
		d.k.Look(t.Context(), d.s, Job{Dir: d.dir, All: true})
		if l := d.look(nil); paths(l) != "a.md" {
			t.Errorf("found %q", paths(l))
		}
	})
	t.Run("a file that goes back to an earlier content is said again", func(t *testing.T) {
		t.Parallel()
		d := newDesktop(t)
		d.begin()
		for _, text := range []string{"a", "b", "a"} {
			d.write("x.md", text)
			if l := d.look(nil); paths(l) != "x.md" {
				t.Fatalf("%s: found %q", text, paths(l))
			}
		}
		if d.s.Artifacts.Len() != 3 || artifact.Latest(d.s)[0].SHA256 != d.s.Artifacts.At(0).SHA256 || d.s.Artifacts.At(0).ID == d.s.Artifacts.At(2).ID {
			t.Errorf("%+v", run.Slice(d.s.Artifacts))
		}
	})
	t.Run("lists of runs that ended go, and old ones at the next start", func(t *testing.T) {
		t.Parallel()
		d := newDesktop(t)
		d.begin()
		d.k.Forget("r1")
		if _, err := os.Stat(d.k.listPath("r1")); err == nil {
			t.Error("it is still there")
		}
		d.begin()
		d.cfg.Now = func() time.Time { return time.Now().Add(staleAfter + time.Hour) }
		d.restart()
		if _, err := os.Stat(d.k.listPath("r1")); err == nil {
			t.Error("the old one is still there")
		}
	})
}

func BenchmarkLook(b *testing.B) {
	for _, files := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(files), func(b *testing.B) {
			st, err := mem.New("s1", mem.Config{})
			if err != nil {
				b.Fatal(err)
			}
			dir := b.TempDir()
			for i := range files {
				name := filepath.Join(dir, fmt.Sprintf("d%d/e%d", i%50, i%500), fmt.Sprintf("f%d.py", i))
				err := os.MkdirAll(filepath.Dir(name), 0o755)
				if err == nil {
					err = os.WriteFile(name, bytes.Repeat([]byte("x"), 100), 0o644)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			k, err := New(Config{Store: st.Artifacts(), Lists: filepath.Join(b.TempDir(), "l")})
			if err != nil {
				b.Fatal(err)
			}
			if err := k.Begin(b.Context(), "r1", dir); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				k.Look(b.Context(), run.State{HarnessID: "r1"}, Job{Dir: dir, All: true}).Commit()
			}
		})
	}
}
