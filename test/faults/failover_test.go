//go:build slow

package faults

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	words "github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/internal/workspace/treelog"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// The agents of the play. The second call of mover is the one in whose middle its toolrunner is lost; the third one
// takes long enough for a former owner to wake up meanwhile.
const (
	moverScript = `
turns:
  - when: {turn: 1}
    calls: [{name: bash, input: {command: "mkdir -p src && printf one > src/a.txt && head -c 300000 /dev/urandom > src/data && sha256sum src/data > src/sum && ln -s a.txt src/link"}}]
  - when: {turn: 2}
    calls: [{name: bash, input: {command: "printf half > half.txt; sleep 6; printf late > late.txt; printf late >> src/a.txt", timeout_ms: 60000}}]
  - when: {turn: 3}
    calls: [{name: bash, input: {command: "sha256sum -c src/sum; cat src/link; ls; printf two >> src/a.txt; sleep 10", timeout_ms: 60000}}]
  - when: {turn: 4}
    text: "moved and went on"
`
	lookerScript = `
turns:
  - when: {turn: 1}
    calls: [{name: bash, input: {command: "sha256sum -c src/sum; cat src/a.txt; ls"}}]
  - when: {turn: 2}
    text: "looked"
`
)

// failover is a station of real processes with two toolrunners, each on a root of its own.
type failover struct {
	*fleet
	t    *testing.T
	ctx  context.Context
	seat seat
	c    *client.Client
	// said is the transcript, zero its first moment.
	said strings.Builder
	zero time.Time
	// patience is the longest wait; 0 is 100 s.
	patience time.Duration
	// explain shows where a play is that does not go on; nil says nothing.
	explain func() string
}

// TestFailover is the play of workspaces that follow their runs (make failover): two toolrunners on one JetStream
// server. The one that works in a workspace is killed in the middle of a call, then one is stopped there and wakes up
// too late.
func TestFailover(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Minute)
	defer cancel()
	p := &failover{fleet: newFleet(t, fleetConfig{bin: binaries(t), nodes: 1, replicas: 1}), t: t, ctx: ctx}
	p.services = append(p.services, "toolrunner.2")
	p.env = func(name string) []string {
		return []string{"INSPAN_WORKSPACE_MODE=follow", "INSPAN_WORKSPACE=" + p.root(name)}
	}
	for name, script := range map[string]string{"mover": moverScript, "looker": lookerScript} {
		p.write("agents/"+name+".prompt", "---\nname: "+name+"\nmodel: scripted/"+name+"\ntools: [bash]\n---\nWork.\n")
		p.write("scripts/"+name+".yaml", script)
	}
	p.start("n1")
	setUp(ctx, t, p.fleet, topology.Limits{})
	p.seat = p.connect(ctx, "operator", 0)
	var err error
	if p.c, err = operator.On(p.seat.conn, stationName); err != nil {
		t.Fatal(err)
	}
	for _, s := range p.services {
		p.start(s)
	}
	t.Run("WS-3 WS-13 SAFE-7 DEPL-2 the toolrunner that holds a workspace is killed with -9 in the middle of a call, another restores the snapshot and the run completes", func(t *testing.T) {
		p.t = t
		owner := p.act("killed", func(owner string) { p.stop(owner, syscall.SIGKILL) }, nil)
		p.start(owner)
	})
	t.Run("WS-13 SAFE-8 a toolrunner that was stopped in the middle of a call and wakes up after another took over changes nothing", func(t *testing.T) {
		p.t = t
		p.act("stopped", func(owner string) { p.signal(owner, syscall.SIGSTOP) }, func(owner string, taken workspace.Record) { p.wakes(owner, "stopped", taken) })
		p.later("stopped")
	})
	for _, x := range p.panics() {
		t.Error(x)
	}
}

// root of the workspaces of a process.
func (p *failover) root(name string) string { return filepath.Join(p.dir, "machine-"+name) }

// tell adds a line to the transcript.
func (p *failover) tell(format string, args ...any) {
	fmt.Fprintf(&p.said, "%7.2fs  ", time.Since(p.zero).Seconds())
	fmt.Fprintf(&p.said, format+"\n", args...)
}

