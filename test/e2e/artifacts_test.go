package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

const making = `
turns:
  - when: {turn: 1}
    calls:
      - {name: write, input: {path: report.md, content: "# done\n"}}
  - when: {turn: 2}
    calls:
      - {name: bash, input: {command: "mkdir -p out && echo '{}' > out/data.json && echo x > out/skip.bin && ln -s /etc/passwd out/link.md"}}
  - when: {turn: 3}
    calls:
      - {name: artifact_save, input: {path: out/skip.bin, type: data, name: the numbers}}
  - when: {turn: 4}
    calls:
      - {name: bash, input: {command: "seq 1 20000"}}
  - when: {turn: 5}
    text: "done"
`

// made are the paths of a run's artifacts, with the type of each.
func made(s run.State) string {
	var out []string
	for _, a := range artifact.Latest(s) {
		out = append(out, strings.TrimPrefix(a.Key, "runs/"+s.HarnessID+"/")+" "+a.Type)
	}
	return strings.Join(out, ", ")
}

func TestArtifacts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.file("run/make", "old.md", "was there before")
	w.agent(events.Agent{Name: "maker", Tools: []string{"write", "bash", "artifact_save"}}, making)
	w.start()
	w.task(events.Task{ID: "make", Agent: "maker", Task: "make"})
	s := w.ended("make")
	if !s.Result.Success {
		t.Fatalf("%+v\n%s", s.Result, w.story("make"))
	}
	t.Run("ART-1 ART-2 ART-3 ART-11 ART-12 TOOL-15 what the calls of a run made is in its log, and the bytes in the store", func(t *testing.T) {
		call := s.ToolCallHistory.At(3).ID
		if got, want := made(s), "logs/"+call+".log log, output/out/data.json data, output/out/skip.bin data, output/report.md report"; got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
		want := map[string]string{"report.md": "# done\n", "out/data.json": "{}\n", "out/skip.bin": "x\n"}
		for _, a := range artifact.Latest(s) {
			if a.Run != "make" || a.ID == "" || a.Step == "" || a.CreatedAt.IsZero() || len(a.SHA256) != 64 {
				t.Errorf("%+v", a)
			}
			if a.Kept != events.StoredInBucket {
				continue
			}
			if b, err := w.ports.Artifacts.Get(w.ctx(), "make", a.Ref()); err != nil || string(b) != want[a.Path] {
				t.Errorf("%s: %q, %v", a.Path, b, err)
			}
		}
		if a, ok := artifact.Find(s, "the numbers"); !ok || !a.Saved || a.Path != "out/skip.bin" {
			t.Errorf("%+v", a)
		}
		if a, ok := artifact.Find(s, call+".log"); !ok || a.Kept != events.StoredWithLog {
			t.Errorf("%+v", a)
		} else if b, err := w.ports.Blobs.Get(w.ctx(), a.Ref()); err != nil || !strings.Contains(string(b), "\n19999\n") {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	})
	t.Run("what a call made is said before its end, and nothing is said of calls that made nothing", func(t *testing.T) {
		kinds := w.kinds("make")
		for i, k := range kinds {
			if k == "artifact.saved" && kinds[i+1] != "call.finished" {
				t.Errorf("after artifact.saved comes %s", kinds[i+1])
			}
		}
		if n := w.count("make")["artifact.saved"]; n != 4 {
			t.Errorf("%d events\n%s", n, w.story("make"))
		}
	})
	t.Run("WS-15 the workspace has a readable view", func(t *testing.T) {
		var view struct {
			Run       string            `json:"run_id"`
			Artifacts []events.Artifact `json:"artifacts"`
		}
		b, err := os.ReadFile(filepath.Join(w.dir, "work", "run", "make", ".harness", "artifacts.json"))
		if err == nil {
			err = json.Unmarshal(b, &view)
		}
		if err != nil || view.Run != "make" || len(view.Artifacts) != 4 {
			t.Errorf("%s, %v", b, err)
		}
	})
}

func TestArtifactsOff(t *testing.T) {
	t.Parallel()
	t.Run("ART-5 switched off for the station, only what is saved by name is kept", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.tune = func(c *service.Config) { c.Artifacts = "off" }
		w.agent(events.Agent{Name: "maker", Tools: []string{"write", "bash", "artifact_save"}}, making)
		w.start()
		w.task(events.Task{ID: "off", Agent: "maker", Task: "make"})
		if got := made(w.ended("off")); got != "output/out/skip.bin data" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("ART-6 local: records in the log, bytes in the workspace, nothing in the store", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.tune = func(c *service.Config) { c.Artifacts = "local" }
		w.agent(events.Agent{Name: "maker", Tools: []string{"write", "bash", "artifact_save"}}, making)
		w.start()
		w.task(events.Task{ID: "loc", Agent: "maker", Task: "make"})
		s := w.ended("loc")
		all, err := w.ports.Artifacts.Stored(w.ctx())
		if err != nil || len(all) != 0 || s.Artifacts.Len() != 4 {
			t.Errorf("%+v, %v; %s", all, err, made(s))
		}
	})
}

