package e2e

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/capture"
	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// workflows is a station where runs share no directory, with an agent that writes two files and one that reads a file.
func workflows(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.tune = func(c *service.Config) { c.Isolation = "per_run" }
	w.agent(events.Agent{Name: "maker", Tools: []string{"write", "bash"}}, `
turns:
  - when: {turn: 1}
    calls:
      - {name: write, input: {path: out/report.md, content: "made by {{task}}"}}
      - {name: write, input: {path: notes.md, content: "notes of {{task}}"}}
  - when: {turn: 2}
    text: "done"
`)
	w.agent(events.Agent{Name: "looker", Tools: []string{"read"}}, calling("read", `{path: out/report.md}`))
	return w
}

// makes runs the agent that writes files, as a step of an orchestrator.
func (w *world) makes(id, orchestrator string) run.State {
	w.t.Helper()
	w.task(events.Task{ID: id, Agent: "maker", Task: id, Orchestrator: orchestrator})
	s := w.ended(id)
	if !s.Result.Success || s.Artifacts.Len() != 2 {
		w.t.Fatalf("%+v, %s\n%s", s.Result, made(s), w.story(id))
	}
	return s
}

// reads runs the agent that reads a file, and returns what it read.
func (w *world) reads(id, orchestrator string) (string, run.State) {
	w.t.Helper()
	w.task(events.Task{ID: id, Agent: "looker", Task: "look", Orchestrator: orchestrator})
	s := w.ended(id)
	return s.ToolCallHistory.At(0).Result, s
}

// members are the runs that the row of an orchestrator names.
func (w *world) members(orchestrator string) string {
	w.t.Helper()
	b, err := w.ports.State.Get(w.ctx(), "orchestrator."+orchestrator)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestEarlierRuns(t *testing.T) {
	t.Parallel()
	w := workflows(t)
	w.file("run/keeps/out", "report.md", "was there before")
	w.start()
	w.makes("first", "orch")
	t.Run("ART-9 the next run of an orchestrator reads what the one before made, also where it begins at once", func(t *testing.T) {
		w := w.on(t)
		got, s := w.reads("second", "orch")
		if !strings.Contains(got, "made by first") || !slices.Equal(s.Created.Earlier, []string{"first"}) || s.Created.Workspace == w.state("first").Created.Workspace {
			t.Errorf("got %q, earlier runs %v\n%s", got, s.Created.Earlier, w.story("second"))
		}
		if s.Artifacts.Len() != 0 {
			t.Errorf("what was brought counts as made by the run: %s", made(s))
		}
		w.sound("second")
		if r := replayed(t, lawOf(t, events.GateTerms{}), w.log("second")); !r.OK() {
			t.Errorf("PLUS-6: %+v", r)
		}
	})
	t.Run("ART-9 of each path the newest run counts, and a run without files is not among them", func(t *testing.T) {
		w := w.on(t)
		w.makes("third", "orch")
		got, s := w.reads("fourth", "orch")
		if !strings.Contains(got, "made by third") || !slices.Equal(s.Created.Earlier, []string{"first", "third"}) {
			t.Errorf("got %q, earlier runs %v", got, s.Created.Earlier)
		}
	})
	t.Run("ART-9 a file that is there is kept", func(t *testing.T) {
		w := w.on(t)
		if got, _ := w.reads("keeps", "orch"); !strings.Contains(got, "was there before") {
			t.Errorf("got %q", got)
		}
		if b, err := os.ReadFile(filepath.Join(w.dir, "work", "run", "keeps", "notes.md")); err != nil || !strings.HasPrefix(string(b), "notes of third") {
			t.Errorf("%q, %v", b, err)
		}
	})
	t.Run("ART-9 WS-3 another orchestrator sees nothing, nor does a run of none", func(t *testing.T) {
		w := w.on(t)
		for id, orchestrator := range map[string]string{"stranger": "other", "alone": ""} {
			if got, s := w.reads(id, orchestrator); len(s.Created.Earlier) != 0 || strings.Contains(got, "made by") {
				t.Errorf("%s: got %q, earlier runs %v", id, got, s.Created.Earlier)
			}
		}
	})
	t.Run("ART-9 PLUS-1 a fork of a step has the files that the step was given, and is no earlier run of the others", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "fork", ForkOf: &events.ForkPoint{Run: "second", Sequence: w.state("second").Sequence}, Say: "Again."})
		if s := w.ended("fork"); !slices.Equal(s.Created.Earlier, []string{"first"}) {
			t.Errorf("%v", s.Created.Earlier)
		}
		if _, s := w.reads("after-fork", "orch"); slices.Contains(s.Created.Earlier, "fork") {
			t.Errorf("%v", s.Created.Earlier)
		}
	})
}