func (p *failover) tree(session string) workspace.Record {
	p.t.Helper()
	log, err := treelog.New(treelog.Config{Station: p.seat.Name(), By: events.Toolrunner, Entropy: rand.Reader,
		Journal: p.seat.JournalFor(events.WorkspaceAggregate), Rows: p.seat.KV(topology.TreeBucket)})
	if err != nil {
		p.t.Fatal(err)
	}
	s, err := log.Known(p.ctx, "session/"+session)
	if err != nil {
		p.t.Fatal(err)
	}
	return s.Workspace
}

// await asks until something holds.
func (p *failover) await(what string, holds func() bool) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, cmp.Or(p.patience, 100*time.Second))
	defer cancel()
	calm := func() bool {
		if holds() {
			return true
		}
		if p.patience > 0 { // who waits for long asks less often
			pause(ctx, 250*time.Millisecond)
		}
		return false
	}
	if !until(ctx, calm) {
		var words []string
		for _, s := range p.services {
			words = append(words, s+": "+p.lastWords(s))
		}
		if p.explain != nil {
			words = append(words, p.explain())
		}
		p.t.Fatalf("waited in vain: %s\n%s\n%s", what, p.said.String(), strings.Join(words, "\n"))
	}
}

// process finds which toolrunner an instance is.
func (p *failover) process(instance string) string {
	for _, name := range p.services {
		if b, err := os.ReadFile(p.log(name)); err == nil && strings.Contains(string(b), instance) {
			return name
		}
	}
	p.t.Fatalf("no process says that it is %s", instance)
	return ""
}

func (p *failover) state(runID string) (s run.State, evs []client.Item) {
	p.t.Helper()
	for item, err := range p.c.Events(p.ctx, runID, 0) {
		if err != nil {
			p.t.Fatal(err)
		}
		s, evs = item.State, append(evs, item)
	}
	return s, evs
}

// middle waits until the second call of a run has begun and changed a file, and returns the process that works on it.
func (p *failover) middle(session string) (owner string, rec workspace.Record) {
	p.t.Helper()
	p.await("the second call is under way", func() bool {
		rec = p.tree(session)
		if rec.Owner == "" || rec.Snapshot == "" {
			return false
		}
		owner = p.process(rec.Owner)
		half, err := filepath.Glob(filepath.Join(p.root(owner), ".trees", "session="+session, "*", "tree", "half.txt"))
		return err == nil && len(half) == 1
	})
	return owner, rec
}

// act has a run lose its toolrunner in the middle of a call and go on at the other one; meanwhile is done when that one
// has it.
func (p *failover) act(session string, lose func(owner string), meanwhile func(owner string, taken workspace.Record)) (lost string) {
	p.t.Helper()
	p.zero = time.Now()
	p.said.Reset()
	id := "run-" + session
	if _, err := p.c.Start(p.ctx, events.Task{ID: id, Agent: "mover", Task: "work", Session: session}); err != nil {
		p.t.Fatal(err)
	}
	owner, before := p.middle(session)
	p.tell("%s holds session/%s with fence %d, snapshot %.12s of %d files, %s in %s", owner, session, before.Fence, before.Snapshot, before.Files, words.Bytes(size(before)), words.Plural(len(before.Packs), "pack"))
	at := time.Now()
	lose(owner)
	p.tell("%s is %s in the middle of a call that has changed files", owner, session)
	var taken workspace.Record
	p.await("another takes over", func() bool { taken = p.tree(session); return taken.Fence > before.Fence && taken.Owner != "" })
	p.tell("%s holds it with fence %d, %.1f s after the loss (the lease of the former one is 15 s)", p.process(taken.Owner), taken.Fence, time.Since(at).Seconds())
	if meanwhile != nil {
		meanwhile(owner, taken)
	}
	var end run.State
	p.await("the run ends", func() bool { end, _ = p.state(id); return end.Status.Ended() })
	p.tell("the run is %s, %.1f s after the loss", end.Status, time.Since(at).Seconds())
	var after workspace.Record
	p.await("the workspace is given back", func() bool { after = p.tree(session); return after.Owner == "" })
	p.tell("given back: fence %d, snapshot %.12s of %d files, %s in %s", after.Fence, after.Snapshot, after.Files, words.Bytes(size(after)), words.Plural(len(after.Packs), "pack"))
	p.events(id)
	p.t.Logf("transcript\n%s", p.said.String())
	if end.Status != events.Completed || p.process(taken.Owner) == owner || after.Fence != taken.Fence || after.Snapshot == before.Snapshot {
		p.t.Errorf("the run is %s; before %+v, taken %+v, after %+v", end.Status, before, taken, after)
	}
	middle, looked := end.ToolCallHistory.At(1), end.ToolCallHistory.At(2).Result
	if middle.Code != events.OutcomeUnknown || middle.Success {
		p.t.Errorf("the call that was under way: %+v", middle)
	}
	if !strings.Contains(looked, "src/data: OK") || !strings.Contains(looked, "one") || strings.Contains(looked, "half.txt") || strings.Contains(looked, "late.txt") {
		p.t.Errorf("the other one found %q", looked)
	}
	if !strings.Contains(looked, "machine that held this workspace was lost") || !strings.Contains(looked, before.Covers) {
		p.t.Errorf("the agent is not told that the workspace moved: %q", looked)
	}
	return owner
}