// noRoom is a log that cannot take the end of a call while shut.
type noRoom struct {
	kernel.Journal
	mu      sync.Mutex
	shut    bool
	refused chan struct{}
}

func (n *noRoom) Append(ctx context.Context, e kernel.Entry) kernel.Ack {
	n.mu.Lock()
	shut := n.shut && (e.Kind == events.ArtifactSaved || e.Kind == events.CallFinished)
	n.mu.Unlock()
	if shut {
		select {
		case n.refused <- struct{}{}:
		default:
		}
		return kernel.Ack{Outcome: kernel.Full}
	}
	return n.Journal.Append(ctx, e)
}

func TestArtifactsOfALostToolrunner(t *testing.T) {
	t.Parallel()
	t.Run("ART-3 a toolrunner that is lost between put and event: another finds the same, and nothing is stored twice", func(t *testing.T) {
		t.Parallel()
		w := worldOn(t, jettest.Connect(t, jettest.Server(t), jet.Config{DrainGrace: 100 * time.Millisecond})) // a stop is soon like a death
		if err := w.conn.Setup().Apply(w.ctx(), "test", jet.ApplyOptions{AckWait: 2 * time.Second, LeaseTerm: 6 * time.Second}); err != nil {
			t.Fatal(err)
		}
		log := &noRoom{Journal: w.ports.Journal, shut: true, refused: make(chan struct{}, 1)} // one: the first refusal is enough
		w.ports.Journal = log
		w.agent(events.Agent{Name: "maker", Tools: []string{"write"}}, `
turns:
  - when: {turn: 1}
    calls:
      - {name: write, input: {path: report.md, content: "# done\n"}}
  - when: {turn: 2}
    text: "done"
`)
		others := w.start(events.Planner, events.Gatekeeper, events.Executor, events.Persister)
		defer others.stop()
		first := w.start(events.Toolrunner)
		w.task(events.Task{ID: "lost", Agent: "maker", Task: "make"})
		select {
		case <-log.refused:
		case <-w.ctx().Done():
			t.Fatal("nothing was said of the call")
		}
		before, err := w.ports.Artifacts.Stored(w.ctx())
		if err != nil || len(before) != 1 {
			t.Fatalf("it was to be stored before it is said: %+v, %v", before, err)
		}
		first.stop()
		log.mu.Lock()
		log.shut = false
		log.mu.Unlock()
		w.start(events.Toolrunner)
		s := w.ended("lost")
		after, err := w.ports.Artifacts.Stored(w.ctx())
		if err != nil || len(after) != 1 || made(s) != "output/report.md report" || w.count("lost")["artifact.saved"] != 1 {
			t.Errorf("%+v, %v; %s\n%s", after, err, made(s), w.story("lost"))
		}
	})
}

func TestArtifactsStoreFull(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-14 a full store of artifacts leaves files out and says so; the run goes on", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		if err := w.conn.Setup().Apply(w.ctx(), "test", jet.ApplyOptions{Limits: topology.Limits{ArtifactBytes: 64 << 10}}); err != nil {
			t.Fatal(err)
		}
		w.agent(events.Agent{Name: "maker", Tools: []string{"bash"}}, `
turns:
  - when: {turn: 1}
    calls:
      - {name: bash, input: {command: "echo small > a.md; head -c 300000 /dev/urandom > big.log"}}
  - when: {turn: 2}
    text: "done"
`)
		w.start()
		w.task(events.Task{ID: "full", Agent: "maker", Task: "make"})
		s := w.ended("full")
		if !s.Result.Success || made(s) != "output/a.md report" {
			t.Errorf("%+v, %s", s.Result, made(s))
		}
		var left []events.LeftOut
		for _, r := range w.events("full") {
			if _, p, err := events.Read(r.Bytes); err == nil {
				if d, ok := p.(*events.ArtifactSavedData); ok {
					left = append(left, d.Left...)
				}
			}
		}
		if len(left) != 1 || left[0].Path != "big.log" || left[0].Code != events.LeftStoreFull || left[0].Size != 300_000 {
			t.Errorf("%+v", left)
		}
	})
}

