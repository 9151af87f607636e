//go:build slow

package faults

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/test/faults/effects"
	"github.com/inspan/inspan/test/robust/report"
)

// verdicts collects what did not hold. It is safe for concurrent use.
type verdicts struct {
	mu   sync.Mutex
	part *report.Part
	// said keeps each violation to one line however often it is found.
	said map[string]bool
}

func (v *verdicts) violate(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	words := fmt.Sprintf(format, args...)
	if !v.said[words] {
		v.said[words] = true
		v.part.Violate("%s", words)
	}
}

func (v *verdicts) row(what string, saw any, want string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.part.Add(what, saw, want)
}

func (v *verdicts) untried(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.part.Untried = append(v.part.Untried, fmt.Sprintf(format, args...))
}

// view is the log as one replica has it: that of each run, and those of the session and the workspace of each.
type view struct {
	node   string
	events map[string][]kernel.Record
	states map[string]run.State
	// others by aggregate and id.
	others map[string][]kernel.Record
}

// auditor is a connection to one node and no other.
func (f *fleet) auditor(ctx context.Context, n *node) (*jet.Station, func(), error) {
	conn, err := jet.Connect(ctx, jet.Config{URL: "nats://" + f.net.link("auditor", n.name, n.address()), Name: "auditor"})
	if err != nil {
		return nil, nil, err
	}
	st, err := conn.Station(stationName)
	return st, conn.Close, err
}

// read folds the log of each run from one node; a run that does not fold is a violation (SAFE-2).
func (f *fleet) read(ctx context.Context, n *node, ids []string, v *verdicts) view {
	w := view{node: n.name, events: map[string][]kernel.Record{}, states: map[string]run.State{}, others: map[string][]kernel.Record{}}
	st, shut, err := f.auditor(ctx, n)
	if err != nil {
		v.violate("read the log of %s: %v", n.name, err)
		return w
	}
	defer shut()
	patience, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	for _, id := range ids {
		evs, err := readPatiently(patience, st.Journal(), id)
		if err != nil {
			v.violate("PERS-15: read run %s from %s: %v", id, n.name, err)
			continue
		}
		var s run.State
		for i, r := range evs {
			if s, err = s.Apply(r.Bytes); err != nil {
				v.violate("SAFE-2: run %s of %s does not fold at its event %d: %v", id, n.name, i+1, err)
				break
			}
		}
		w.events[id], w.states[id] = evs, s
		if s.Created == nil {
			continue
		}
		for aggregate, id := range map[string]string{events.SessionAggregate: s.Created.Session,
			events.WorkspaceAggregate: events.WorkspaceID(s.Created.Workspace)} {
			if id == "" {
				continue
			}
			if w.others[aggregate+" "+id], err = readPatiently(patience, st.JournalFor(aggregate), id); err != nil {
				v.violate("PERS-15: read %s %s from %s: %v", aggregate, id, n.name, err)
			}
		}
	}
	return w
}

// readPatience is how long a node that was just cut off may take to answer alone.
const readPatience = 30 * time.Second

func readPatiently(ctx context.Context, j kernel.Journal, id string) (evs []kernel.Record, err error) {
	until(ctx, func() bool {
		look, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		evs, err = readAll(look, j, id)
		return err == nil
	})
	return evs, err
}

func readAll(ctx context.Context, j kernel.Journal, id string) ([]kernel.Record, error) {
	var all []kernel.Record
	for after := uint64(0); ; {
		evs, more, err := j.Read(ctx, id, after)
		if err != nil {
			return nil, err
		}
		all = append(all, evs...)
		if !more {
			return all, nil
		}
		after = all[len(all)-1].Seq
	}
}

// events counts the events of a view.
func (w view) count() (n int) {
	for _, all := range []map[string][]kernel.Record{w.events, w.others} {
		for _, evs := range all {
			n += len(evs)
		}
	}
	return n
}

// same reports where two replicas differ.
func (w view) same(o view, v *verdicts) {
	for id, evs := range w.events {
		if !slices.EqualFunc(evs, o.events[id], func(a, b kernel.Record) bool { return a.Seq == b.Seq && string(a.Bytes) == string(b.Bytes) }) {
			v.violate("PERS-15: run %s: %s has %d events, %s has %d, or their bytes differ", id, w.node, len(evs), o.node, len(o.events[id]))
		}
	}
}

// lost counts the events that were heard as stored and are not in the log with their very bytes.
func (w view) lost(received map[string]map[uint64][32]byte, v *verdicts) (known, lost int) {
	for id, evs := range received {
		there := map[uint64][32]byte{}
		for _, r := range w.events[id] {
			there[r.Seq] = sha256.Sum256(r.Bytes)
		}
		for seq, hash := range evs {
			known++
			if there[seq] != hash {
				lost++
				v.violate("PERS-15: event %d of run %s was stored and is not in the log of %s", seq, id, w.node)
			}
		}
	}
	return known, lost
}

