package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/delivery"
	words "github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// mergePlay is agents who work side by side and a lead who brings their work together (make merge-demo).
type mergePlay struct {
	*world
	r    remote
	said strings.Builder
	zero time.Time
}

// tell adds a line to the transcript.
func (p *mergePlay) tell(format string, args ...any) {
	fmt.Fprintf(&p.said, "%6.2fs  %s\n", time.Since(p.zero).Seconds(), fmt.Sprintf(format, args...))
}

// mergeKinds are the events that a transcript shows: what is decided about git, by whom, and what came of it.
func mergeKinds() []events.Kind {
	return []events.Kind{events.RunCreated, events.GateOpened, events.GateApproved, events.GateRejected, events.CallRefused, events.CallFailed, events.CallFinished, events.RunCompleted, events.RunFailed}
}

// events adds those of a run behind the first so many to the transcript, one a line, and returns how many there are
// now.
func (p *mergePlay) events(id string, after int) int {
	p.t.Helper()
	all := p.world.events(id)
	for i, rec := range all[after:] {
		f, err := events.Decode(rec.Bytes)
		if err != nil {
			p.t.Fatal(err)
		}
		kind, _ := f.Kind()
		if !slices.Contains(mergeKinds(), kind) {
			continue
		}
		payload, err := f.Payload()
		if err != nil {
			p.t.Fatal(err)
		}
		fmt.Fprintf(&p.said, "         %-8s %3d  %-10s  %s\n", id, after+i+1, f.Author(), words.Clip(strings.Join(strings.Fields(words.Text(payload)), " "), 170))
	}
	return len(all)
}

// works lets an agent work by a script, on a branch of its own beside the others.
func (p *mergePlay) works(id, agent, script string) events.Delivery {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, "scripts", id+".yaml"), []byte(script), 0o644); err != nil {
		p.t.Fatal(err)
	}
	no := false
	p.agent(events.Agent{Name: agent, Model: "scripted/" + id, Tools: []string{"write", "bash", "git_merge"}, Git: &events.GitSettings{RequireApproval: &no}}, "")
	p.task(events.Task{ID: id, Agent: agent, Task: "work on the recipe", Session: "team", Repo: p.r.url(),
		Git: &events.TaskGit{GitSettings: events.GitSettings{Push: &no, RequireApproval: &no, Collaboration: events.Parallel, WorkingBranch: "line"}}})
	s := p.ended(id)
	if s.Status != events.Completed || s.Result.Delivery == nil {
		p.t.Fatalf("%s: %s %+v\n%s", id, s.Status, s.Result, p.story(id))
	}
	p.events(id, 0)
	p.tell("%s has worked: %s is at %.12s", agent, s.Result.Delivery.Branch, s.Result.Delivery.Commit)
	return *s.Result.Delivery
}

// leads asks the lead to merge branches into the line and to push it.
func (p *mergePlay) leads(id string, merge ...string) {
	p.t.Helper()
	yes := true
	p.task(events.Task{ID: id, Agent: "lead", Task: "bring the work together", Session: "team", Repo: p.r.url(),
		Git: &events.TaskGit{GitSettings: events.GitSettings{Push: &yes, WorkingBranch: "line"}, Merge: merge}})
}

// asked waits until a person is asked for the so many-th time about a run, and returns the question, which must name
// what is meant.
func (p *mergePlay) asked(id string, times int, tool string, meant ...string) {
	p.t.Helper()
	p.await(id, fmt.Sprintf("waiting for answer %d", times), func(s run.State) bool { return waiting(s) && len(s.Gates) == times })
	g := p.opened(id)
	if g.Rule != delivery.RuleApproval || !strings.Contains(string(g.Proposal), tool) {
		p.t.Fatalf("asked about %s by %s, want %s", g.Proposal, g.Rule, tool)
	}
	for _, id := range meant {
		if id == "" || !strings.Contains(string(g.Proposal), id) {
			p.t.Fatalf("the question does not name %q: %s", id, g.Proposal)
		}
	}
	p.tell("anna is asked about %s of %s", tool, short(meant...))
}

