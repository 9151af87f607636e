package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/session"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// pastSession is what a backup has of a session.
type pastSession struct {
	state session.State
	// events is how many there are, last the position of the last one.
	events int
	last   uint64
	// anew is set where the log begins with what stands for a session whose content was deleted.
	anew bool
	// odd is what is wrong with the log.
	odd  error
	left bool
}

// forgotten reports whether all that the log has is what stands for it.
func (s *pastSession) forgotten() bool {
	return s.events == 1 && s.anew
}

// look takes an event of a session or a workspace.
func (f *forgetting) look(sub events.AggregateSubject, e Message) {
	switch {
	case f == nil:
	case sub.Aggregate == events.WorkspaceAggregate:
		f.trees[sub.ID] = false
	case sub.Aggregate == events.SessionAggregate:
		s := f.sessions[sub.ID]
		if s == nil {
			s = &pastSession{anew: kindOf(sub) == events.SessionPruned}
			f.sessions[sub.ID] = s
		}
		s.events, s.last = s.events+1, e.Seq
		if s.odd == nil {
			s.state, s.odd = session.Aggregate().Fold(s.state, sub.ID, kernel.Record{Seq: e.Seq, Kind: kindOf(sub),
				Bytes: e.Data})
		}
	}
}

// bound marks the sessions and workspaces that go with the runs, and says what keeps them from being deleted.
func (f *forgetting) bound(c *copying, want map[string]bool) error {
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(want)) {
		switch r := c.runs[id]; {
		case r.odd || r.created == nil:
			errs = append(errs, fmt.Errorf("the log of run %s is damaged, nothing can stand for it: inspan audit %s", id, id))
		case r.end == nil:
			errs = append(errs, fmt.Errorf("run %s is open: inspan stop %s, and take the backup again once it has ended",
				id, id))
		}
	}
	if len(errs) > 0 {
		return errors.Join(append(errs, ErrBound)...)
	}
	errs = append(f.inSessions(c, want), f.inWorkspaces(c, want)...)
	for _, id := range slices.Sorted(maps.Keys(f.sessions)) {
		switch s := f.sessions[id]; {
		case !s.left:
		case s.odd != nil:
			errs = append(errs, fmt.Errorf("the log of session %s is damaged: %w", id, s.odd))
		default:
			for _, h := range s.state.Holders {
				if !want[h.Run] {
					errs = append(errs, fmt.Errorf("session %s is locked by run %s, which is not in the backup: inspan session unlock %s, and take the backup again",
						id, h.Run, id))
				}
			}
		}
	}
	if len(errs) > 0 {
		return errors.Join(append(errs, ErrBound)...)
	}
	return nil
}

// inSessions finds the sessions that the runs worked in. The conversation of a session has what its runs said, so that
// it goes as a whole: where a person was named and all of its runs are theirs, or where it was named itself.
func (f *forgetting) inSessions(c *copying, want map[string]bool) (errs []error) {
	others := map[string][]string{}
	for _, r := range c.runs {
		if r.created != nil && r.created.Session != "" && !want[r.id] && !r.pruned {
			others[r.created.Session] = append(others[r.created.Session], r.id)
		}
	}
	refused := map[string]bool{}
	for _, id := range slices.Concat(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(f.earlier))) {
		created := c.runs[id].created
		s := f.sessions[created.Session]
		if s == nil || s.left || refused[created.Session] || s.anew && f.earlier[id] {
			continue
		}
		if slices.Contains(f.People, created.By) && len(others[created.Session]) == 0 {
			s.left = true
			continue
		}
		refused[created.Session] = true
		errs = append(errs, fmt.Errorf("run %s worked in session %s, whose conversation has what it said%s: delete that session, too, with --session %s",
			id, created.Session, and(" and runs that were not named", others[created.Session]), created.Session))
	}
	return errs
}

