package workspace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/git"
)

const demo = "session/demo"

// states of the tree after each call of a play.
var states = []map[string]string{
	{},
	{"a": "1", "sub/b": "1"},
	{"a": "2", "sub/b": "1", "c": "2"},
	{"a": "2", "c": "3"},
	{"a": "4", "c": "3", "d/e/f": "4"},
}

// become makes a directory what a state says.
func become(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	now, err := filesOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name := range now {
		if _, ok := files[name]; !ok {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// work makes the calls of the play from one state on, each a visit of its own. It returns the state that was kept last,
// the visit that failed, if one did, and why.
func work(t *testing.T, trees *Trees, from int) (int, *Visit, error) {
	t.Helper()
	for n := from; n < len(states); n++ {
		v, err := trees.Enter(t.Context(), demo, "r1")
		if err != nil {
			return n - 1, nil, err
		}
		become(t, v.Dir(), states[n])
		v.Touch(true)
		if err := v.Settle(t.Context(), fmt.Sprintf("c%d", n)); err != nil {
			return n - 1, v, err
		}
		v.Leave()
	}
	return len(states) - 1, nil, nil
}

// stateOf is the number of the state that a directory is in, -1 for none.
func stateOf(t *testing.T, dir string) int {
	t.Helper()
	files, err := filesOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	for n, s := range states {
		if maps.Equal(files, s) {
			return n
		}
	}
	return -1
}

func TestClaim(t *testing.T) {
	t.Parallel()
	shared := func(root string) func(*Config) {
		return func(c *Config) { c.Root, c.Snapshots = root, nil }
	}
	t.Run("WS-13 SESS-3 of many that claim a workspace one gets it, and the others are told who", func(t *testing.T) {
		t.Parallel()
		for _, follow := range []bool{true, false} {
			l := newLab(t)
			root := t.TempDir()
			var wg sync.WaitGroup
			got := make([]error, 8)
			for i := range got {
				trees := l.at(fmt.Sprintf("i%d", i), nil)
				if !follow {
					trees = l.at(fmt.Sprintf("i%d", i), nil, shared(root))
				}
				wg.Go(func() { _, got[i] = trees.Enter(context.Background(), demo, "r1") })
			}
			wg.Wait()
			owner := l.record(demo).Owner
			for i, err := range got {
				var busy *BusyError
				switch mine := owner == fmt.Sprintf("i%d", i); {
				case mine && err != nil:
					t.Errorf("the owner was told %v", err)
				case !mine && (!errors.As(err, &busy) || busy.Owner != owner && busy.Owner != "several at once"):
					t.Errorf("i%d, while %s owns it: %v", i, owner, err)
				}
			}
		}
	})
	t.Run("WS-13 on a shared volume the workspace stays in its place, and the next owner has it at once", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		root := t.TempDir()
		a, b := l.at("a", nil, shared(root)), l.at("b", nil, shared(root))
		v, err := a.Enter(t.Context(), demo, "r1")
		if err != nil || v.Dir() != filepath.Join(root, "session", "demo") || v.Path() != demo {
			t.Fatalf("%v, %s", err, v.Dir())
		}
		v.Touch(true)
		if err := v.Settle(t.Context(), "c1"); err != nil {
			t.Fatal(err)
		}
		v.Leave()
		if done, err := a.Ended(t.Context(), demo, "r1"); err != nil || !done {
			t.Fatal(err)
		}
		w, err := b.Enter(t.Context(), demo, "r2")
		if err != nil || w.Fence() <= v.Fence() {
			t.Fatalf("%v", err)
		}
		if err := v.Check(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("the former owner is told %v", err)
		}
	})
	t.Run("SESS-8 a tree is given back when its last run has ended, and taken again without restoring it", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		f := &fate{}
		a := l.at("a", f)
		one, err := a.Enter(t.Context(), demo, "r1")
		if err != nil {
			t.Fatal(err)
		}
		two, err := a.Enter(t.Context(), demo, "r2")
		if err != nil || two.Dir() != one.Dir() {
			t.Fatal(err)
		}
		become(t, one.Dir(), states[1])
		one.Touch(true)
		one.Leave() // its run was stopped: nothing was kept
		if done, err := a.Ended(t.Context(), demo, "r1"); err != nil || !done || l.record(demo).Owner != "a" {
			t.Errorf("given back under another run: %v", err)
		}
		if done, err := a.Ended(t.Context(), demo, "r2"); err != nil || done {
			t.Errorf("given back under a call: %v", err)
		}
		two.Leave()
		if done, err := a.Ended(t.Context(), demo, "r2"); err != nil || !done || l.record(demo).Owner != "" {
			t.Errorf("not given back: %v", err)
		}
		three, err := a.Enter(t.Context(), demo, "r3")
		if err != nil || three.Dir() != one.Dir() {
			t.Errorf("it was restored: %v", err)
		}
		three.Leave()
		l.kill("a")
		other, err := l.at("b", nil).Enter(t.Context(), demo, "r3")
		if err != nil || stateOf(t, other.Dir()) != 1 {
			t.Errorf("what a stopped call did was not kept: %v", err)
		}
	})
	t.Run("WS-3 a snapshot of a tree that changes waits for the others in it", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		a := l.at("a", nil)
		v, err := a.Enter(t.Context(), demo, "r1")
		if err != nil {
			t.Fatal(err)
		}
		v.claim.keeper.(*copier).changing = 3
		become(t, v.Dir(), states[1])
		if err := v.Keep(t.Context(), "c1"); err != nil {
			t.Fatal(err)
		}
		v.claim.keeper.(*copier).changing = 1000
		become(t, v.Dir(), states[2])
		if err := v.Keep(t.Context(), "c2"); !errors.Is(err, ErrUnkept) {
			t.Errorf("%v", err)
		}
	})
}

