package capture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// logs are the states of runs by id; damaged ones are held.
type logs struct {
	states  map[string]run.State
	damaged []string
	asked   []string
}

// Fresh implements Runs.
func (l *logs) Fresh(_ context.Context, runID string) (run.State, error) {
	l.asked = append(l.asked, runID)
	if slices.Contains(l.damaged, runID) {
		return run.State{}, fmt.Errorf("run %s: %w", runID, kernel.ErrHeld)
	}
	return l.states[runID], nil
}

// chain is a workflow: runs that ended, and the next one, which is at a desktop.
type chain struct {
	*desktop
	logs  *logs
	notes string
}

func newChain(t *testing.T) *chain {
	t.Helper()
	c := &chain{desktop: newDesktop(t), logs: &logs{states: map[string]run.State{}}}
	c.s.HarnessID, c.s.Created = "next", &events.RunCreatedData{Workspace: "run/next", Orchestrator: "o"}
	return c
}

// file is one artifact of a run.
type file struct{ path, text string }

// ended adds a run that made files.
func (c *chain) ended(id string, files ...file) run.State {
	c.t.Helper()
	at := time.Unix(int64(1000+len(c.logs.states)), 0)
	s := run.State{HarnessID: id, Status: events.Completed, Sequence: 9, EndedAt: &at, Created: &events.RunCreatedData{Workspace: "run/" + id, Orchestrator: "o"}}
	for _, f := range files {
		ref, err := c.store.Put(c.t.Context(), id, []byte(f.text), time.Hour)
		if err != nil {
			c.t.Fatal(err)
		}
		s.Artifacts = run.Append(s.Artifacts, events.Artifact{ID: "art-" + f.path, Run: id, Name: f.path, Path: f.path, Key: artifact.KeyOf("o", f.path), SHA256: ref.SHA256,
			Size: ref.Size, Kept: events.StoredInBucket})
	}
	c.logs.states[id] = s
	c.s.Created.Earlier = append(c.s.Created.Earlier, id)
	return s
}

func (c *chain) bring(rules *events.ArtifactRules) (int, error) {
	c.notes = ""
	return c.k.Earlier(c.t.Context(), c.s, Earlier{Dir: c.dir, Rules: rules, Runs: c.logs, Note: func(line string) { c.notes += line }})
}

// want brings and compares how many files are written, and what is in some.
func (c *chain) want(n int, texts ...file) {
	c.t.Helper()
	if got, err := c.bring(nil); got != n || err != nil {
		c.t.Errorf("brought %d files, %v; want %d", got, err, n)
	}
	for _, f := range texts {
		if b, err := os.ReadFile(filepath.Join(c.dir, f.path)); err != nil || string(b) != f.text {
			c.t.Errorf("%s: got %q, %v; want %q", f.path, b, err, f.text)
		}
	}
}

// elsewhere is another machine: a folder of its own, and no lists.
func (c *chain) elsewhere() {
	c.dir, c.cfg.Lists = c.t.TempDir(), filepath.Join(c.t.TempDir(), "lists")
	c.restart()
}