func TestArtifactsExpire(t *testing.T) {
	t.Parallel()
	t.Run("ART-8 C33 after its time the bytes are gone, and the log is as it was", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.tune = func(c *service.Config) { c.ArtifactTTL = time.Second }
		w.agent(events.Agent{Name: "maker", Tools: []string{"write", "bash", "artifact_save"}}, making)
		w.start()
		w.task(events.Task{ID: "brief", Agent: "maker", Task: "make"})
		s := w.ended("brief")
		ctx, tick := w.ctx(), time.NewTicker(100*time.Millisecond)
		defer tick.Stop()
		for {
			all, err := w.ports.Artifacts.Stored(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if len(all) == 0 {
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				t.Fatalf("still there: %+v", all)
			}
		}
		for _, a := range artifact.Latest(s) {
			if a.Kept == events.StoredInBucket {
				if _, err := w.ports.Artifacts.Get(ctx, "brief", a.Ref()); !errors.Is(err, kernel.ErrNotFound) {
					t.Errorf("%s: %v", a.Path, err)
				}
			}
		}
		if now := w.state("brief"); now.Hash != s.Hash {
			t.Error("the log was changed")
		}
	})
	t.Run("ART-9 ART-8 C33 what a run that goes on has stored is there for its next step on another machine, whatever the time", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.tune = func(c *service.Config) { c.ArtifactTTL = time.Second }
		w.agent(events.Agent{Name: "maker", Tools: []string{"write", "read"}, Guards: []events.Rule{{ID: "careful", Tool: "read", Action: "ask"}}}, `
turns:
  - when: {turn: 1}
    calls:
      - {name: write, input: {path: out/report.md, content: "made on the first machine"}}
  - when: {turn: 2}
    calls:
      - {name: read, input: {path: out/report.md}}
  - when: {turn: 3}
    text: "done"
`)
		h := w.start(events.Planner, events.Gatekeeper, events.Executor, events.Persister)
		defer h.stop()
		first := w.start(events.Toolrunner)
		w.task(events.Task{ID: "next", Agent: "maker", Task: "make"})
		w.await("next", "waiting before the second call", waiting)
		first.stop()
		ctx, swept := w.ctx(), time.NewTimer(2500*time.Millisecond) // several sweeps, more than the time to live
		defer swept.Stop()
		select {
		case <-swept.C:
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		}
		base := w.tune
		w.tune = func(c *service.Config) { base(c); c.Workspace = filepath.Join(w.dir, "elsewhere") }
		w.start(events.Toolrunner)
		g := w.opened("next")
		w.publish(g.AnswerSubject+".anna", `{"decision":"approve","proposal_hash":"`+g.ProposalHash+`"}`)
		s := w.ended("next")
		if got := s.ToolCallHistory.At(s.ToolCallHistory.Len() - 1); !strings.Contains(got.Result, "made on the first machine") {
			t.Errorf("the next machine read %q\n%s", got.Result, w.story("next"))
		}
		if _, err := os.Stat(filepath.Join(w.dir, "elsewhere", "run", "next", "out", "report.md")); err != nil {
			t.Error(err)
		}
	})
}

func TestArtifactsCleanedUp(t *testing.T) {
	t.Parallel()
	t.Run("ART-14 by option, what is in the store is taken out of the workspace at the end, and nothing else", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.agent(events.Agent{Name: "maker", Tools: []string{"write", "bash", "artifact_save"}, Artifacts: &events.ArtifactRules{Clean: true}}, making)
		w.start()
		w.task(events.Task{ID: "tidy", Agent: "maker", Task: "make"})
		s := w.ended("tidy")
		work := filepath.Join(w.dir, "work", "run", "tidy")
		ctx, tick := w.ctx(), time.NewTicker(20*time.Millisecond)
		defer tick.Stop()
		for _, name := range []string{"report.md", "out/data.json", "out/skip.bin"} {
			for {
				if _, err := os.Stat(filepath.Join(work, name)); errors.Is(err, os.ErrNotExist) {
					break
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
					t.Fatalf("%s is still there", name)
				}
			}
		}
		if _, err := os.Lstat(filepath.Join(work, "out", "link.md")); err != nil {
			t.Errorf("what is no artifact is gone: %v", err)
		}
		for _, a := range artifact.Latest(s) {
			if a.Kept == events.StoredInBucket {
				if _, err := w.ports.Artifacts.Get(ctx, "tidy", a.Ref()); err != nil {
					t.Errorf("%s: %v", a.Path, err)
				}
			}
		}
	})
}
