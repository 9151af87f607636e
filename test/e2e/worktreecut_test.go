package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// doomed is the log of a toolrunner that dies at one event of one git call of a step: before the event is stored, or
// after it, with the acknowledgement lost.
type doomed struct {
	kernel.Journal
	kind            events.Kind
	run, step, tool string
	before          bool
	dead            chan struct{}

	mu sync.Mutex
}

// Append implements kernel.Journal.
func (d *doomed) Append(ctx context.Context, e kernel.Entry) kernel.Ack {
	lost := kernel.Ack{Outcome: kernel.Transient, Err: errors.New("the process dies here")}
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.dead:
		return lost
	default:
	}
	here := d.is(e)
	if !here || !d.before {
		if ack := d.Journal.Append(ctx, e); !here || ack.Outcome != kernel.Stored {
			return ack
		}
	}
	close(d.dead)
	return lost
}

func (d *doomed) is(e kernel.Entry) bool {
	f, err := events.Decode(e.Bytes)
	if err != nil || e.Kind != d.kind || e.ID != d.run {
		return false
	}
	p, err := f.Payload()
	if err != nil {
		return false
	}
	switch p := p.(type) {
	case *events.CallStartedData:
		return p.Step == d.step && p.Tool == d.tool
	case *events.CallFinishedData:
		return p.Step == d.step && p.Tool == d.tool
	}
	return false
}

// cut is one place in a call where its toolrunner dies.
type cut struct {
	tool   string
	kind   events.Kind
	before bool
}

func TestWorktreeCut(t *testing.T) {
	t.Parallel()
	cutWorktrees(t, cut{events.GitPublish, events.CallFinished, true}, cut{events.GitMerge, events.CallFinished, true})
}

// cutWorktrees plays a run with two children in worktrees for each place where the toolrunner of one of them dies.
func cutWorktrees(t *testing.T, cuts ...cut) {
	w, r := gitWorld(t), newRemote(t)
	no := false
	w.agent(events.Agent{Name: "lead", Tools: []string{"bash"}, Git: &events.GitSettings{RequireApproval: &no}}, claims("echo draft > draft.txt"))
	w.agent(events.Agent{Name: "left", Tools: []string{"write"}}, writes("left.txt", "left"))
	w.agent(events.Agent{Name: "right", Tools: []string{"write"}}, writes("right.txt", "right"))
	w.start(events.Planner, events.Gatekeeper, events.Executor, events.Persister)
	log := w.ports.Journal
	for i, c := range cuts {
		t.Run(fmt.Sprintf("SUB-7 GIT-7 GIT-8 SAFE-7 a toolrunner dies at %s of %s, before it is stored: %v; the children begin once with all of the tree, and each is merged once", c.kind, c.tool, c.before), func(t *testing.T) {
			w, id := w.on(t), fmt.Sprintf("cut%d", i)
			d := &doomed{Journal: log, kind: c.kind, run: id, step: "a", tool: c.tool, before: c.before, dead: make(chan struct{})}
			w.ports.Journal = d
			first := w.start(events.Toolrunner)
			w.ports.Journal = log
			w.task(events.Task{ID: id, Agent: "lead", Task: "go", Repo: r.url(), Branch: "main", Git: commits(),
				Plan: childPlan(events.TaskStep{ID: "draft", Description: "draft"}, treeStep("a", "left", "draft"), treeStep("b", "right", "draft"))})
			w.until("the toolrunner is dead", func() bool {
				select {
				case <-d.dead:
					return true
				default:
					return false
				}
			})
			first.stop()
			defer w.start(events.Toolrunner).stop()
			w.onlyMergedOnce(r, id)
		})
	}
}

// onlyMergedOnce holds that a run with the children left and right has the work of both, each merged once.
func (w *world) onlyMergedOnce(r remote, id string) {
	w.t.Helper()
	s := w.ended(id)
	if s.Status != events.Completed || len(s.Children) != 2 || s.Result.Delivery == nil || !s.Result.Delivery.Pushed {
		w.t.Fatalf("%s %+v\n%s", s.Status, s.Result, w.story(id))
	}
	at := s.Result.Delivery.Commit
	if got := r.show(at, "draft.txt") + "," + r.show(at, "left.txt") + "," + r.show(at, "right.txt"); got != "draft,left,right" {
		w.t.Errorf("the branch of the run has %q", got)
	}
	// The draft and what both children wrote are a commit each. The first child is a fast-forward, the second is merged.
	if got := strings.Fields(r.git("-C", r.dir, "rev-list", "main.."+at)); len(got) != 4 {
		w.t.Errorf("%d commits", len(got))
	}
	for _, c := range s.Children {
		if c.Attempt != 1 || w.state(c.ID).Result.Delivery.Base != s.Step(c.Step).Branched.Commit || r.git("-C", r.dir, "merge-base", at, c.Commit) != c.Commit {
			w.t.Errorf("child %+v, its step is branched at %+v", c, s.Step(c.Step).Branched)
		}
	}
	if n := w.count(id); n["step.branched"] != 2 || n["child.spawned"] != 2 || n["child.finished"] != 2 || n["step.failed"] != 0 {
		w.t.Errorf("%v", n)
	}
}