func TestEarlier(t *testing.T) {
	t.Parallel()
	t.Run("ART-9 of each path the newest run's file is brought, once in a workspace, and is nothing that the run made", func(t *testing.T) {
		t.Parallel()
		c := newChain(t)
		c.ended("r1", file{"report.md", "old"}, file{"out/a.json", "a"})
		c.ended("r2", file{"report.md", "new"})
		c.want(2, file{"report.md", "new"}, file{"out/a.json", "a"})
		if err := c.k.Begin(t.Context(), "next", c.dir); err != nil {
			t.Fatal(err)
		}
		if l := c.look(nil); len(l.Artifacts) != 0 {
			t.Errorf("what was brought looks new: %s", paths(l))
		}
		if err := os.Remove(filepath.Join(c.dir, "report.md")); err != nil {
			t.Fatal(err)
		}
		c.want(0)
		c.restart()
		c.want(0)
		if _, err := os.Stat(filepath.Join(c.dir, "report.md")); !os.IsNotExist(err) {
			t.Errorf("a file that was deleted came back: %v", err)
		}
		c.elsewhere()
		c.want(2, file{"report.md", "new"}, file{"out/a.json", "a"})
	})
	t.Run("ART-9 a crash in the middle leaves a part, and the next call completes it", func(t *testing.T) {
		t.Parallel()
		c := newChain(t)
		c.ended("r1", file{"a.md", "a"}, file{"b.md", "b"}, file{"c.md", "c"})
		for done := range 4 {
			c.elsewhere()
			for _, f := range []file{{"a.md", "a"}, {"b.md", "b"}, {"c.md", "c"}}[:done] {
				c.write(f.path, f.text)
			}
			c.write(aside+"half", "ha")
			c.want(3-done, file{"a.md", "a"}, file{"b.md", "b"}, file{"c.md", "c"})
		}
	})
	t.Run("ART-9 a file that is there is kept, and so is what the run made itself", func(t *testing.T) {
		t.Parallel()
		c := newChain(t)
		mine := c.ended("mine", file{"own.md", "made by the run"})
		c.s.Artifacts, c.s.Created.Earlier = mine.Artifacts, nil
		c.ended("r1", file{"report.md", "brought"}, file{"own.md", "brought"})
		c.write("report.md", "was there")
		c.want(0, file{"report.md", "was there"})
		if _, err := os.Stat(filepath.Join(c.dir, "own.md")); !os.IsNotExist(err) {
			t.Errorf("%v", err)
		}
	})
	t.Run("ART-9 ART-10 runs that share a directory have their files there; one that was cleaned up gets them, also after a crash", func(t *testing.T) {
		t.Parallel()
		c := newChain(t)
		c.s.Created.Workspace = "workflow/w"
		old := c.ended("r1", file{"a.md", "a"}, file{"b.md", "b"})
		old.Created.Workspace = "workflow/w"
		c.write("b.md", "b") // and a.md was removed since
		c.want(0)
		c.elsewhere()
		c.write(".harness/tasks.json", "{}")
		c.write(".session.meta", "{}")
		c.store.Artifacts = &failing{Artifacts: c.store.Artifacts, after: 1}
		if n, err := c.bring(nil); n != 1 || !errors.Is(err, errAway) {
			t.Fatalf("%d, %v", n, err)
		}
		c.restart()
		c.want(1, file{"a.md", "a"}, file{"b.md", "b"})
	})
	t.Run("ART-9 PLUS-1 a fork in the same directory gets nothing, one in its own what the run had got", func(t *testing.T) {
		t.Parallel()
		for same, want := range map[bool]int{true: 0, false: 1} {
			c := newChain(t)
			c.ended("r1", file{"a.md", "a"})
			c.s.Created.ForkOf = &events.ForkOrigin{SameWorkspace: same}
			c.want(want)
		}
	})
}

var errAway = errors.New("the store is away")

// failing is a store that is away once, after some reads.
type failing struct {
	kernel.Artifacts
	after int
}

func (f *failing) Get(ctx context.Context, runID string, ref events.Ref) ([]byte, error) {
	if f.after--; f.after == -1 {
		return nil, errAway
	}
	return f.Artifacts.Get(ctx, runID, ref)
}

// lying is a store whose bytes are not those that were put.
type lying struct{ kernel.Artifacts }

func (lying) Get(context.Context, string, events.Ref) ([]byte, error) { return []byte("other"), nil }