func TestEarlierRunsIndex(t *testing.T) {
	t.Parallel()
	t.Run("ART-9 PERS-15 PERS-21 without a persister the next run finds the one before; what was not noted is noted by redelivery, the same twice", func(t *testing.T) {
		t.Parallel()
		w := workflows(t)
		w.start(events.Planner, events.Gatekeeper, events.Executor, events.Toolrunner)
		w.makes("first", "orch")
		if got, s := w.reads("second", "orch"); !strings.Contains(got, "made by first") {
			t.Errorf("got %q, earlier runs %v", got, s.Created.Earlier)
		}
		w.makes("third", "orch")
		if err := w.ports.State.Delete(w.ctx(), "orchestrator.orch"); err != nil { // the index is lost
			t.Fatal(err)
		}
		w.start(events.Persister) // it is delivered the ends that no persister has seen
		noted := func() bool {
			row := w.members("orch")
			return strings.Contains(row, `"first"`) && strings.Contains(row, `"third"`) && !strings.Contains(row, "open")
		}
		w.until("noted both ends", noted)
		if got, s := w.reads("fourth", "orch"); !strings.Contains(got, "made by third") || !slices.Equal(s.Created.Earlier, []string{"first", "third"}) {
			t.Errorf("got %q, earlier runs %v", got, s.Created.Earlier)
		}
		w.until("without the run that made nothing", func() bool { return noted() && !strings.Contains(w.members("orch"), "fourth") })
		once := w.members("orch")
		ledger, err := runlog.NewLedger(runlog.LedgerConfig{Station: "test", By: events.Persister, Journal: w.ports.Journal, Entropy: rand.Reader})
		if err != nil {
			t.Fatal(err)
		}
		index := &capture.Workflows{KV: w.ports.State, Runs: ledger}
		for range 2 {
			if err := index.Ended(w.ctx(), w.state("third")); err != nil || w.members("orch") != once {
				t.Errorf("%v: %s, before %s", err, w.members("orch"), once)
			}
		}
	})
}

// includes waits until a watcher was told a text.
func (v *viewer) includes(w *world, want string) {
	w.t.Helper()
	w.until("told "+want, func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return strings.Contains(v.text, want)
	})
}

func TestEarlierRunsExpired(t *testing.T) {
	t.Parallel()
	t.Run("ART-8 ART-9 what has expired since is passed by, people are told, and a run after that is given nothing", func(t *testing.T) {
		t.Parallel()
		w := workflows(t)
		base := w.tune
		w.tune = func(c *service.Config) { base(c); c.ArtifactTTL = time.Second }
		w.agent(events.Agent{Name: "careful", Tools: []string{"read"}, Guards: []events.Rule{{ID: "careful", Tool: "read", Action: "ask"}}}, calling("read", "{path: out/report.md}"))
		hosts := w.start(events.Planner, events.Gatekeeper, events.Executor, events.Toolrunner) // without a persister nothing expires
		defer hosts.stop()
		w.makes("first", "orch")
		w.task(events.Task{ID: "second", Agent: "careful", Task: "look", Orchestrator: "orch"})
		s := w.await("second", "waiting", waiting)
		if !slices.Equal(s.Created.Earlier, []string{"first"}) {
			t.Fatalf("earlier runs %v", s.Created.Earlier)
		}
		told := w.told("second", slices.Collect(maps.Keys(s.Open))[0])
		w.start(events.Persister)
		w.until("expired", func() bool {
			all, err := w.ports.Artifacts.Stored(w.ctx())
			return err == nil && len(all) == 0
		})
		w.approve("second", "approve")
		s = w.ended("second")
		if r := s.ToolCallHistory.At(0); r.Success || s.Status != events.Completed {
			t.Errorf("%+v, %s", r, s.Status)
		}
		told.includes(w, "expired: notes.md of run first, out/report.md of run first")
		if _, s := w.reads("third", "orch"); len(s.Created.Earlier) != 0 {
			t.Errorf("earlier runs %v", s.Created.Earlier)
		}
	})
}

