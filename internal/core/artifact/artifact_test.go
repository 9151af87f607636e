package artifact

import (
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestNames(t *testing.T) {
	t.Parallel()
	t.Run("ART-1 the type comes from the name", func(t *testing.T) {
		t.Parallel()
		for name, want := range map[string]string{"a/b.py": "file", "Makefile": "file", "build.LOG": "log", "docs/x.md": "report", "shot.PNG": "screenshot", "r.json": "data"} {
			if got := TypeOf(name); got != want {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
		}
	})
	t.Run("ART-11 a file is called by its run and path", func(t *testing.T) {
		t.Parallel()
		if got := KeyOf("run-1", "out/a.md"); got != "runs/run-1/output/out/a.md" {
			t.Error(got)
		}
		for want, c := range map[string]*events.RunCreatedData{"run-1": {}, "orch-7": {Orchestrator: "orch-7"}} {
			if got := OwnerOf(run.State{HarnessID: "run-1", Created: c}); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		for name, c := range map[string]*events.RunCreatedData{"nothing": nil, "what is no id": {Orchestrator: "../x"}, "a fork": {Orchestrator: "orch-7", ForkOf: &events.ForkOrigin{}}} {
			if got := OwnerOf(run.State{HarnessID: "run-1", Created: c}); got != "run-1" {
				t.Errorf("%s: got %s", name, got)
			}
		}
	})
	t.Run("SAFE-12 hostile names are refused, and shown without harm", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"", ".", "..", "../x", "/etc/passwd", "a/../b", "a//b", `a\..\b`, "a\nb", "a\x00b", "a\x1b[31m", "a\u202eb", "\xff\xfe", strings.Repeat("x", MaxPath+1)} {
			if CheckPath(name) == "" {
				t.Errorf("%q was taken", name)
			}
			if shown := Shown(name); strings.ContainsFunc(shown, Deceptive) || len(shown) > 300 {
				t.Errorf("%q is shown as %q", name, shown)
			}
		}
		for _, name := range []string{"a.md", "a b/ü.md", "-rf", ".hidden", "a/..b", strings.Repeat("x", MaxPath)} {
			if why := CheckPath(name); why != "" {
				t.Errorf("%q: %s", name, why)
			}
		}
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	t.Run("ART-5 ART-7 ART-3 the defaults", func(t *testing.T) {
		t.Parallel()
		if l := LimitsOf(nil); l.File != 10<<20 || l.Run != 100<<20 {
			t.Errorf("%+v", l)
		}
		if l := LimitsOf(&events.ArtifactRules{MaxFile: 1 << 40, MaxRun: 5}); l.File != MaxTransfer || l.Run != 5 {
			t.Errorf("%+v", l)
		}
		if got := strings.Join(DefaultInclude(), " "); got != "**/*.py **/*.md **/*.json **/*.log" {
			t.Error(got)
		}
		if got := strings.Join(DefaultExclude(), " "); got != "node_modules/** .git/** *.tmp" {
			t.Error(got)
		}
	})
	t.Run("ART-5 a file at the limit is taken, one byte more is not, unless the agent saves it by name", func(t *testing.T) {
		t.Parallel()
		tally := NewTally(run.State{}, LimitsOf(nil))
		for size, want := range map[int64]string{DefaultMaxFile: "", DefaultMaxFile + 1: events.LeftTooLarge, 1 << 40: events.LeftTooLarge} {
			if code, _ := tally.Refuse("a.md", size, false); code != want {
				t.Errorf("%d bytes: %q, want %q", size, code, want)
			}
		}
		for size, want := range map[int64]string{DefaultMaxFile + 1: "", MaxTransfer: "", MaxTransfer + 1: events.LeftTooLarge} {
			if code, _ := tally.Refuse("a.md", size, true); code != want {
				t.Errorf("%d bytes saved by name: %q, want %q", size, code, want)
			}
		}
	})
	t.Run("ART-7 the run's total counts each content once, and holds to the byte", func(t *testing.T) {
		t.Parallel()
		l := Limits{File: 100, Run: 100}
		f := Found{Limits: l, Artifacts: []events.Artifact{made("a", "1", 60), made("b", "1", 60), made("c", "2", 40), made("d", "3", 1)}}
		evs := Saved(working(), events.ToolRef{Call: "c"}, 1, f)
		d := evs[0].(*events.ArtifactSavedData)
		if len(evs) != 1 || len(d.Artifacts) != 3 || len(d.Left) != 1 || d.Left[0].Code != events.LeftRunFull || d.Left[0].Path != "d" {
			t.Errorf("%+v", d)
		}
	})
}

// working is a run with one call under way.
func working() run.State {
	return run.State{HarnessID: "r1", Open: map[string]*run.Call{"c": {Fence: 1}}}
}

func made(path, digest string, size int64) events.Artifact {
	return events.Artifact{Name: path, Path: path, Key: KeyOf("r1", path), SHA256: digest, Size: size, Kept: events.StoredInBucket, Run: "r1"}
}

func TestSay(t *testing.T) {
	t.Parallel()
	f := Found{Limits: LimitsOf(nil), Artifacts: []events.Artifact{made("a", "1", 1)}, Left: []events.LeftOut{{Path: "b", Code: events.LeftTooLarge}}}
	ref := events.ToolRef{Call: "c"}
	t.Run("an attempt that is not the current one says nothing", func(t *testing.T) {
		t.Parallel()
		ended := working()
		ended.Status = events.Failed
		for name, s := range map[string]run.State{"another fence": {Open: map[string]*run.Call{"c": {Fence: 2}}}, "no call": {}, "a run that ended": ended} {
			if evs := Saved(s, ref, 1, f); evs != nil {
				t.Errorf("%s: %+v", name, evs)
			}
		}
	})
	t.Run("what was left out is said once of an attempt, also where its end is said later", func(t *testing.T) {
		t.Parallel()
		s := working()
		if evs := Saved(s, ref, 1, f); len(evs) != 1 || len(evs[0].(*events.ArtifactSavedData).Left) != 1 {
			t.Errorf("%+v", evs)
		}
		s.Artifacts = run.Append(s.Artifacts, f.Artifacts[0])
		s.Open["c"].Made = true
		if evs := Saved(s, ref, 1, f); evs != nil {
			t.Errorf("again: %+v", evs)
		}
	})
}

func TestDue(t *testing.T) {
	t.Parallel()
	noon := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	hour := func(n int) *time.Time { at := noon.Add(time.Duration(n) * time.Hour); return &at }
	for _, c := range []struct {
		name  string
		now   *time.Time
		ttl   time.Duration
		known bool
		ended *time.Time
		want  bool
	}{
		{"ART-8 C33 a run that goes on keeps all, whatever the time", hour(10_000), time.Hour, true, nil, false},
		{"ART-8 not before its time", hour(11), 2 * time.Hour, true, hour(10), false},
		{"ART-8 at its time", hour(12), 2 * time.Hour, true, hour(10), true},
		{"ART-8 24 hours where no one says", hour(33), 0, true, hour(10), false},
		{"ART-8 after 24 hours", hour(34), 0, true, hour(10), true},
		{"ART-8 what a crash left of no run counts from when it was stored", hour(2), 2 * time.Hour, false, nil, true},
		{"ART-8 stored after the end by a clock that is ahead", hour(1), 2 * time.Hour, true, hour(-5), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := Due(*c.now, noon, c.ttl, c.known, c.ended); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
	t.Run("ART-8 C33 a record tells when it expires, and what is kept with the events never does", func(t *testing.T) {
		t.Parallel()
		a := events.Artifact{TTLMS: 3_600_000, Kept: events.StoredInBucket}
		if at := ExpiresAt(hour(1), a); !at.Equal(*hour(2)) {
			t.Error(at)
		}
		a.Kept = events.StoredWithLog
		if at := ExpiresAt(hour(1), a); !at.IsZero() {
			t.Error(at)
		}
	})
}

func TestFind(t *testing.T) {
	t.Parallel()
	var s run.State
	for i, a := range []events.Artifact{made("a/x.md", "1", 1), made("b/x.md", "2", 1), made("c/y.md", "3", 1), made("c/y.md", "4", 1)} {
		a.ID = string(rune('A' + i))
		a.Name = a.Path[2:]
		s.Artifacts = run.Append(s.Artifacts, a)
	}
	t.Run("ART-2 by id, path, key or a name that only one has; the newest content of a path", func(t *testing.T) {
		t.Parallel()
		for what, want := range map[string]string{"A": "A", "C": "C", "c/y.md": "D", "y.md": "D", "runs/r1/output/b/x.md": "B"} {
			if a, ok := Find(s, what); !ok || a.ID != want {
				t.Errorf("%s: %s, %v; want %s", what, a.ID, ok, want)
			}
		}
		for _, what := range []string{"x.md", "", "nothing"} {
			if a, ok := Find(s, what); ok {
				t.Errorf("%q found %s", what, a.ID)
			}
		}
		if l := Latest(s); len(l) != 3 || l[2].ID != "D" {
			t.Errorf("%+v", l)
		}
	})
}

func TestTTLs(t *testing.T) {
	t.Parallel()
	t.Run("CLOUD-6 how long artifacts of projects are kept is read, and what is no project or time is refused", func(t *testing.T) {
		t.Parallel()
		got, err := ParseTTLs([]string{"acme=720h", " beta=1s "})
		if err != nil || len(got) != 2 || got["acme"] != 720*time.Hour || got["beta"] != time.Second {
			t.Errorf("%v, %v", got, err)
		}
		for _, bad := range [][]string{{"acme"}, {"=1h"}, {"acme=1"}, {"acme=0s"}, {"acme=-1h"}, {"a.b=1h"}, {"acme=1h", "acme=2h"}, {""}} {
			if got, err := ParseTTLs(bad); err == nil {
				t.Errorf("%q: %v", bad, got)
			}
		}
	})
}