func short(ids ...string) string {
	var out []string
	for _, id := range ids {
		out = append(out, fmt.Sprintf("%.12s", id))
	}
	return strings.Join(out, " and ")
}

// yes approves what is asked.
func (p *mergePlay) yes(id string) {
	p.t.Helper()
	p.approve(id, "approve")
	p.tell("anna says yes")
}

const saltOf = `
turns:
  - when: {turn: 1}
    calls: [{name: write, input: {path: recipe.txt, content: "water: 1 l\nsalt: %s\nrice: 200 g\n"}}]
  - when: {turn: 2}
    text: "Seasoned."
`

// settles is an agent that asks for the merge, is told of the conflict, and settles it on its own branch.
const settles = `
turns:
  - when: {turn: 1}
    calls: [{name: git_merge, input: {from: [line]}}]
  - when: {turn: 2}
    calls: [{name: bash, input: {command: "git config user.name bob && git config user.email bob@example.com; git merge -q refs/published/line; grep -c '<<<<<<<' recipe.txt; printf 'water: 1 l\nsalt: 2 pinches, as agreed\nrice: 200 g\n' >recipe.txt && git add -A && git commit -qm 'settle the salt' && git log -1 --format=%h:%p"}}]
  - when: {turn: 3}
    text: "Settled: {{result.2}}"
`

func TestMergeDemo(t *testing.T) {
	t.Parallel()
	t.Run("GIT-5 GIT-7 GIT-8 GATE-13 TEST-10 a conflict is told and kept, settled on one branch, merged and pushed by a yes to these commits", mergeDemo)
}

func mergeDemo(t *testing.T) {
	t.Parallel()
	p := &mergePlay{world: gitWorld(t), r: newRemote(t), zero: time.Now()}
	seed := filepath.Join(t.TempDir(), "seed")
	p.r.git("clone", "--quiet", p.r.dir, seed)
	write(t, filepath.Join(seed, "recipe.txt"), "water: 1 l\nsalt: 1 pinch\nrice: 200 g\n")
	p.r.git("-C", seed, "add", ".")
	p.r.git("-C", seed, "commit", "--quiet", "-m", "a recipe")
	p.r.git("-C", seed, "push", "--quiet", "origin", "main")
	p.agent(events.Agent{Name: "lead"}, "turns:\n  - text: \"I bring it together.\"\n")
	p.start()
	defer func() { fmt.Fprintf(t.Output(), "\n%s\n", p.said.String()) }()
	main := p.r.at("main")
	p.tell("the remote has main at %.12s; a session in which agents work side by side begins", main)

	alice := p.works("alice-1", "alice", fmt.Sprintf(saltOf, "3 pinches"))
	bob := p.works("bob-1", "bob", fmt.Sprintf(saltOf, "none"))
	carol := p.works("carol-1", "carol", writes("notes.txt", "stir"))
	line := p.conflict(main, alice, bob, carol)

	settled := p.works("bob-2", "bob", settles)
	for _, side := range []string{line.Commit, bob.Commit} {
		p.holds(filepath.Join(p.dir, "work", "run", "bob-2"), settled.Commit, side)
	}
	p.tell("the conflict is settled on %s at %.12s, which holds %s", settled.Branch, settled.Commit, short(line.Commit, bob.Commit))
	p.pushed(line, settled)
	p.tell("all is as told")
}