// stored puts the log of a run that ended into the station, whose artifacts have the given paths.
func (w *world) stored(id, orchestrator string, paths ...string) {
	w.t.Helper()
	ref, err := w.ports.Artifacts.Put(w.ctx(), id, []byte("evil"), time.Hour)
	if err != nil {
		w.t.Fatal(err)
	}
	b := runtest.New("test", id)
	created := runtest.Created()
	created.Orchestrator, created.Workspace = orchestrator, "run/"+id
	r := runtest.Ref("a", "c1-1", "bash")
	b.Append(created, runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"),
		runtest.Turn(1, "a", "work", runtest.Asked(1, 1, "bash", `{"command":"make"}`)), runtest.CallYes(r, "once"), runtest.CallBegun(r, 1))
	fence := b.State().Open["c1-1"].Fence
	saved := &events.ArtifactSavedData{Event: "artifact_saved", ToolRef: r, Fence: fence}
	for i, p := range paths {
		saved.Artifacts = append(saved.Artifacts, events.Artifact{ID: "art-" + string(rune('a'+i)), Type: events.ArtifactReport, Name: filepath.Base(p), Path: p, Size: ref.Size, SHA256: ref.SHA256,
			CreatedAt: time.Now().UTC(), Key: artifact.KeyOf(orchestrator, p), Kept: events.StoredInBucket, TTLMS: time.Hour.Milliseconds(), Run: id, Step: "a"})
	}
	b.Append(saved, runtest.CallDone(r, fence, "made"), runtest.Turn(2, "a", "done"), runtest.StepDone("a", "done"))
	b.Append(runtest.PlanDone(1))
	b.Append(runtest.Completed(b.State()))
	head := uint64(0)
	for _, ev := range b.Events() {
		f, err := events.Decode(ev)
		if err != nil {
			w.t.Fatal(err)
		}
		k, _ := f.Kind()
		ack := w.ports.Journal.Append(w.ctx(), kernel.Entry{ID: id, Kind: k, Head: head, Bytes: ev})
		if ack.Outcome != kernel.Stored {
			w.t.Fatalf("%s: %+v", k, ack)
		}
		head = ack.Seq
	}
}

func TestEarlierRunsHostile(t *testing.T) {
	t.Parallel()
	t.Run("ART-9 SAFE-12 a log whose artifacts have hostile names leads nowhere, and its other files are brought", func(t *testing.T) {
		t.Parallel()
		w := workflows(t)
		w.stored("evil", "orch", "../../escaped.md", filepath.Join(w.dir, "absolute.md"), ".git/hooks/pre-commit", ".harness/tasks.json", ".inspan/x", "link/escaped.md", "out/report.md")
		outside := t.TempDir()
		w.file("run/second", "here.md", "")
		if err := os.Symlink(outside, filepath.Join(w.dir, "work", "run", "second", "link")); err != nil {
			t.Fatal(err)
		}
		w.start()
		w.until("indexed", func() bool { return strings.Contains(w.members("orch"), "evil") })
		if got, s := w.reads("second", "orch"); !strings.Contains(got, "evil") || !s.Result.Success {
			t.Fatalf("got %q, earlier runs %v", got, s.Created.Earlier)
		}
		var found []string
		err := filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				if b, err := os.ReadFile(path); err == nil && string(b) == "evil" {
					found = append(found, path)
				}
			}
			return err
		})
		if left, _ := os.ReadDir(outside); err != nil || len(left) != 0 || !slices.Equal(found, []string{filepath.Join(w.dir, "work", "run", "second", "out", "report.md")}) {
			t.Errorf("%v, %v, %v", found, left, err)
		}
	})
}

