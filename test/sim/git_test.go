package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// gitTools are those of git, with their effect classes. Of each run that works in git there is one working tree, which
// has one branch, and one remote.
var gitTools = map[string]tool.Effect{events.GitPrepare: tool.Idempotent, events.GitCommit: tool.Idempotent,
	events.GitPublish: tool.Idempotent, events.GitMerge: tool.Idempotent, events.GitPush: tool.Reconcilable}

// repository is the outside world of one run in git.
type repository struct {
	branch, head string
	// remote is the commit that the remote has, kept the one that was published.
	remote, kept string
	// trees are those of its commits.
	trees map[string]string
}

// smallGit is the small world of a run in git: one step with a call, and what the harness does before and after it.
func smallGit(first string) Scene {
	s := small(first, first)
	r := &s.Runs[0]
	r.Steps, r.Git = r.Steps[:1], true
	return s
}

// git draws which runs work in git.
func (s *Scene) git(seed uint64) {
	for i := range s.Runs {
		r := &s.Runs[i]
		if (seed+uint64(i))%5 == 0 && !r.Direct { //nolint:gosec // a small number
			r.Git = true
		}
	}
}

// inGit says in a task that its run works in git.
func inGit(t *events.Task) {
	yes := true
	t.Repo, t.Git = "https://host/repo", &events.TaskGit{GitSettings: events.GitSettings{AutoCommit: &yes}}
}

// commitOf is the id of a commit that stands for an effect.
func commitOf(effect int) string { return fmt.Sprintf("%040x", effect+1) }

// gitDouble is a git tool whose effects are written down.
type gitDouble struct{ double }

// Spec implements tool.Tool.
func (d gitDouble) Spec() tool.Spec {
	s := d.double.Spec()
	s.Input = json.RawMessage(`{"type":"object"}`)
	return s
}

// Run implements tool.Tool.
func (d gitDouble) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	if v := d.l.step(ctx, opWorld, false, "%s begins %s", d.name, c.ID); v != made {
		if ctx.Err() != nil {
			return tool.Result{}, context.Cause(ctx)
		}
		return tool.Result{}, tool.Fail(tool.Transient, "", errTrouble)
	}
	if d.l.dead.Load() {
		return tool.Result{}, errDied
	}
	if d.b.w.play.Scene.branches() {
		return d.clones(ctx, c)
	}
	e := d.b.happens(d.double, c, noNumber)
	out := d.b.git(d.name, c, e)
	if v := d.l.step(ctx, opWorld, true, "%s did %s", d.name, c.ID); v == before || v == after || v == died {
		return tool.Result{}, errDied
	}
	return out, nil
}

// noNumber stands for the number of a call that is not in the scene.
const noNumber = -1

// git changes the world of a run and tells what it is like then.
func (b *toolbox) git(name string, c tool.Call, effect int) tool.Result {
	var in struct {
		Branch    string `json:"branch"`
		NewBranch string `json:"new_branch"`
		Commit    string `json:"commit"`
	}
	if err := json.Unmarshal(c.Input, &in); err != nil {
		b.w.audit.breaks("%s %s: %v", name, c.ID, err)
	}
	r := b.repositories[c.Env.Sandbox.ID()]
	if r == nil {
		r = &repository{head: commitOf(0), trees: map[string]string{}}
		b.repositories[c.Env.Sandbox.ID()] = r
	}
	out := map[string]any{"effect": effect}
	switch name {
	case events.GitPrepare:
		if in.NewBranch != "" {
			r.branch = in.NewBranch
		}
	case events.GitCommit:
		dir := ""
		if b.w.play.Scene.hasChecks() { // only there a workspace has files
			dir = c.Env.Sandbox.Workspace()
		}
		b.strayed(c.Env.Sandbox.ID(), dir)
		r.head = commitOf(1 + effect)
		r.trees[r.head] = b.treeOf(dir)
	case events.GitPublish:
		r.kept = r.head
		out["artifact"] = "branch." + r.branch
	case events.GitPush:
		r.remote, out["url"] = in.Commit, "https://host/repo"
	}
	if out["branch"], out["commit"] = r.branch, r.head; name == events.GitPush {
		out["commit"] = r.remote
	}
	out["tree"] = r.trees[r.head]
	text, err := json.Marshal(out)
	if err != nil {
		panic(err) // a fault of the simulation itself
	}
	return tool.Result{Output: string(text)}
}

// gitPusher is a push, which can tell whether it took effect.
type gitPusher struct{ gitDouble }

// Verify implements tool.Verifier.
func (d gitPusher) Verify(ctx context.Context, c tool.Call) (bool, tool.Result, error) {
	done, res, err := verifying{d.double}.Verify(ctx, c)
	if done {
		var e int
		if _, err := fmt.Sscanf(res.Output, "effect %d", &e); err != nil {
			return false, tool.Result{}, err
		}
		if d.b.w.play.Scene.branches() {
			return true, tool.Result{Output: fmt.Sprintf(`{"effect":%d,"url":"https://host/repo","branch":%q,"commit":%q}`, e,
				d.b.repositories[c.Env.Sandbox.ID()].branch, d.b.repositories[c.Env.Sandbox.ID()].remote)}, nil
		}
		return true, d.b.git(d.name, c, e), nil
	}
	return done, res, err
}

// effectOf is the number of the effect that a result tells of.
func effectOf(output string) (n int, ok bool) {
	var git struct{ Effect *int }
	if strings.HasPrefix(output, "{") && json.Unmarshal([]byte(output), &git) == nil && git.Effect != nil {
		return *git.Effect, true
	}
	_, err := fmt.Sscanf(output, "effect %d", &n)
	return n, err == nil
}

// delivered holds that what is said of a delivery is what the remote has, that nothing was pushed before it was kept,
// and that a completed run has delivered.
func (a *audit) delivered(runID string, end events.Kind, d events.Result) string {
	run := a.w.play.Scene.run(runID)
	switch {
	case run == nil || !run.Git || a.runs[runID].others:
		return ""
	case d.Delivery == nil:
		if len(a.runs[runID].plan) > 0 {
			return "nothing is said of what was delivered"
		}
		return ""
	}
	r := a.w.tools.repositories[runID]
	if r == nil {
		r = &repository{}
	}
	switch {
	case d.Delivery.Pushed && (r.remote != d.Delivery.Commit || r.branch != d.Delivery.Branch):
		return fmt.Sprintf("it tells of %s at %s, the remote has %s", d.Delivery.Branch, d.Delivery.Commit, r.remote)
	case run.Checked && r.remote != "" && !a.runs[runID].trees[r.trees[r.remote]]:
		return "files were pushed that no check has seen"
	case r.remote != "" && r.kept != r.remote:
		return "something was pushed that was not kept"
	case end == events.RunCompleted && d.Delivery.Commit != r.head:
		return fmt.Sprintf("it is completed and tells of %s, the tree is at %s", d.Delivery.Commit, r.head)
	}
	if d.Delivery.Pushed {
		a.w.tale.counts["deliveries pushed"]++
		if run.Checked {
			a.w.tale.counts["checked deliveries pushed"]++
		}
	}
	return ""
}
