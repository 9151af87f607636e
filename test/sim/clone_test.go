package sim

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// commit is one of git: the commits before it and the files that it has.
type commit struct {
	Parents []string
	Tree    files
}

// clone is a repository with its working tree, of one run.
type clone struct {
	// Branch is checked out, Heads are the commits of its branches.
	Branch  string
	Heads   map[string]string
	Commits history
	Work    files
}

// history is what a repository has of commits, by their ids.
type history map[string]commit

// published is a branch as others find it, with the commits before it.
type published struct {
	commit  string
	commits history
}

// hub is what the clones of a play have in common: the remote, the published branches by scope and name, and who works
// in which clone.
type hub struct {
	remote    published
	branches  map[string]published
	clones    map[string]*clone
	busy      map[string]*life
	broken    map[string]string
	made      int
	intruders map[string]bool
}

func newHub() hub {
	root := commit{Tree: files{"README.md": "project"}}
	return hub{remote: published{commitOf(0), history{commitOf(0): root}}, branches: map[string]published{}, clones: map[string]*clone{},
		busy: map[string]*life{}, broken: map[string]string{}, intruders: map[string]bool{}}
}

func (c *clone) head() string { return c.Heads[c.Branch] }

func (c *clone) clean() bool { return maps.Equal(c.Work, c.Commits[c.head()].Tree) }

// reaches reports whether a commit is another one or comes after it.
func (h history) reaches(from, to string) bool { return slices.Contains(h.before(from), to) }

// before are a commit and all before it, nearest first.
func (h history) before(id string) (all []string) {
	for next := []string{id}; len(next) > 0; next = next[1:] {
		c, there := h[next[0]]
		if there && !slices.Contains(all, next[0]) {
			all = append(all, next[0])
			next = append(next, c.Parents...)
		}
	}
	return all
}

// upTo are the commits that a branch at a commit needs.
func (h history) upTo(id string) history {
	some := history{}
	for _, b := range h.before(id) {
		some[b] = h[b]
	}
	return some
}

// join merges three trees; paths are those that both sides changed.
func join(base, ours, theirs files) (whole files, paths []string) {
	whole = files{}
	every := maps.Clone(ours)
	maps.Copy(every, theirs)
	maps.Copy(every, base)
	for _, p := range rank(every) {
		b, inBase := base[p]
		o, inOurs := ours[p]
		t, inTheirs := theirs[p]
		take, there := o, inOurs
		switch {
		case inOurs == inTheirs && o == t, inTheirs == inBase && t == b:
		case inOurs == inBase && o == b:
			take, there = t, inTheirs
		default:
			paths = append(paths, p)
		}
		if there {
			whole[p] = take
		}
	}
	return whole, paths
}

// gitJob is one call of git in a clone.
type gitJob struct {
	gitDouble
	c    tool.Call
	in   gitInput
	repo *clone
}

// gitInput are the arguments of all git tools, as far as a play looks at them.
type gitInput struct {
	Branch    string   `json:"branch"`
	NewBranch string   `json:"new_branch"`
	Begin     string   `json:"begin"`
	Commit    string   `json:"commit"`
	From      []string `json:"from"`
	Commits   []string `json:"commits"`
}

// clones carries a call of git out in the clone of its run, alone there, as git work is: what a call that was killed left
// half done is undone where the very same call comes again.
func (d gitDouble) clones(ctx context.Context, c tool.Call) (tool.Result, error) {
	h, id := &d.b.hub, c.Env.Sandbox.ID()
	for waited := 0; h.busy[id] != nil && !h.busy[id].dead.Load(); waited++ {
		if waited == 30 {
			return tool.Result{}, tool.Fail(tool.Transient, "", errors.New("another git operation is in progress in this workspace"))
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return tool.Result{}, context.Cause(ctx)
		}
	}
	if d.l.dead.Load() {
		return tool.Result{}, errDied
	}
	h.busy[id] = d.l
	j := gitJob{gitDouble: d, c: c, repo: d.b.cloneOf(id)}
	if h.broken[id] == c.ID {
		j.undo()
	}
	delete(h.broken, id)
	out, err := j.do(ctx)
	if d.l.dead.Load() {
		return tool.Result{}, errDied
	}
	if h.broken[id] == c.ID && ctx.Err() != nil {
		j.undo()
	}
	delete(h.broken, id)
	delete(h.busy, id)
	return out, err
}