// tally is what the join of a log with the journal of effects shows.
type tally struct {
	effects, repeated map[tool.Effect]int
	unknown, late     int
	unknownCalls      []string
}

// key names a call.
type callKey struct{ run, call string }

// join holds the journal against the log: once at most once, idempotent under one key, nothing done that was not
// announced, and nothing said to be done that was not (SAFE-7, SAFE-8).
func (w view) join(lines []effects.Line, v *verdicts) tally {
	t := tally{effects: map[tool.Effect]int{}, repeated: map[tool.Effect]int{}}
	started, ended := w.calls(&t)
	begins, done, ends := map[callKey]int{}, map[callKey]int{}, map[callKey]int{}
	class := map[callKey]tool.Effect{}
	keys, owner := map[callKey]string{}, map[string]callKey{}
	for _, l := range lines {
		k := callKey{l.Run, l.Call}
		class[k] = l.Class
		if _, read := w.events[l.Run]; !read {
			continue
		}
		switch l.Moment {
		case effects.Begin:
			begins[k]++
		case effects.Effect:
			done[k]++
			t.effects[l.Class]++
		case effects.End:
			ends[k]++
		}
		if before, ok := keys[k]; ok && before != l.Key {
			v.violate("SAFE-7: call %s of run %s had two keys", l.Call, l.Run)
		}
		if o, ok := owner[l.Key]; ok && o != k {
			v.violate("SAFE-7: calls %v and %v had one key", o, k)
		}
		keys[k], owner[l.Key] = l.Key, k
	}
	for k, n := range done {
		if n > 1 {
			t.repeated[class[k]] += n - 1
		}
		if n > 1 && class[k] == tool.Once {
			v.violate("SAFE-7: the once call %s of run %s took effect %d times", k.call, k.run, n)
		}
	}
	for k, n := range begins {
		if class[k] != tool.Read && n > started[k] {
			v.violate("SAFE-8: call %s of run %s began %d times and was announced %d times (%s)", k.call, k.run, n, started[k], w.node)
		}
	}
	for k, kind := range ended {
		if kind == events.CallFinished && done[k] == 0 {
			v.violate("SAFE-8: call %s of run %s is said to be done and never was", k.call, k.run)
		}
		recorded := 0
		if kind == events.CallFinished {
			recorded = 1
		}
		if class[k] != tool.Read && ends[k] > recorded {
			t.late += ends[k] - recorded
		}
	}
	return t
}

// calls reads how often each call was announced and how it ended.
func (w view) calls(t *tally) (started map[callKey]int, ended map[callKey]events.Kind) {
	started, ended = map[callKey]int{}, map[callKey]events.Kind{}
	for id, evs := range w.events {
		for _, r := range evs {
			_, p, err := events.Read(r.Bytes)
			if err != nil {
				continue // told by the fold
			}
			switch p := p.(type) {
			case *events.CallStartedData:
				started[callKey{id, p.Call}]++
			case *events.CallFinishedData:
				ended[callKey{id, p.Call}] = events.CallFinished
			case *events.CallFailedData:
				ended[callKey{id, p.Call}] = events.CallFailed
				if p.Class == events.OutcomeUnknown {
					t.unknown++
					t.unknownCalls = append(t.unknownCalls, id+"/"+p.Call)
				}
			}
		}
	}
	return started, ended
}

