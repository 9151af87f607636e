package treelog

import (
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/kernel/kerneltest"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

func TestRules(t *testing.T) {
	t.Parallel()
	t.Run("EVT-1 EVT-13 each event type of a workspace has one fold rule", func(t *testing.T) {
		t.Parallel()
		for _, gap := range kerneltest.Registration(Aggregate(), rules) {
			t.Error(gap)
		}
	})
	t.Run("SAFE-8 an event with a smaller fence, or of no owner, does not fold; nor does one that only begins a log", func(t *testing.T) {
		t.Parallel()
		owned := State{Workspace: events.Workspace{Workspace: "run/r1", Owner: "i1", Fence: 3, Runs: []string{"r1"}}, Sequence: 4}
		free := owned
		free.Owner = ""
		full := owned
		full.Unkept = make([]string, events.MaxUnkept)
		for name, c := range map[string]struct {
			s State
			p events.Payload
		}{
			"a snapshot of a former owner":        {owned, &events.WorkspaceSnapshottedData{Fence: 2}},
			"a snapshot where no one is owner":    {free, &events.WorkspaceSnapshottedData{Fence: 3}},
			"a change of a former owner":          {owned, &events.WorkspaceChangedData{Fence: 2, Call: "r1/c1"}},
			"one change more than may wait":       {full, &events.WorkspaceChangedData{Fence: 3, Call: "r1/c1"}},
			"a run that enters at a former owner": {owned, &events.WorkspaceEnteredData{Fence: 2, Run: "r2"}},
			"a release by a former owner":         {owned, &events.WorkspaceReleasedData{Fence: 2}},
			"a second release":                    {free, &events.WorkspaceReleasedData{Fence: 3}},
			"a claim with the same fence":         {owned, &events.WorkspaceClaimedData{Workspace: "run/r1", Owner: "i2", Fence: 3}},
			"a claim by no one":                   {owned, &events.WorkspaceClaimedData{Workspace: "run/r1", Fence: 4}},
			"a claim of another workspace":        {owned, &events.WorkspaceClaimedData{Workspace: "run/r2", Owner: "i2", Fence: 4}},
			"a workspace forgotten, same fence":   {owned, &events.WorkspaceForgottenData{Fence: 3}},
			"what never was, forgotten":           {State{}, &events.WorkspaceForgottenData{Fence: 1}},
			"a row taken over twice":              {owned, &events.WorkspaceMigratedData{Row: owned.Workspace}},
			"a restore of what is there":          {owned, &events.WorkspaceRestoredData{Row: free.Workspace}},
			"a restore with an owner":             {State{}, &events.WorkspaceRestoredData{Row: owned.Workspace}},
		} {
			if next, err := rules.Fold(c.s, c.p, time.Unix(9, 0)); err == nil {
				t.Errorf("%s folds to %+v", name, next)
			}
		}
		if _, err := Apply(State{}, events.Event{Subject: events.WorkspaceID("run/r2"), Sequence: 1}, &events.WorkspaceClaimedData{Workspace: "run/r1", Owner: "i1", Fence: 1}, "h"); err == nil {
			t.Error("the claim of one workspace is in the log of another")
		}
	})
}

// life of a workspace as a dumb twin remembers it: a step is legal where the log should take it.
type life struct {
	owner   string
	fence   uint64
	waiting []string
	packs   int
}

// TestLog compares logs with the twin; each state is loaded anew from the row and the events after it, and from the
// first event.
func TestLog(t *testing.T) {
	t.Parallel()
	t.Run("PERS-21 SAFE-8 the state from a row and the events after it is that of the whole log; fences increase; calls that wait are named until a snapshot", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			st, err := mem.New("s1", mem.Config{})
			if err != nil {
				t.Fatal(err)
			}
			rows := st.KV(topology.TreeBucket)
			log := func(rows kernel.KV) *Log {
				l, err := New(Config{Station: "s1", By: events.Toolrunner, Journal: st.JournalFor(events.WorkspaceAggregate), Rows: rows, Entropy: rand.Reader})
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			const name = "session/demo"
			var twin life
			l, head := log(rows), State{}
			says := func(p events.Payload, may bool, then func()) {
				s, err := l.Append(t.Context(), name, head.Sequence, p)
				if (err == nil) != may {
					t.Fatalf("%s: %v, want that it may be said: %v", p.Kind(), err, may)
				}
				if err == nil {
					head = s
					then()
				}
			}
			t.Repeat(map[string]func(*rapid.T){
				"claim": func(t *rapid.T) {
					owner, fence := fmt.Sprint("i", rapid.IntRange(0, 2).Draw(t, "owner")), rapid.Uint64Range(0, 6).Draw(t, "fence")
					says(&events.WorkspaceClaimedData{Workspace: name, Owner: owner, Run: "r1", Fence: fence}, fence > twin.fence, func() {
						twin.owner, twin.fence, twin.waiting = owner, fence, nil
					})
				},
				"change": func(t *rapid.T) {
					fence, call := rapid.Uint64Range(0, 6).Draw(t, "fence"), fmt.Sprint("r1/c", rapid.IntRange(0, 9).Draw(t, "call"))
					says(&events.WorkspaceChangedData{Fence: fence, Call: call}, twin.owner != "" && fence == twin.fence, func() { twin.waiting = append(twin.waiting, call) })
				},
				"snapshot": func(t *rapid.T) {
					fence, whole := rapid.Uint64Range(0, 6).Draw(t, "fence"), rapid.Bool().Draw(t, "whole")
					says(&events.WorkspaceSnapshottedData{Fence: fence, Covers: "r1/c1", Taken: &events.WorkspaceSnapshot{Whole: whole, Pack: events.WorkspacePack{Snapshot: "ab"}}},
						twin.owner != "" && fence == twin.fence, func() {
							if twin.waiting = nil; whole {
								twin.packs = 0
							}
							twin.packs++
						})
				},
				"release": func(t *rapid.T) {
					fence := rapid.Uint64Range(0, 6).Draw(t, "fence")
					says(&events.WorkspaceReleasedData{Fence: fence}, twin.owner != "" && fence == twin.fence, func() { twin.owner = "" })
				},
				"again": func(t *rapid.T) { // a writer that knows less than the log has
					if head.Sequence > 0 {
						if _, err := l.Append(t.Context(), name, head.Sequence-1, &events.WorkspaceForgottenData{Fence: 9}); !errors.Is(err, kernel.ErrExists) {
							t.Fatalf("an append after event %d of %d: %v", head.Sequence-1, head.Sequence, err)
						}
					}
				},
				"": func(t *rapid.T) {
					whole, err := log(st.KV("elsewhere")).Known(t.Context(), name)
					if err != nil {
						t.Fatal(err)
					}
					shown, err := log(rows).Known(t.Context(), name)
					if err != nil {
						t.Fatal(err)
					}
					if !reflect.DeepEqual(whole, shown) || whole.Sequence != head.Sequence {
						t.Fatalf("from the row %+v, from the first event %+v, known %+v", shown, whole, head)
					}
					if whole.Owner != twin.owner || whole.Fence != twin.fence || strings.Join(whole.Unkept, " ") != strings.Join(twin.waiting, " ") || len(whole.Packs) != twin.packs {
						t.Fatalf("%+v, the twin has %+v", whole, twin)
					}
				},
			})
		})
	})
	t.Run("EVT-6 the id of a workspace in subjects is one token, whatever its path", func(t *testing.T) {
		t.Parallel()
		seen := map[string]string{}
		x := strings.Repeat("x", events.MaxID)
		for _, name := range []string{"run/a", "run/a/b", "run/a_b", "run_a/b", x, x + "/" + x + "/" + x + "/" + x, x + "/" + x + "/" + x + "/y"} {
			id := events.WorkspaceID(name)
			if err := events.CheckID("workspace", id); err != nil || seen[id] != "" || events.CheckWorkspace(name) != nil {
				t.Errorf("%s: %s, %v, that of %q", name, id, err, seen[id])
			}
			seen[id] = name
		}
	})
}