// conflict merges three branches of which two changed the same line, and returns what became of the line.
func (p *mergePlay) conflict(main string, alice, bob, carol events.Delivery) events.Delivery {
	p.t.Helper()
	p.leads("lead-1", alice.Branch, bob.Branch, carol.Branch)
	p.asked("lead-1", 1, events.GitMerge, main, alice.Commit, bob.Commit, carol.Commit)
	p.yes("lead-1")
	s := p.ended("lead-1")
	p.events("lead-1", 0)
	d := s.Result.Delivery
	if s.Status != events.Completed || d == nil || len(d.Merged) != 2 || len(d.Conflicts) != 1 {
		p.t.Fatalf("%s %+v %+v", s.Status, s.Result, d)
	}
	for _, m := range d.Merged {
		p.tell("merged %s at %.12s", m.Branch, m.Commit)
	}
	c := d.Conflicts[0]
	p.tell("conflict with %s: %.12s and %.12s, in %s", c.Branch, c.Ours, c.Theirs, strings.Join(c.Paths, ", "))
	if c.Branch != bob.Branch || c.Theirs != bob.Commit || !slices.Equal(c.Paths, []string{"recipe.txt"}) {
		p.t.Fatalf("conflict %+v, want %s at %s", c, bob.Branch, bob.Commit)
	}
	tree := filepath.Join(p.dir, "work", "session", "team")
	for _, side := range []struct{ commit, want string }{{c.Ours, "salt: 3 pinches"}, {c.Theirs, "salt: none"}} {
		text := p.r.git("-C", tree, "show", side.commit+":recipe.txt")
		if !strings.Contains(text, side.want) {
			p.t.Fatalf("%.12s says %q, want %q", side.commit, text, side.want)
		}
		p.tell("kept: %.12s says %q", side.commit, strings.Split(text, "\n")[1])
	}
	if d.Pushed || p.r.at("line") != "" || p.count("lead-1")["gate.opened"] != 1 {
		p.t.Fatalf("pushed while a conflict is open: %+v, the remote has %q", d, p.r.at("line"))
	}
	p.tell("nothing is pushed while it is open: the remote has no branch line")
	return *d
}

// pushed merges what was settled, while its branch moves on once, and pushes the line.
func (p *mergePlay) pushed(line, settled events.Delivery) {
	p.t.Helper()
	p.leads("lead-2", settled.Branch)
	p.asked("lead-2", 1, events.GitMerge, line.Commit, settled.Commit)
	later := p.works("bob-3", "bob", writes("bob.txt", "one more thing"))
	p.yes("lead-2")
	p.asked("lead-2", 2, events.GitMerge, line.Commit, later.Commit)
	p.tell("asked anew: %s moved on from %.12s to %.12s, and nothing was merged", later.Branch, settled.Commit, later.Commit)
	if at := p.r.git("-C", filepath.Join(p.dir, "work", "session", "team"), "rev-parse", "line"); at != line.Commit {
		p.t.Fatalf("line is at %s, want %s", at, line.Commit)
	}
	p.yes("lead-2")
	s := p.await("lead-2", "waiting for the push", func(s run.State) bool { return waiting(s) && len(s.Gates) == 3 })
	at := delivery.Of(s).Commit
	p.asked("lead-2", 3, events.GitPush, at)
	if p.r.at("line") != "" {
		p.t.Fatal("pushed before a person said yes")
	}
	p.yes("lead-2")
	s = p.ended("lead-2")
	p.events("lead-2", 0)
	d := s.Result.Delivery
	if s.Status != events.Completed || d == nil || !d.Pushed || d.Commit != at || len(d.Conflicts) != 0 || len(d.Merged) != 1 || d.Merged[0].Commit != later.Commit {
		p.t.Fatalf("%s %+v %+v", s.Status, s.Result, d)
	}
	there := p.r.at("line")
	p.tell("delivered is %s", d.Commit)
	p.tell("remote has   %s", there)
	if there != d.Commit {
		p.t.Fatal("the remote has another commit than was told")
	}
	if files := p.r.git("-C", p.r.dir, "ls-tree", "--name-only", "line"); files != "README.md\nbob.txt\nnotes.txt\nrecipe.txt" {
		p.t.Fatalf("the line has %q: only work belongs there", files)
	}
	for path, want := range map[string]string{"recipe.txt": "water: 1 l\nsalt: 2 pinches, as agreed\nrice: 200 g", "notes.txt": "stir", "bob.txt": "one more thing"} {
		if got := p.r.git("-C", p.r.dir, "show", "line:"+path); got != want {
			p.t.Fatalf("%s is %q, want %q", path, got, want)
		}
	}
}

// holds wants a commit to be among those before another one.
func (p *mergePlay) holds(tree, tip, commit string) {
	p.t.Helper()
	if out, err := p.r.try("-C", tree, "merge-base", "--is-ancestor", commit, tip); err != nil {
		p.t.Fatalf("%s does not hold %s: %v %s", tip, commit, err, out)
	}
}
