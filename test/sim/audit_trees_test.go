package sim

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/internal/workspace/treelog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// treeAudit is what the audit knows of one working tree: the fold of its log, and what calls whose end is in the log
// left in it.
type treeAudit struct {
	rec workspace.Record
	// views are the rows of all prefixes of its log, by the sequence of their last event.
	views map[uint64][]byte
	// done by file, told are calls of which an agent was told that their changes are lost.
	done map[string]doneWrite
	told map[string]bool
	runs map[string]bool
	// news is all that agents were told of what was lost.
	news string
}

// doneWrite is what one call left, whose end was the at-th event of the play.
type doneWrite struct {
	call, text string
	at         int
}

// grove is what the audit knows of all trees.
type grove struct {
	trees map[string]*treeAudit
	// events counts those of all runs, allowed tells when a call was, by run and call.
	events  int
	allowed map[string]int
	// instances by life; lapsed are instances of which a toolrunner heard that their lease is not held.
	instances map[*life]string
	lapsed    map[string]bool
	// logs are the states of the logs of workspaces by id, authors the lives that appended, by the bytes of an event.
	logs    map[string]treelog.State
	authors map[string]*life
}

// appends notes who asks for an append to the log of a workspace: it may be stored later, or with no one hearing so.
func (g *grove) appends(by *life, e kernel.Entry) {
	g.authors[string(e.Bytes)] = by
	if _, known := g.logs[e.ID]; !known {
		g.logs[e.ID] = treelog.State{}
	}
}

func newGrove() grove {
	return grove{trees: map[string]*treeAudit{}, allowed: map[string]int{}, instances: map[*life]string{}, lapsed: map[string]bool{},
		logs: map[string]treelog.State{}, authors: map[string]*life{}}
}

func (g *grove) tree(name string) *treeAudit {
	t := g.trees[name]
	if t == nil {
		t = &treeAudit{done: map[string]doneWrite{}, told: map[string]bool{}, runs: map[string]bool{}, views: map[uint64][]byte{}}
		g.trees[name] = t
	}
	return t
}

// workspace judges an event of a workspace.
func (a *audit) workspace(id string, r kernel.Record) {
	s, by := a.grove.logs[id], a.grove.authors[string(r.Bytes)]
	f, p, err := treelog.Aggregate().Read(id, r)
	if err == nil && f.Sequence != s.Sequence+1 {
		err = fmt.Errorf("event %d after %d", f.Sequence, s.Sequence)
	}
	if err == nil {
		s, err = treelog.Apply(s, f, p, events.HashOf(r.Bytes))
	}
	if err != nil || by == nil {
		a.breaks("the log of workspace %s: %v", id, err)
		return
	}
	a.grove.logs[id] = s
	next := s.Workspace
	t := a.grove.tree(next.Workspace)
	if t.views[s.Sequence], err = treelog.Row(s, r.Seq); err != nil {
		a.breaks("workspace %s: %v", next.Workspace, err)
	}
	if fault := a.passes(by, t, next); fault != "" {
		a.breaks("workspace %s: %s", next.Workspace, fault)
	}
	if next.Owner != t.rec.Owner && next.Owner != "" && t.rec.Fence > 0 {
		a.w.tale.counts["trees taken"]++
	}
	t.rec = next
}

// passes returns what is wrong with a record that follows another.
func (a *audit) passes(by *life, t *treeAudit, next workspace.Record) string {
	last, who := t.rec, a.grove.instances[by]
	switch {
	case next.Fence < last.Fence:
		return fmt.Sprintf("fence %d after %d", next.Fence, last.Fence)
	case next.Owner != "" && next.Owner != who:
		return fmt.Sprintf("%s says that %s owns it", who, next.Owner)
	case next.Owner != "" && next.Owner != last.Owner && next.Fence == last.Fence:
		return fmt.Sprintf("%s has fence %d, as %q before", next.Owner, next.Fence, last.Owner)
	case next.Owner != "" && last.Owner != "" && next.Owner != last.Owner && !a.grove.lapsed[last.Owner]:
		return fmt.Sprintf("%s takes it from %s, who may be alive", next.Owner, last.Owner)
	case next.Owner == "" && next.Fence > last.Fence: // who gives a tree back leaves its fence
		return a.forgotten(t, next)
	case next.Fence == last.Fence && last.Owner != who, next.Snapshot != last.Snapshot && next.Fence != last.Fence:
		return fmt.Sprintf("%s writes in the time of %q", who, last.Owner)
	}
	for _, file := range rank(t.done) {
		if !t.holds(a.w.tools.forest.shots[next.Snapshot], next, file) {
			return fmt.Sprintf("%s of call %s is neither in snapshot %.8s nor told to be missing", file, t.done[file].call, next.Snapshot)
		}
	}
	return ""
}

// forgotten judges that nothing is kept of a tree any more.
func (a *audit) forgotten(t *treeAudit, next workspace.Record) string {
	for _, id := range rank(t.runs) {
		if l := a.runs[id]; l.ended == "" {
			return fmt.Sprintf("it is taken away, and run %s is at work in it", id)
		}
	}
	switch {
	case next.Snapshot != "" || len(next.Packs) > 0:
		return "no one owns it, under a new fence, and it is kept"
	case !a.w.play.Scene.Clean || !strings.HasPrefix(next.Workspace, "run/"):
		return "it is taken away, and was to stay"
	}
	clear(t.done)
	a.w.tale.counts["trees taken away"]++
	return ""
}