func TestTidy(t *testing.T) {
	t.Parallel()
	t.Run("WS-5 a run's tree goes at its end where that is asked for, and those of sessions and repositories stay", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			at, file string
			stays    bool
		}{{"run/r1", "a", false}, {"workflow/w1", "a", true}, {"run/r1", ".git", true}, {demo, "a", true}} {
			l := newLab(t)
			a := l.at("a", nil, func(c *Config) { c.AtEnd = true })
			v, err := a.Enter(t.Context(), c.at, "r1")
			if err != nil {
				t.Fatal(err)
			}
			become(t, v.Dir(), map[string]string{c.file: "x"})
			if err := v.Keep(t.Context(), "c1"); err != nil {
				t.Fatal(err)
			}
			v.Leave()
			if _, err := a.Ended(t.Context(), c.at, "r1"); err != nil {
				t.Fatal(err)
			}
			_, err = os.Stat(v.Dir())
			if there := err == nil; there != c.stays || (l.record(c.at).Snapshot != "") != c.stays {
				t.Errorf("%s with %s: directory %v, %+v", c.at, c.file, there, l.record(c.at))
			}
		}
	})
	t.Run("WS-3 WS-5 an instance that stops does not take away the tree of a run that goes on", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		atEnd := func(c *Config) { c.AtEnd = true }
		a := l.at("a", nil, atEnd)
		v, err := a.Enter(t.Context(), "run/r1", "r1")
		if err != nil {
			t.Fatal(err)
		}
		become(t, v.Dir(), states[1])
		if err := v.Keep(t.Context(), "c1"); err != nil {
			t.Fatal(err)
		}
		v.Leave()
		if err := a.Close(t.Context()); err != nil || l.record("run/r1").Owner != "" {
			t.Fatalf("not given back: %v", err)
		}
		b := l.at("b", nil, atEnd)
		next, err := b.Enter(t.Context(), "run/r1", "r1")
		if err != nil || stateOf(t, next.Dir()) != 1 {
			t.Fatalf("what its calls had done is gone: %v, %+v", err, l.record("run/r1"))
		}
		next.Leave()
		if _, err := b.Ended(t.Context(), "run/r1", "r1"); err != nil || l.record("run/r1").Snapshot != "" {
			t.Errorf("it stays after its run: %v, %+v", err, l.record("run/r1"))
		}
	})
	t.Run("WS-5 GIT-10 a tree with a repository goes once its work is kept elsewhere, at the end of its run or later, and else it stays", func(t *testing.T) {
		t.Parallel()
		broken := errors.New("the object store is away")
		for _, c := range []struct {
			atEnd, whole bool
			err          error
		}{{true, true, nil}, {true, false, nil}, {true, false, broken}, {false, true, nil}, {false, false, nil}, {false, false, broken}} {
			l := newLab(t)
			now := time.Now()
			asked := 0
			var dir string
			a := l.at("a", nil, func(cfg *Config) {
				cfg.AtEnd, cfg.Now = c.atEnd, func() time.Time { return now }
				cfg.Rescue = func(_ context.Context, workspace, at string) (bool, error) {
					if asked++; workspace != "run/r1" || at != dir {
						t.Errorf("asked about %s at %s", workspace, at)
					}
					if _, err := os.Stat(filepath.Join(at, ".git")); err != nil {
						t.Error(err)
					}
					return c.whole, c.err
				}
			})
			for _, at := range []string{"run/r1", demo} {
				v, err := a.Enter(t.Context(), at, "r1")
				if err != nil {
					t.Fatal(err)
				}
				if at != demo {
					dir = v.Dir()
				}
				become(t, v.Dir(), map[string]string{".git": "x"})
				if err := v.Keep(t.Context(), "c1"); err != nil {
					t.Fatal(err)
				}
				v.Leave()
				if _, err := a.Ended(t.Context(), at, "r1"); !errors.Is(err, c.err) && at != demo && c.atEnd {
					t.Errorf("%+v: %v", c, err)
				}
			}
			if (asked > 0) != c.atEnd {
				t.Errorf("%+v: asked %d times", c, asked)
			}
			if !c.atEnd {
				now = now.Add(25 * time.Hour)
				if err := a.Cleanup().Tidy(t.Context()); !errors.Is(err, c.err) || asked != 1 {
					t.Errorf("%+v: %v, asked %d times", c, err, asked)
				}
			}
			if kept := l.record("run/r1").Snapshot != ""; kept == c.whole || l.record(demo).Snapshot == "" {
				t.Errorf("%+v: kept %v", c, kept)
			}
			if _, err := os.Stat(dir); c.whole && err == nil {
				t.Errorf("%+v: the directory is still there", c)
			}
		}
	})
	t.Run("WS-5 what no one used for long goes, and nothing of a living instance", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		root := t.TempDir()
		now := time.Now()
		in := func(name string) *Trees {
			return l.at(name, nil, func(c *Config) { c.Root, c.Now = root, func() time.Time { return now } })
		}
		a, b := in("a"), in("b")
		enter := func(trees *Trees, at string) *Visit {
			v, err := trees.Enter(t.Context(), at, "r1")
			if err != nil {
				t.Fatal(err)
			}
			become(t, v.Dir(), states[1])
			if err := v.Keep(t.Context(), "c1"); err != nil {
				t.Fatal(err)
			}
			v.Leave()
			return v
		}
		dead, living, run, session, busy := enter(b, "run/dead"), enter(a, "run/living"), enter(a, "run/r2"), enter(a, demo), enter(a, "run/r3")
		for _, at := range []string{"run/r2", demo} {
			if _, err := a.Ended(t.Context(), at, "r1"); err != nil {
				t.Fatal(err)
			}
		}
		check := func(when string, want ...bool) {
			t.Helper()
			if err := errors.Join(a.Cleanup().Tidy(t.Context()), in("c").Cleanup().Tidy(t.Context())); err != nil {
				t.Fatal(err)
			}
			for i, v := range []*Visit{dead, living, run, session, busy} {
				if _, err := os.Stat(v.Dir()); (err == nil) != want[i] {
					t.Errorf("%s: %s is there: %v", when, v.Dir(), err == nil)
				}
			}
		}
		check("at once", true, true, true, true, true)
		now = now.Add(25 * time.Hour)
		check("a day later", true, true, false, false, true)
		l.kill("b")
		check("when an instance died", false, true, false, false, true)
		if l.record("run/r2").Snapshot != "" || l.record(demo).Snapshot == "" {
			t.Errorf("records: %+v %+v", l.record("run/r2"), l.record(demo))
		}
		l.kill("a")
		v, err := in("d").Enter(t.Context(), demo, "r9")
		if err != nil || stateOf(t, v.Dir()) != 1 {
			t.Errorf("the session is not what it was: %v", err)
		}
	})
	t.Run("WS-5 a deleted session's tree is lost to whoever holds it", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		a, b := l.at("a", nil), l.at("b", nil)
		v, err := a.Enter(t.Context(), demo, "r1")
		if err != nil {
			t.Fatal(err)
		}
		become(t, v.Dir(), states[1])
		if err := v.Keep(t.Context(), "c1"); err != nil {
			t.Fatal(err)
		}
		if err := b.Cleanup().Forget(t.Context(), demo); err != nil {
			t.Fatal(err)
		}
		if err := v.Keep(t.Context(), "c2"); !errors.Is(err, ErrLost) {
			t.Errorf("%v", err)
		}
		v.Leave()
		if w, err := b.Enter(t.Context(), demo, "r2"); err != nil || stateOf(t, w.Dir()) != 0 {
			t.Errorf("%v", err)
		}
	})
}