// events adds those of a run to the transcript.
func (p *failover) events(id string) {
	_, evs := p.state(id)
	for _, it := range evs {
		by := ""
		if c, ok := it.Payload.(*events.CallStartedData); ok {
			by = fmt.Sprintf("; by %s, fence %d", p.process(c.Runner), it.Event.Sequence)
		}
		fmt.Fprintf(&p.said, "%7.2fs  event %2d  %-10s  %s%s\n", it.Event.Time.Sub(p.zero).Seconds(), it.Event.Sequence, it.Event.Author(), words.Clip(words.Text(it.Payload), 140), by)
	}
}

// size is what a snapshot has in the object store, in bytes.
func size(rec workspace.Record) (n int64) {
	for _, pack := range rec.Packs {
		for _, part := range pack.Parts {
			n += part.Size
		}
	}
	return n
}

// wakes lets a stopped toolrunner go on while the other one works, and looks at what it changed. The command of its
// call has ended meanwhile: it has a result to say and a tree to keep.
func (p *failover) wakes(owner, session string, taken workspace.Record) {
	p.t.Helper()
	late := func() []string {
		all, err := filepath.Glob(filepath.Join(p.root(owner), ".trees", "session="+session, "*", "tree", "late.txt"))
		if err != nil {
			p.t.Fatal(err)
		}
		return all
	}
	p.await("the command that no one listens to has ended", func() bool { return len(late()) == 1 })
	p.signal(owner, syscall.SIGCONT)
	p.tell("%s wakes up: the command of its call has ended and changed files in its old directory", owner)
	p.await("the one that woke up gives its directory up", func() bool { return len(late()) == 0 })
	now := p.tree(session)
	s, evs := p.state("run-" + session)
	p.tell("it has given its directory up; the record still says fence %d, snapshot %.12s", now.Fence, now.Snapshot)
	if s.Status.Ended() {
		p.t.Error("the run had ended before: this shows nothing")
	}
	if now.Fence != taken.Fence || now.Snapshot != taken.Snapshot || now.Owner != taken.Owner {
		p.t.Errorf("it changed the record: %+v, was %+v", now, taken)
	}
	ends := 0
	for _, it := range evs {
		if it.Payload.Kind() == events.CallFinished || it.Payload.Kind() == events.CallFailed {
			ends++
		}
	}
	if ends != 2 || s.ToolCallHistory.At(1).Code != events.OutcomeUnknown {
		p.t.Errorf("%d calls have ended, the second is %+v", ends, s.ToolCallHistory.At(1))
	}
}

// later has another run of the session look at the files.
func (p *failover) later(session string) {
	p.t.Helper()
	p.said.Reset()
	if _, err := p.c.Start(p.ctx, events.Task{ID: "run-looker", Agent: "looker", Task: "look", Session: session}); err != nil {
		p.t.Fatal(err)
	}
	var looked run.State
	p.await("the next run of the session ends", func() bool { looked, _ = p.state("run-looker"); return looked.Status.Ended() })
	found := looked.ToolCallHistory.At(0).Result
	p.tell("the next run of the session finds: %s", strings.Join(strings.Fields(found), " "))
	p.t.Logf("transcript\n%s", p.said.String())
	if looked.Status != events.Completed || !strings.Contains(found, "src/data: OK") || !strings.Contains(found, "onetwo") || strings.Contains(found, "late") {
		p.t.Errorf("the next run is %s and found %q", looked.Status, found)
	}
}