// holds reports whether a tree has what a call left, or the record names the call, or an agent was told.
func (t *treeAudit) holds(in files, rec workspace.Record, file string) bool {
	d := t.done[file]
	return in[file] == d.text || t.told[d.call] || slices.Contains(rec.Unkept, d.call) || slices.Contains(rec.Missing, d.call)
}

// grows notes what an event means for the trees. It is called with every event, before the rules of calls.
func (a *audit) grows(runID string, p events.Payload) {
	a.grove.events++
	switch d := p.(type) {
	case *events.CallAllowedData:
		a.grove.allowed[runID+"/"+d.Call] = a.grove.events
	case *events.CallFinishedData:
		if a.w.play.Scene.Follow != "" {
			a.workDone(runID, d)
		}
	}
}

// workDone holds of a call that finished: what it left is kept, and it found what those before it had left.
func (a *audit) workDone(runID string, d *events.CallFinishedData) {
	t, call := a.grove.tree(a.workspaceOf(runID)), runID+"/"+d.Call
	t.runs[runID] = true
	news, output := cutNews(d.Output)
	t.news += news
	for name := range t.done {
		if c := t.done[name].call; strings.Contains(news, c) {
			t.told[c] = true
			a.w.tale.counts["calls reported as missing"]++
		}
	}
	n, ok := effectOf(output)
	if !ok || n >= len(a.w.tools.effects) || a.w.tools.effects[n].n == noNumber {
		return // resultsAreReal judges it
	}
	if s, ok := sightIn(output); ok {
		for _, file := range rank(t.done) {
			if before := t.done[file]; before.at < a.grove.allowed[call] && !t.holds(a.w.tools.forest.sights[s], t.rec, file) {
				a.breaks("call %s found its workspace without %s, which call %s had left", call, file, before.call)
			}
		}
	}
	if d.Reconciled || classOf(a.w.tools.effects[n].tool) == tool.Read {
		return
	}
	file := fileOf(a.w.tools.effects[n].n)
	t.done[file] = doneWrite{call: call, text: fmt.Sprintf("effect %d", n), at: a.grove.events}
	if kept := a.w.tools.forest.shots[t.rec.Snapshot][file] == t.done[file].text; !kept && strings.Contains(t.news, call) &&
		!slices.Contains(t.rec.Unkept, call) { // its owner was lost, and the next one told so before its end was recorded
		t.told[call] = true
		a.w.tale.counts["calls reported as missing"]++
	}
	if !t.holds(a.w.tools.forest.shots[t.rec.Snapshot], t.rec, file) {
		a.breaks("call %s has finished, and %s is neither kept nor told to be missing", call, file)
	}
}

// workspaceOf is where a run works: in that of its session, or one of its own.
func (a *audit) workspaceOf(runID string) string {
	if l := a.runs[runID]; l.session != "" {
		return "session/" + l.session
	}
	return "run/" + runID
}

// shows says how the row of a workspace is not the view of its log, "" where it is. It may be older than the log, but is
// what the log said once; who owns a tree is shown before anyone works in it.
func (a *audit) shows(name string, t *treeAudit) string {
	if len(t.views) == 0 {
		return ""
	}
	row, err := a.w.st.KV(treeKV).Get(context.Background(), events.TreeKey(name))
	if err != nil {
		if len(t.done) == 0 { // whoever claimed it died before the row
			return ""
		}
		return fmt.Sprintf("its row is not there: %v", err)
	}
	shown, _, ok := treelog.FromRow(row)
	switch {
	case !ok || !bytes.Equal(row, t.views[shown.Sequence]):
		return fmt.Sprintf("its row is %s, its log said %s", row, t.views[shown.Sequence])
	case len(t.done) > 0 && shown.Fence == 0:
		return "calls worked in it before its row said who owns it"
	}
	a.w.tale.counts["rows of workspaces looked at"]++
	return ""
}

// cutNews takes what an agent is told of its workspace off a result.
func cutNews(output string) (news, rest string) {
	if !strings.HasPrefix(output, "<workspace-news>") {
		return "", output
	}
	news, rest, _ = strings.Cut(output, "</workspace-news>\n\n")
	return news, rest
}

// treesAreWhole holds at the end: what calls left is in what is kept, and a play without trouble leaves no tree owned.
func (a *audit) treesAreWhole() {
	for _, name := range rank(a.grove.trees) {
		t := a.grove.trees[name]
		for _, file := range rank(t.done) {
			if !t.holds(a.w.tools.forest.shots[t.rec.Snapshot], t.rec, file) {
				a.breaks("workspace %s: %s of call %s is lost", name, file, t.done[file].call)
			}
		}
		if fault := a.shows(name, t); fault != "" {
			a.breaks("workspace %s: %s", name, fault)
		}
		living := slices.ContainsFunc(rank(t.runs), func(id string) bool { return a.runs[id].ended == "" })
		if a.calm() && !living && t.rec.Owner != "" {
			a.breaks("workspace %s: %s owns it, and all its runs have ended", name, t.rec.Owner)
		}
	}
}