// cloneOf is the clone of a run, empty at first.
func (b *toolbox) cloneOf(runID string) *clone {
	if b.hub.clones[runID] == nil {
		b.hub.clones[runID] = &clone{Heads: map[string]string{}, Commits: history{}, Work: files{}}
	}
	return b.hub.clones[runID]
}

func (j gitJob) undo() {
	j.repo.Work = maps.Clone(j.repo.Commits[j.repo.head()].Tree)
	j.b.w.tale.counts["merges undone"]++
}

// do carries one call out. Before it changes anything it asks whether its fence is the current one.
func (j gitJob) do(ctx context.Context) (tool.Result, error) {
	if err := json.Unmarshal(j.c.Input, &j.in); err != nil {
		return tool.Result{}, tool.Fail(tool.Invalid, "", err)
	}
	work := map[string]func(context.Context) (map[string]any, error){events.GitPrepare: j.prepare, events.GitCommit: j.commit,
		events.GitMerge: j.merge, events.GitPublish: j.publish, events.GitPush: j.push}[j.name]
	out, err := work(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	if v := j.l.step(ctx, opWorld, true, "%s did %s", j.name, j.c.ID); v == before || v == after || v == died {
		return tool.Result{}, errDied
	}
	text, err := json.Marshal(out)
	return tool.Result{Output: string(text)}, err
}

// current asks whether the attempt may still change the clone. One who reads an old state believes that it may.
func (j gitJob) current(ctx context.Context) error {
	run := j.c.Env.Sandbox.ID()
	switch v := j.l.step(ctx, opRead, true, "fence of %s", j.c.ID); v {
	case before, after, died:
		return errDied
	case unmade:
		return tool.Fail(tool.Transient, "", errTrouble)
	case stale:
		return nil
	}
	j.b.w.news()
	if mine := j.l.fenceOf(taskOf(ctx), run, j.c.ID); j.b.w.audit.runs[run].calls[j.c.ID].fence != mine {
		j.b.w.tale.counts["git calls too late"]++
		return tool.Fail(tool.Permanent, "", errors.New("the fence of the call is an old one"))
	}
	return nil
}

// done notes the effect of a call, and is the beginning of its result.
func (j gitJob) done() map[string]any {
	e := j.b.happens(j.double, j.c, noNumber)
	r := j.b.repositories[j.c.Env.Sandbox.ID()]
	if r == nil {
		r = &repository{trees: map[string]string{}}
		j.b.repositories[j.c.Env.Sandbox.ID()] = r
	}
	r.branch, r.head = j.repo.Branch, j.repo.head()
	return map[string]any{"effect": e, "branch": r.branch, "commit": r.head}
}

// prepare checks the branch of the run out, where it begins: at a commit that was published, or at that of the remote.
func (j gitJob) prepare(ctx context.Context) (map[string]any, error) {
	if j.in.NewBranch == "" || j.repo.Heads[j.in.NewBranch] != "" {
		return j.done(), nil
	}
	from, at := j.b.hub.remote, j.in.Begin
	if at == "" {
		at = from.commit
	} else if found, ok := j.finds(at); ok {
		from = found
	} else {
		return nil, tool.Fail(tool.Invalid, "", fmt.Errorf("commit %s is nowhere", at))
	}
	if err := j.current(ctx); err != nil {
		return nil, err
	}
	maps.Copy(j.repo.Commits, from.commits.upTo(at))
	j.repo.Branch, j.repo.Heads[j.in.NewBranch], j.repo.Work = j.in.NewBranch, at, maps.Clone(from.commits[at].Tree)
	out := j.done()
	out["cloned"], out["base"] = true, at
	return out, nil
}

// finds looks for a commit among the branches that were published where the run may look.
func (j gitJob) finds(id string) (published, bool) {
	created := j.b.w.state[j.c.Env.Sandbox.ID()].Created
	for _, scope := range created.Git.Begin.Scopes {
		p := j.b.hub.branches[scope+" "+created.Git.Begin.Branch]
		if _, there := p.commits[id]; there {
			return p, true
		}
	}
	return published{}, false
}

// commit keeps what changed in the tree.
func (j gitJob) commit(ctx context.Context) (map[string]any, error) {
	if err := j.current(ctx); err != nil {
		return nil, err
	}
	made := !j.repo.clean()
	if made {
		j.commits(j.repo.Work, j.repo.head())
	}
	out := j.done()
	out["made"] = made
	return out, nil
}

// commits makes a commit and moves the branch to it.
func (j gitJob) commits(tree files, parents ...string) {
	h := &j.b.hub
	h.made++
	id := fmt.Sprintf("%040x", 1<<32+h.made)
	j.repo.Commits[id] = commit{slices.DeleteFunc(parents, func(p string) bool { return p == "" }), maps.Clone(tree)}
	j.moves(id)
}

// moves takes the branch that is checked out to a commit, which must come after the one that it is at.
func (j gitJob) moves(id string) {
	if was := j.repo.head(); !j.repo.Commits.reaches(id, was) {
		j.b.w.audit.breaks("%s of run %s takes branch %s from %s back to %s", j.c.ID, j.c.Env.Sandbox.ID(), j.repo.Branch, was, id)
	}
	j.repo.Heads[j.repo.Branch] = id
}

// scope is where a run shares its branches.
func (j gitJob) scope() string {
	id := j.c.Env.Sandbox.ID()
	return cmp.Or(j.b.w.state[id].Created.Git.Scope, "run/"+id)
}

// publish lets others find a branch. Where another one published meanwhile, it looks again.
func (j gitJob) publish(ctx context.Context) (map[string]any, error) {
	key := j.scope() + " " + j.in.Branch
	at := j.repo.Heads[j.in.Branch]
	if at == "" {
		return nil, tool.Fail(tool.Invalid, "", fmt.Errorf("there is no branch %q", j.in.Branch))
	}
	for range 4 {
		old := j.b.hub.branches[key].commit
		if old == at {
			break
		}
		if err := j.current(ctx); err != nil {
			return nil, err
		}
		err := j.l.do(ctx, opStore, "publish "+j.in.Branch, func(context.Context) error {
			if j.b.hub.branches[key].commit != old {
				return kernel.ErrExists
			}
			j.b.hub.branches[key] = published{at, j.repo.Commits.upTo(at)}
			return nil
		})
		if errors.Is(err, errTrouble) {
			return nil, tool.Fail(tool.Transient, "", err)
		}
		if err != nil && !errors.Is(err, kernel.ErrExists) {
			return nil, err
		}
	}
	out := j.done()
	j.b.repositories[j.c.Env.Sandbox.ID()].kept = at
	out["branch"], out["commit"], out["artifact"] = j.in.Branch, at, "branch."+j.in.Branch
	return out, nil
}

// push sends a commit to the remote of the run.
func (j gitJob) push(context.Context) (map[string]any, error) {
	out := j.done()
	j.b.repositories[j.c.Env.Sandbox.ID()].remote = j.in.Commit
	out["url"], out["commit"] = "https://host/repo", j.in.Commit
	return out, nil
}

// merge takes a branch in, at the commit that is asked for. The tree is written in two parts: a process that dies
// between them leaves it half written.
func (j gitJob) merge(ctx context.Context) (map[string]any, error) {
	name, id := j.in.From[0], j.c.Env.Sandbox.ID()
	j.intrudes(name, beforeMerge)
	theirs := j.repo.Heads[name]
	if theirs == "" {
		p, there := j.b.hub.branches[j.scope()+" "+name]
		if !there {
			return nil, tool.Fail(tool.Invalid, "", fmt.Errorf("branch %q is nowhere", name))
		}
		theirs = p.commit
		maps.Copy(j.repo.Commits, p.commits)
	}
	if err := j.current(ctx); err != nil {
		return nil, err
	}
	if len(j.in.Commits) > 0 && j.in.Commits[0] != theirs {
		if !j.repo.Commits.reaches(j.repo.head(), j.in.Commits[0]) {
			out := j.done()
			out["moved"] = []any{map[string]string{"branch": name, "was": j.in.Commits[0], "is": theirs}}
			return out, nil
		}
		theirs = j.in.Commits[0] // it is in already
	}
	if !j.repo.clean() {
		return nil, tool.Fail(tool.Permanent, "", errors.New("there are uncommitted changes"))
	}
	ours, how := j.repo.head(), "merge"
	base, next := j.repo.Commits.shared(ours, theirs), files{}
	switch base {
	case theirs:
		out := j.done()
		out["merged"] = []any{map[string]string{"branch": name, "commit": theirs, "how": "nothing"}}
		return out, nil
	case ours:
		how, next = "forward", j.repo.Commits[theirs].Tree
	default:
		var paths []any
		whole, both := join(j.repo.Commits[base].Tree, j.repo.Commits[ours].Tree, j.repo.Commits[theirs].Tree)
		for _, p := range both {
			paths = append(paths, map[string]string{"path": p})
		}
		if next = whole; len(paths) > 0 {
			out := j.done()
			out["conflicts"] = []any{map[string]any{"branch": name, "ours": ours, "theirs": theirs, "paths": paths}}
			j.b.w.tale.counts["merges in conflict"]++
			return out, nil
		}
	}
	j.b.hub.broken[id] = j.c.ID
	half := rank(next)
	for _, p := range half[:len(half)/2] {
		j.repo.Work[p] = next[p]
	}
	if v := j.l.step(ctx, opWorld, true, "%s writes %s", j.name, name); v == before || v == after || v == died {
		return nil, errDied
	}
	j.repo.Work = maps.Clone(next)
	if how == "forward" {
		j.moves(theirs)
	} else {
		j.commits(next, ours, theirs)
	}
	delete(j.b.hub.broken, id)
	j.intrudes(name, afterMerge)
	j.b.w.tale.counts["merges of children"]++
	out := j.done()
	out["merged"] = []any{map[string]string{"branch": name, "commit": theirs, "how": how}}
	return out, nil
}

// merges are the operations of the deliveries in which a child was merged, in their order.
func (w *world) merges() (all []int) {
	for task, is := range w.merging {
		if is {
			all = append(all, w.opsOf[task]...)
		}
	}
	slices.Sort(all)
	return all
}

// shared is the nearest commit that is before both.
func (h history) shared(a, b string) string {
	ours := h.before(a)
	for _, id := range h.before(b) {
		if slices.Contains(ours, id) {
			return id
		}
	}
	return ""
}

// When somebody goes on with the branch of a child.
const (
	beforeMerge = "before"
	afterMerge  = "after"
)

// intrudes has somebody go on with the branch of a child after its end, once, where the scene has that.
func (j gitJob) intrudes(name, when string) {
	h, key := &j.b.hub, j.scope()+" "+name
	p, there := h.branches[key]
	if j.b.w.play.Scene.Moves != when || h.intruders[name] || !there {
		return
	}
	h.intruders[name] = true
	h.made++
	id := fmt.Sprintf("%040x", 1<<32+h.made)
	tree := maps.Clone(p.commits[p.commit].Tree)
	tree["of-somebody"] = "else"
	all := maps.Clone(p.commits)
	all[id] = commit{[]string{p.commit}, tree}
	h.branches[key] = published{id, all}
}

// begins notes the fence of an attempt that a process announces.
func (l *life) begins(task string, e kernel.Entry) {
	f, err := events.Decode(e.Bytes)
	if err != nil || e.Kind != events.CallStarted {
		return
	}
	p, err := f.Payload()
	if d, ok := p.(*events.CallStartedData); ok && err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.fences[strings.Join([]string{task, e.ID, d.Call}, " ")] = f.Sequence
	}
}

// fenceOf is the fence of the attempt at a call that a delivery led to.
func (l *life) fenceOf(task, runID, call string) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fences[strings.Join([]string{task, runID, call}, " ")]
}