func TestGit(t *testing.T) {
	t.Parallel()
	g, err := git.New(git.Config{})
	if err != nil {
		t.Fatal(err)
	}
	withGit := func(c *Config) { c.Snapshots = Git{g} }
	t.Run("WS-3 SAFE-8 trees follow with git, through a chain that is made short", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		if _, _, err := work(t, l.at("a", nil, withGit), 1); err != nil {
			t.Fatal(err)
		}
		l.kill("a")
		rec := l.record(demo)
		if len(rec.Packs) > 2 || rec.Covers != fmt.Sprintf("r1/c%d", len(states)-1) || rec.Files != len(states[len(states)-1]) {
			t.Errorf("%+v", rec)
		}
		v, err := l.at("b", nil, withGit).Enter(t.Context(), demo, "r1")
		if err != nil || stateOf(t, v.Dir()) != len(states)-1 {
			t.Fatalf("%v", err)
		}
		v.Leave()
		l.kill("b")
		ref := rec.Packs[len(rec.Packs)-1].Parts[0]
		whole, err := l.st.Blobs().Get(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		whole[len(whole)/2] ^= 1
		l.st.DamageBlob(ref.SHA256, whole)
		if _, err := l.at("c", nil, withGit).Enter(t.Context(), demo, "r1"); !errors.Is(err, ErrDamaged) {
			t.Errorf("%v", err)
		}
	})
}
