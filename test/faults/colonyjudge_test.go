//go:build slow

package faults

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	words "github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// entry is an event of an aggregate.
type entry struct {
	moment
	payload events.Payload
}

// read returns the log of an aggregate.
func (p *colony) read(aggregate, id string, lookup func(events.Kind) (events.Type, bool)) (all []entry) {
	p.t.Helper()
	log := p.seat.JournalFor(aggregate)
	for after, more := uint64(0), true; more; {
		batch, next, err := log.Read(p.ctx, id, after)
		if err != nil {
			p.t.Fatal(err)
		}
		for _, r := range batch {
			f, payload, err := events.ReadAs(r.Bytes, aggregate, lookup)
			if err != nil {
				p.t.Fatal(err)
			}
			kind, _ := lookup(payload.Kind())
			all, after = append(all, entry{moment{f.Time, kind.Line(payload)}, payload}), r.Seq
		}
		more = next
	}
	return all
}

// judge holds, from the logs and the repository alone, that it is as it would be without the kill, and prints what
// happened.
func (p *colony) judge() {
	p.t.Helper()
	said := slices.Clone(p.actions)
	for _, title := range slices.Sorted(maps.Keys(p.items)) {
		said = append(said, p.judgeItem(title)...)
	}
	said = append(said, p.judgeQueue()...)
	given := p.judgeRuns()
	for address := range definitions() {
		said = append(said, p.judgeMail(address, given)...)
	}
	p.judgeGit()
	slices.SortStableFunc(said, func(a, b moment) int { return a.at.Compare(b.at) })
	for _, m := range said {
		fmt.Fprintf(&p.said, "%7.2fs  %s\n", m.at.Sub(p.zero).Seconds(), words.Clip(m.line, 170))
	}
	for _, args := range [][]string{{"work", "list", "--all"}, {"queue", "show", "main"}, {"agents", "list"}, {"runs"}, {"inspect", p.item("Longest").Last.Run}, {"inspect", p.item("Repeat").Last.Run}} {
		fmt.Fprintf(&p.said, "\n$ inspan %s\n%s", strings.Join(args, " "), p.cli(args...))
	}
	fmt.Fprintf(&p.said, "\n$ git log --graph --oneline main\n%s\n", p.git(p.repo, "log", "--graph", "--oneline", "main"))
	p.t.Logf("transcript\n%s", p.said.String())
}

// judgeItem holds that an item has one holder at a time, lands once and is closed once.
func (p *colony) judgeItem(title string) (said []moment) {
	p.t.Helper()
	n, holder := map[events.Kind]int{}, false
	for _, e := range p.read(events.WorkAggregate, p.items[title], events.LookupWork) {
		kind := e.payload.Kind()
		n[kind]++
		said = append(said, moment{e.at, "item " + title + ": " + e.line})
		switch kind {
		case events.WorkBound:
			if holder {
				p.t.Errorf("%s is bound while it has a holder", title)
			}
			holder = true
		case events.WorkUnbound, events.DeliveryReleased:
			holder = false
		}
	}
	w := p.item(title)
	if w.Status != events.WorkIsClosed || w.Binding != nil || w.Last.Code != events.WorkCompleted || holder {
		p.t.Errorf("%s is %s, held by %+v, last %+v", title, w.Status, w.Binding, w.Last)
	}
	for _, kind := range []events.Kind{events.WorkCreated, events.WorkBound, events.WorkClosed, events.DeliveryLanded, events.DeliveryReleased} {
		if kind == events.WorkClosed { // a delivery closes the item with an event of its own
			kind = events.DeliveryClosed
		}
		if n[kind] != 1 {
			p.t.Errorf("%s has %d times %s", title, n[kind], kind)
		}
	}
	return said
}

// judgeQueue holds that the merge queue tests one entry at a time and lands each once.
func (p *colony) judgeQueue() (said []moment) {
	p.t.Helper()
	landed, taken := map[int]int{}, 0
	for _, e := range p.read(events.QueueAggregate, "main", events.LookupQueue) {
		said = append(said, moment{e.at, "queue main: " + e.line})
		switch d := e.payload.(type) {
		case *events.QueueTakenData:
			if taken++; taken > 1 {
				p.t.Errorf("entry %d is taken while another one is", d.Number)
			}
		case *events.QueueLandedData:
			taken--
			landed[d.Number]++
		case *events.QueueReturnedData, *events.QueueBouncedData:
			taken--
		}
	}
	if len(landed) != 10 || taken != 0 || slices.ContainsFunc(slices.Collect(maps.Values(landed)), func(n int) bool { return n != 1 }) {
		p.t.Errorf("landed %v, %d are taken", landed, taken)
	}
	return said
}