// moments returns when each event of a view was said, in order.
func (w view) moments() []time.Time {
	var at []time.Time
	for _, evs := range w.events {
		for _, r := range evs {
			if f, err := events.Decode(r.Bytes); err == nil {
				at = append(at, f.Time)
			}
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	return at
}

// stall is the longest time between two events within a span.
func stall(at []time.Time, from, to time.Time) (longest time.Duration) {
	last := from
	for _, m := range at {
		if m.After(from) && m.Before(to) {
			longest, last = max(longest, m.Sub(last)), m
		}
	}
	return longest
}

// after is the time from a moment to the next event; ok is false where none followed.
func after(at []time.Time, m time.Time) (time.Duration, bool) {
	i, _ := slices.BinarySearchFunc(at, m, time.Time.Compare)
	if i == len(at) {
		return 0, false
	}
	return at[i].Sub(m), true
}

// percentile of durations, 0 where there are none.
func percentile(d []time.Duration, p int) time.Duration {
	if len(d) == 0 {
		return 0
	}
	d = slices.Sorted(slices.Values(d))
	return d[min(len(d)-1, len(d)*p/100)]
}

// replica is what a node's monitor says of its copy of a stream.
type replica struct {
	Name  string `json:"name"`
	State struct {
		Messages uint64 `json:"messages"`
		First    uint64 `json:"first_seq"`
		Last     uint64 `json:"last_seq"`
		Deleted  uint64 `json:"num_deleted"`
	} `json:"state"`
	Cluster *struct {
		Leader   string `json:"leader"`
		Replicas []struct {
			Name    string `json:"name"`
			Current bool   `json:"current"`
			Lag     uint64 `json:"lag"`
		} `json:"replicas"`
	} `json:"cluster"`
}

// streams asks the monitor of a node for its streams.
func (n *node) streams(ctx context.Context) (map[string]replica, error) {
	var page struct {
		Accounts []struct {
			Streams []replica `json:"stream_detail"`
		} `json:"account_details"`
	}
	if err := n.page(ctx, "/jsz?acc=$G&streams=true", &page); err != nil {
		return nil, err
	}
	all := map[string]replica{}
	for _, a := range page.Accounts {
		for _, s := range a.Streams {
			all[s.Name] = s
		}
	}
	return all, nil
}

func (n *node) page(ctx context.Context, path string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.monitorURL()+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s says %s", path, resp.Status)
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

// whole reports whether all nodes are up and their copies of the log stand at the same place.
func (f *fleet) whole(ctx context.Context) bool { return f.agree(ctx, underLoad) }

// underLoad is how many events a node may be behind another one while events are appended.
const underLoad = 200

// agree is whole, with the events that a node may be behind: none once nothing more is appended.
func (f *fleet) agree(ctx context.Context, behind uint64) bool {
	least, most, logs := map[string]uint64{}, map[string]uint64{}, 0
	for _, n := range f.nodes {
		if n.page(ctx, "/healthz", nil) != nil {
			return false
		}
		all, err := n.streams(ctx)
		if err != nil || len(all) == 0 {
			return false
		}
		for name, s := range all {
			if s.Cluster == nil && len(f.nodes) > 1 || s.Cluster != nil && s.Cluster.Leader == "" {
				return false
			}
			if !strings.HasPrefix(name, "LOG_") {
				continue
			}
			if _, ok := least[name]; !ok {
				least[name] = s.State.Last
			}
			least[name], most[name] = min(least[name], s.State.Last), max(most[name], s.State.Last)
			logs++
		}
	}
	for name := range least {
		if most[name]-least[name] > behind {
			return false
		}
	}
	return logs > 0 && logs%len(f.nodes) == 0
}

// leader of the log, "" while no one knows.
func (f *fleet) leader(ctx context.Context) string {
	for _, n := range f.nodes {
		if all, err := n.streams(ctx); err == nil {
			if s := all[topology.Log(stationName)]; s.Cluster != nil && s.Cluster.Leader != "" {
				return s.Cluster.Leader
			}
		}
	}
	return ""
}

// intact holds what each node says of its log against the events that were read from it: no place is empty.
func (f *fleet) intact(ctx context.Context, n *node, evs int, v *verdicts) {
	all, err := n.streams(ctx)
	if err != nil {
		v.violate("ask %s for its streams: %v", n.name, err)
		return
	}
	s := all[topology.Log(stationName)].State
	if s.Deleted != 0 || s.Messages != s.Last-s.First+1 || s.First != 1 {
		v.violate("SAFE-2: the log of %s has %d of the places %d to %d, %d are deleted", n.name, s.Messages, s.First, s.Last, s.Deleted)
	}
	if evs > 0 && uint64(evs) != s.Messages {
		v.violate("SAFE-2: the log of %s has %d events, its runs, their sessions and workspaces have %d", n.name, s.Messages, evs)
	}
}

// gatesHeld holds what clients were told of gates against a log.
func (w view) gatesHeld(answers []answer, v *verdicts) {
	for _, a := range answers {
		s := w.states[a.run]
		if got := winner(s, a.gate); a.winner != "" && got != a.winner {
			v.violate("GATE-9: gate %s of run %s: %s was told %q, the log of %s has %q", a.gate, a.run, a.by, a.winner, w.node, got)
		}
		if a.silent && winner(s, a.gate) == "" && !s.Status.Ended() {
			v.violate("GATE-9: gate %s of run %s: the answer of %s was stored and came to nothing", a.gate, a.run, a.by)
		}
	}
}

// slowest names the runs that took longest, for a reader of a report.
func slowest(tasks []*task) string {
	ended := slices.Clone(tasks)
	ended = slices.DeleteFunc(ended, func(t *task) bool { return t.ended.IsZero() || t.kind == "parked" })
	if len(ended) == 0 {
		return "none"
	}
	s := slices.MaxFunc(ended, func(a, b *task) int { return cmp.Compare(a.ended.Sub(a.sent), b.ended.Sub(b.sent)) })
	return fmt.Sprintf("%s, %s", s.ended.Sub(s.sent).Round(100*time.Millisecond), s.id)
}