func TestEarlierRunsElsewhere(t *testing.T) {
	t.Parallel()
	t.Run("ART-9 another toolrunner that takes a run over has its workspace filled, too, and a file that was deleted does not come back on the same", func(t *testing.T) {
		t.Parallel()
		w := workflows(t)
		w.agent(events.Agent{Name: "careful", Tools: []string{"bash", "read"}, Guards: []events.Rule{{ID: "careful", Tool: "read", Action: "ask"}}}, `
turns:
  - when: {turn: 1}
    calls:
      - {name: bash, input: {command: "cat out/report.md && rm notes.md"}}
  - when: {turn: 2}
    calls:
      - {name: bash, input: {command: "ls"}}
  - when: {turn: 3}
    calls:
      - {name: read, input: {path: out/report.md}}
  - when: {turn: 4}
    text: "done"
`)
		others := w.start(events.Planner, events.Gatekeeper, events.Executor, events.Persister)
		defer others.stop()
		first := w.start(events.Toolrunner)
		w.makes("first", "orch")
		w.task(events.Task{ID: "second", Agent: "careful", Task: "look", Orchestrator: "orch"})
		s := w.await("second", "waiting", waiting)
		if ls := s.ToolCallHistory.At(1).Result; !s.ToolCallHistory.At(0).Success || strings.Contains(ls, "notes.md") {
			t.Errorf("%+v, %q", s.ToolCallHistory.At(0), ls)
		}
		first.stop()
		base := w.tune
		w.tune = func(c *service.Config) { base(c); c.Workspace = filepath.Join(w.dir, "elsewhere") }
		w.start(events.Toolrunner)
		w.approve("second", "approve")
		s = w.ended("second")
		if got := s.ToolCallHistory.At(2).Result; !strings.Contains(got, "made by first") {
			t.Errorf("got %q\n%s", got, w.story("second"))
		}
	})
	t.Run("ART-9 in a run that works in git the files are beside what git sees: no commit has them", func(t *testing.T) {
		t.Parallel()
		w := workflows(t)
		base := w.tune
		w.tune = func(c *service.Config) { base(c); c.GitProtocols, c.GitHosts = []string{"file"}, []string{"*"} }
		far := newRemote(t)
		w.agent(events.Agent{Name: "coder", Tools: []string{"bash"}}, `
turns:
  - when: {turn: 1}
    calls:
      - {name: bash, input: {command: "git status --porcelain; cat .harness/earlier/out/report.md; echo code > code.go"}}
  - when: {turn: 2}
    text: "done"
`)
		w.start()
		w.makes("first", "orch")
		w.task(events.Task{ID: "second", Agent: "coder", Task: "code", Orchestrator: "orch", Repo: far.url(), Git: commits()})
		w.await("second", "waiting for the push", waiting)
		w.approve("second", "approve")
		s := w.ended("second")
		var out run.CallRecord
		for _, c := range run.All(s.ToolCallHistory) {
			if c.CallName == "bash" {
				out = c
			}
		}
		if !strings.HasPrefix(out.Result, "made by first") {
			t.Fatalf("%q, %+v\n%s", out.Result, s.Result, w.story("second"))
		}
		var at struct {
			Commit string `json:"commit"`
		}
		for _, c := range run.All(s.ToolCallHistory) {
			if c.CallName == "git_commit" && json.Unmarshal([]byte(c.Result), &at) != nil {
				t.Errorf("%q", c.Result)
			}
		}
		list, err := far.try("-C", filepath.Join(w.dir, "work", "run", "second"), "ls-tree", "-r", "--name-only", "HEAD")
		if err != nil || at.Commit == "" || list != "README.md\ncode.go" {
			t.Errorf("%q, %v, commit %q", list, err, at.Commit)
		}
	})
}