func TestEarlierPassedBy(t *testing.T) {
	t.Parallel()
	t.Run("ART-8 ART-9 what has expired is passed by with a note, and no older file takes its place", func(t *testing.T) {
		t.Parallel()
		c := newChain(t)
		c.ended("r1", file{"report.md", "old"}, file{"a.md", "a"})
		s := c.ended("r2", file{"report.md", "new"})
		if err := c.store.Remove(t.Context(), "r2", s.Artifacts.At(0).SHA256); err != nil {
			t.Fatal(err)
		}
		c.want(1, file{"a.md", "a"})
		if !strings.Contains(c.notes, "expired: report.md of run r2") || !strings.Contains(c.notes, "the workspace: 1\n") {
			t.Errorf("%q", c.notes)
		}
	})
	t.Run("ART-9 SAFE-12 hostile names are refused, and nothing is written outside, or through a link", func(t *testing.T) {
		t.Parallel()
		c := newChain(t)
		outside := t.TempDir()
		if err := errors.Join(os.Symlink(outside, filepath.Join(c.dir, "link")), os.Symlink(outside, filepath.Join(c.dir, "dangling.md"))); err != nil {
			t.Fatal(err)
		}
		c.write("plain", "a file")
		c.write("inner/x", "x")
		if err := os.Symlink("inner", filepath.Join(c.dir, "within")); err != nil {
			t.Fatal(err)
		}
		names := []string{"../evil.md", "/tmp/evil.md", "a/../../evil.md", ".git/hooks/pre-commit", "sub/.GIT/config", ".g\u200cit/config", ".harness/run.json", "x/.Inspan/a",
			".session.meta", ".inspan-half", "link/evil.md", "within/evil.md", "plain/evil.md", "dir/" + strings.Repeat("n", 300), `a\b`, "a\nb", ".", ""}
		var files []file
		for _, n := range names {
			files = append(files, file{n, "evil"})
		}
		c.ended("r1", append(files, file{"good/.github/ok.md", "fine"}, file{"dangling.md", "evil"})...)
		c.want(1, file{"good/.github/ok.md", "fine"})
		for _, dir := range []string{outside, filepath.Join(c.dir, "inner"), filepath.Join(c.dir, ".git"), filepath.Join(c.dir, ".harness"), filepath.Join(c.dir, "sub")} {
			left, err := os.ReadDir(dir)
			if len(left) > 1 || len(left) == 1 && left[0].Name() != "x" || err != nil && !os.IsNotExist(err) {
				t.Errorf("%s: %v, %v", dir, left, err)
			}
		}
		if _, err := os.Stat(filepath.Join(c.dir, "..", "evil.md")); err == nil {
			t.Error("it left the workspace")
		}
		if !strings.Contains(c.notes, refusedName) {
			t.Errorf("%q", c.notes)
		}
	})
	t.Run("ART-9 bytes that are not those of the digest are not brought, nor is what was never stored", func(t *testing.T) {
		t.Parallel()
		c := newChain(t)
		local := c.ended("r1", file{"a.md", "a"})
		kept := local.Artifacts.At(0)
		kept.Path, kept.Kept = "local.md", events.StoredInWorkspace
		local.Artifacts = run.Append(local.Artifacts, kept)
		c.logs.states["r1"] = local
		c.store.Artifacts = lying{c.store.Artifacts}
		c.want(0)
		if !strings.Contains(c.notes, "damaged in the store: a.md") || !strings.Contains(c.notes, "in their workspace: local.md") {
			t.Errorf("%q", c.notes)
		}
	})
	t.Run("ART-9 a damaged log, one that has not ended and one that is not there keep nothing back", func(t *testing.T) {
		t.Parallel()
		c := newChain(t)
		c.ended("r1", file{"a.md", "a"})
		open := c.ended("r2", file{"b.md", "b"})
		open.Status = events.Running
		c.logs.states["r2"] = open
		c.ended("r3", file{"c.md", "c"})
		c.logs.damaged = []string{"r3"}
		c.s.Created.Earlier = append(c.s.Created.Earlier, "unknown")
		c.want(1, file{"a.md", "a"})
		if !strings.Contains(c.notes, "all of run r3") {
			t.Errorf("%q", c.notes)
		}
	})
	t.Run("ART-9 where git works, or may, the files are beside what it sees", func(t *testing.T) {
		t.Parallel()
		for name, tune := range map[string]func(*chain){
			"its settings": func(c *chain) { c.s.Created.Git = &events.GitWork{} },
			"its address":  func(c *chain) { c.s.Created.Repo = "https://example.com/x.git" },
			"its tool": func(c *chain) {
				c.s.Agents = map[string]events.Agent{"a": {Tools: []string{events.GitPrepare}}}
			},
			"its folder": func(c *chain) { c.write(".git/HEAD", "x") },
		} {
			c := newChain(t)
			tune(c)
			c.ended("r1", file{"out/a.md", name})
			c.want(1, file{EarlierFolder + "/out/a.md", name})
			if _, err := os.Stat(filepath.Join(c.dir, "out")); !os.IsNotExist(err) {
				t.Errorf("%s: %v", name, err)
			}
			if !strings.Contains(c.notes, "copied into "+EarlierFolder) {
				t.Errorf("%s: %q", name, c.notes)
			}
		}
	})
}

func TestEarlierLimits(t *testing.T) {
	t.Parallel()
	t.Run("ART-9 ART-7 the bytes hold to the limit of the run's artifacts, and the newest run comes first", func(t *testing.T) {
		t.Parallel()
		for limit, want := range map[int64]int{9: 1, 10: 2, 11: 2} {
			c := newChain(t)
			c.ended("r1", file{"old.md", "55555"})
			c.ended("r2", file{"new.md", "55555"})
			if n, err := c.bring(&events.ArtifactRules{MaxRun: limit}); n != want || err != nil {
				t.Errorf("limit %d: got %d, %v; want %d", limit, n, err, want)
			}
			if _, err := os.Stat(filepath.Join(c.dir, "new.md")); err != nil {
				t.Errorf("limit %d: %v", limit, err)
			}
		}
	})
	t.Run("ART-9 the number of files is limited", func(t *testing.T) {
		t.Parallel()
		for _, n := range []int{maxBrought, maxBrought + 1} {
			c := newChain(t)
			var files []file
			for i := range n {
				files = append(files, file{fmt.Sprintf("f%04d.md", i), "x"})
			}
			c.ended("r1", files[:n/2]...)
			c.ended("r2", files[n/2:]...)
			c.want(maxBrought)
			if over := strings.Contains(c.notes, "exceed 1000 files"); over != (n > maxBrought) {
				t.Errorf("%d files: %q", n, c.notes)
			}
		}
	})
	t.Run("ART-9 so is the number of runs, and the newest are looked at", func(t *testing.T) {
		t.Parallel()
		for _, n := range []int{events.MaxEarlier, events.MaxEarlier + 1} {
			c := newChain(t)
			for i := range n {
				c.ended(fmt.Sprintf("r%03d", i), file{fmt.Sprintf("f%03d.md", i), "x"})
			}
			c.want(events.MaxEarlier, file{fmt.Sprintf("f%03d.md", n-1), "x"})
			if len(c.logs.asked) != events.MaxEarlier {
				t.Errorf("%d logs were read", len(c.logs.asked))
			}
		}
	})
}