// judgeRuns holds that every run is complete and that no call whose effect must not be repeated began twice. It returns
// how often each message was given to an agent.
func (p *colony) judgeRuns() (given map[string]int) {
	p.t.Helper()
	all, err := p.c.Runs().List(p.ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	given = map[string]int{}
	unknown, before, after := 0, 0, 0
	for _, info := range all {
		s, evs := p.state(info.HarnessID)
		began, ends := map[string]int{}, 0
		for _, it := range evs {
			if it.Event.Time.Before(p.killed) {
				before++
			} else {
				after++
			}
			switch d := it.Payload.(type) {
			case *events.CallStartedData:
				if d.Effect == "once" {
					began[d.Call]++
				}
			case *events.MailInjectedData:
				for _, m := range d.Mail {
					given[m.ID]++
				}
			case *events.RunCompletedData:
				ends++
			}
		}
		for call, n := range began {
			if n > 1 {
				p.t.Errorf("call %s of run %s, whose effect is once, began %d times", call, info.HarnessID, n)
			}
		}
		for _, r := range run.All(s.ToolCallHistory) {
			if r.Code == events.OutcomeUnknown {
				unknown++
			}
		}
		if s.Status != events.Completed || ends != 1 {
			p.t.Errorf("run %s is %s, and ended %d times", info.HarnessID, s.Status, ends)
		}
	}
	if before == 0 || after == 0 || unknown == 0 {
		p.t.Errorf("%d events before the kill and %d after it, %d calls of unknown outcome: this shows nothing", before, after, unknown)
	}
	slug, _ := p.state(p.item("Slug").Last.Run)
	if len(slug.Gates) != 1 || slug.Gates[0].By != "anna" || slug.Gates[0].Status != run.GateApproved {
		p.t.Errorf("gates of Slug: %+v", slug.Gates)
	}
	fmt.Fprintf(&p.said, "%d runs with %d events before the kill and %d after it; %d calls of which the outcome is unknown\n\n", len(all), before, after, unknown)
	return given
}

// judgeMail holds that each message was given to its agent once.
func (p *colony) judgeMail(address string, given map[string]int) (said []moment) {
	p.t.Helper()
	chosen := false
	for _, e := range p.read(events.AgentAggregate, strings.ReplaceAll(address, "/", "_"), events.LookupAgent) {
		said = append(said, moment{e.at, address + ": " + e.line})
		if d, ok := e.payload.(*events.MailSentData); ok {
			chosen = chosen || d.Mail.From == ada
			if given[d.Mail.ID] != 1 {
				p.t.Errorf("message %s of %s to %s was given %d times", d.Mail.ID, d.Mail.From, address, given[d.Mail.ID])
			}
		}
	}
	if chosen != (address == bob) {
		p.t.Errorf("mail of %s to %s: %v", ada, address, chosen)
	}
	return said
}

// judgeGit holds that main has each change once, and passes all specifications.
func (p *colony) judgeGit() {
	p.t.Helper()
	dir := filepath.Join(p.dir, "clone")
	p.git(p.dir, "clone", "--quiet", p.repo, dir)
	for title := range p.items {
		name := strings.ToLower(title)
		if n := p.git(dir, "rev-list", "--no-merges", "--count", "main", "--", name+".sh"); n != "1" {
			p.t.Errorf("%s commits of main change %s.sh", n, name)
		}
		b, err := os.ReadFile(filepath.Join(dir, "notes", name+".md"))
		if err != nil || string(b) != title+" is there.\n" {
			p.t.Errorf("notes/%s.md has %q, %v", name, b, err)
		}
		d := p.item(title).Delivery
		if subject := p.git(dir, "log", "-1", "--format=%s", d.Commit); subject != title {
			p.t.Errorf("the commit of %s says %q", title, subject)
		}
		if p.git(dir, "merge-base", d.Landed, "main") != d.Landed {
			p.t.Errorf("%s: commit %s is not on main", title, d.Landed)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "slug.sh")); err != nil || !strings.Contains(string(b), "a-z_") {
		p.t.Errorf("slug.sh does not have the separator that was sent by mail: %q, %v", b, err)
	}
	if branches := p.git(p.repo, "for-each-ref", "--format=%(refname:short)", "refs/heads"); branches != "main" {
		p.t.Errorf("the repository has the branches %q", branches)
	}
	check := exec.Command("./check", "all")
	check.Dir = dir
	out, err := check.CombinedOutput()
	if err != nil {
		p.t.Errorf("./check all: %v\n%s", err, out)
	}
	fmt.Fprintf(&p.said, "$ ./check all   (in a clone of main)\n%s\n", out)
}