// inWorkspaces marks the workspaces whose snapshots have files of the runs.
func (f *forgetting) inWorkspaces(c *copying, want map[string]bool) (errs []error) {
	others := map[string][]string{}
	for _, r := range c.runs {
		if r.created != nil && !want[r.id] && !r.pruned {
			others[r.created.Workspace] = append(others[r.created.Workspace], r.id)
		}
	}
	at := map[string]bool{}
	for id, s := range f.sessions {
		at["session/"+id] = s.left
	}
	for _, ids := range []map[string]bool{want, f.earlier} {
		for id := range ids {
			if s := f.sessions[c.runs[id].created.Session]; s == nil || s.left {
				at["run/"+id], at[c.runs[id].created.Workspace] = true, true
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(at)) {
		tree := events.WorkspaceID(path)
		if _, has := f.trees[tree]; !has || !at[path] {
			continue
		}
		if len(others[path]) > 0 {
			errs = append(errs, fmt.Errorf("snapshots of the workspace %s have files of runs that are to be deleted%s: name those, too, with --run",
				path, and(" and of others", others[path])))
		}
		f.trees[tree] = true
		f.out.Workspaces = append(f.out.Workspaces, path)
	}
	return errs
}

// and names a few ids behind some words; "" where there are none.
func and(words string, ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	const most = 5
	slices.Sort(ids)
	more := ""
	if n := len(ids) - most; n > 0 {
		ids, more = ids[:most], fmt.Sprintf(" and %d more", n)
	}
	return words + " (" + strings.Join(ids, ", ") + more + ")"
}

// pending refuses inputs that no service has judged and that are of what is deleted: they would begin it anew.
func (f *forgetting) pending(ctx context.Context, c *copying) error {
	n := 0
	err := each(c.From, inputsFile, func(in Message) error {
		sub, _ := events.ParseAggregateSubject(in.Subject)
		task := strings.HasPrefix(in.Subject, "station."+c.Station+".task")
		if f.names[sub.ID] || f.mentions(in.Data) || task && f.person(in.Data) {
			n++
		}
		return context.Cause(ctx)
	})
	if err == nil && n > 0 {
		err = fmt.Errorf("%d of the inputs that no service had judged belong to what is to be deleted: start the services, and take the backup again once they are judged: %w",
			n, ErrBound)
	}
	return err
}

// instead is that of copying, for all but runs.
func (f *forgetting) instead(c *copying, sub events.AggregateSubject, e Message) (*Message, bool, error) {
	switch {
	case f == nil:
		return nil, false, nil
	case sub.Aggregate == events.WorkspaceAggregate:
		return nil, f.trees[sub.ID], nil
	case sub.Aggregate != events.SessionAggregate || !f.sessions[sub.ID].left:
		return nil, false, nil
	}
	s := f.sessions[sub.ID]
	if e.Seq != s.last {
		return nil, true, nil
	}
	last, _, err := events.ReadAs(e.Data, events.SessionAggregate, events.LookupSession)
	if err != nil {
		return nil, true, fmt.Errorf("session %s: %w", sub.ID, err)
	}
	m, err := standIn(e, last, &events.SessionPrunedData{Event: "session_pruned", Session: sub.ID,
		Covered: s.state.Sequence, Fence: s.state.Fence, Inputs: s.state.Inputs, CreatedAt: s.state.CreatedAt, Backup: c.sum,
		BackupAt: c.of.Cut.UTC(), By: c.By, Forgotten: events.Forgotten{Reason: f.Reason}}, s.state.Hash, c.sum)
	return &m, true, err
}

// staying notes an event that stays where it names what is deleted, or a person.
func (f *forgetting) staying(e Message) {
	if f == nil {
		return
	}
	sub, _ := events.ParseAggregateSubject(e.Subject)
	ids, person := f.mentions(e.Data), f.person(e.Data)
	if !ids && !person || f.names[sub.ID] && sub.Aggregate == events.RunAggregate {
		return
	}
	log := sub.Aggregate + "/" + sub.ID
	s := f.stays[log]
	if s == nil {
		s = &Stay{Log: log}
		f.stays[log] = s
	}
	if ids {
		s.Names++
	}
	if person {
		s.People++
	}
}

// mentions reports whether bytes name a run or a session that is deleted.
func (f *forgetting) mentions(b []byte) bool {
	from := 0
	for i := 0; i <= len(b); i++ {
		if i < len(b) && events.ValidID(string(b[i:i+1])) {
			continue
		}
		if f.names[string(b[from:i])] {
			return true
		}
		from = i + 1
	}
	return false
}

// person reports whether bytes name one of the people, as who did something or whom mail is from.
func (f *forgetting) person(b []byte) bool {
	return slices.ContainsFunc(f.People, func(name string) bool {
		quoted, err := json.Marshal(name)
		if err != nil {
			return false
		}
		return bytes.Contains(b, quoted) || bytes.Contains(b, append([]byte(`"@`), quoted[1:]...))
	})
}

// drops reports whether a line of what is beside the log is left out: timers of runs, and rows of sessions, workspaces
// and branches.
func (f *forgetting) drops(m *Manifest, file string, line json.RawMessage) bool {
	if f == nil {
		return false
	}
	switch file {
	case timersFile:
		var t timed
		if json.Unmarshal(line, &t) != nil {
			return false
		}
		if sub, _ := events.ParseAggregateSubject(t.Subject); f.names[sub.ID] {
			m.Timers--
			return true
		}
	case valuesFile:
		var v Value
		if json.Unmarshal(line, &v) == nil && f.row(v) {
			m.Values--
			return true
		}
	}
	return false
}

// row reports whether a row is that of a session, a workspace or a branch that is left out.
func (f *forgetting) row(v Value) bool {
	switch v.Bucket {
	case topology.SessionBucket:
		id, ok := strings.CutPrefix(v.Key, events.SessionAggregate+".")
		return ok && slices.Contains(f.out.Sessions, id)
	case topology.TreeBucket:
		branch := func(scope string) bool { return strings.HasPrefix(v.Key, events.BranchKeysOf(scope)) }
		return slices.ContainsFunc(f.out.Workspaces, func(path string) bool { return v.Key == events.TreeKey(path) }) ||
			slices.ContainsFunc(slices.Concat(f.out.Runs, f.out.Elsewhere), func(id string) bool { return branch("run/" + id) }) ||
			slices.ContainsFunc(f.out.Sessions, func(id string) bool {
				deleted := strings.TrimSuffix(events.BranchKeysOf("deleted/"+id+"/"), ".")
				return branch("session/"+id) || strings.HasPrefix(v.Key, deleted)
			})
	}
	return false
}

// follow adds the objects that objects name: a conversation names the parts before it.
func (f *forgetting) follow(ctx context.Context, c *copying) error {
	if f == nil {
		return nil
	}
	for _, set := range []map[string]bool{c.wanted, c.gone} {
		todo := slices.Sorted(maps.Keys(set))
		for len(todo) > 0 {
			o := c.stored[todo[0]]
			if todo = todo[1:]; o.Type != events.RefHistory {
				continue
			}
			data, err := readObject(c.From, o)
			if err != nil {
				return err
			}
			for _, ref := range events.Inside(events.Ref{SHA256: o.SHA256, Size: o.Size, Type: o.Type}, data) {
				if c.has(ref.SHA256) && !set[ref.SHA256] {
					set[ref.SHA256], todo = true, append(todo, ref.SHA256)
				}
			}
			if err := context.Cause(ctx); err != nil {
				return err
			}
		}
	}
	for sum := range c.gone {
		if c.wanted[sum] {
			f.shared[sum] = true
		}
	}
	return nil
}

// spares reports whether an object is copied that nothing names. Where content is deleted it may be of that: a service
// stores an object before the event that names it, and stores it again where the event is missing.
func (f *forgetting) spares(o Object) bool {
	if f != nil {
		f.unnamed[o.SHA256] = true
	}
	return f == nil
}
