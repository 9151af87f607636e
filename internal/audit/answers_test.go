package audit_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/pkg/approval"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// signer makes a key; with a folder, its public half is kept there as that of name.
func signer(t *testing.T, folder, name string) approval.Key {
	t.Helper()
	k, err := approval.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	if folder == "" {
		return k
	}
	path := filepath.Join(t.TempDir(), name)
	if err := k.Save(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+approval.PublicExt, filepath.Join(folder, name+approval.PublicExt)); err != nil {
		t.Fatal(err)
	}
	return k
}

// answeredWith is a whole and well chained log in which a signed answer to gate g-1 is event 6, changed before it was
// said.
func answeredWith(t *testing.T, k approval.Key, yes bool, change func(s *approval.Statement, a *events.GateAnswer)) [][]byte {
	t.Helper()
	b := runtest.New("demo", "r")
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.GateAt("g-1", "a", ""))
	s := b.State()
	gate := s.Gate("g-1")
	said := approval.Statement{Station: "demo", Run: "r", Gate: "g-1", Decision: approval.Reject, ProposalHash: gate.Hash, Reason: "why"}
	a := runtest.No(gate, "why").GateAnswer
	if yes {
		said.Decision, a = approval.Approve, runtest.Yes(gate).GateAnswer
		a.Reason = "why"
	}
	a.Assurance, a.Key = events.AssuranceSignature, k.ID()
	change(&said, nil)
	var err error
	if a.Signature, err = k.Sign(said); err != nil {
		t.Fatal(err)
	}
	change(&said, &a)
	if yes {
		b.Append(&events.GateApprovedData{GateAnswer: a})
	} else {
		b.Append(&events.GateRejectedData{GateAnswer: a})
	}
	return b.Events()
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	anna, stranger := signer(t, folder, "anna"), signer(t, "", "")
	bert := signer(t, folder, "bert")
	keys, err := approval.LoadKeys(folder)
	if err != nil {
		t.Fatal(err)
	}
	look := func(t *testing.T, by audit.Approvers, evs [][]byte) audit.Report {
		t.Helper()
		r, err := audit.File(t.Context(), audit.Config{Approvers: by}, bytes.NewReader(runtest.Lines(evs)))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	plain := func(*approval.Statement, *events.GateAnswer) {}
	statement := func(set func(*approval.Statement)) func(*approval.Statement, *events.GateAnswer) {
		return func(s *approval.Statement, a *events.GateAnswer) {
			if a == nil {
				set(s)
			}
		}
	}
	ev := func(set func(*events.GateAnswer)) func(*approval.Statement, *events.GateAnswer) {
		return func(_ *approval.Statement, a *events.GateAnswer) {
			if a != nil {
				set(a)
			}
		}
	}
	t.Run("SAFE-3 SAFE-9 a log with good answers is sound, and they are counted", func(t *testing.T) {
		t.Parallel()
		for _, yes := range []bool{true, false} {
			for _, only := range []bool{true, false} {
				if r := look(t, audit.Approvers{Keys: keys, OnlySigned: only}, answeredWith(t, anna, yes, plain)); !r.Sound || r.Answers != 1 || r.Verified != 1 || r.Unverified != 0 {
					t.Errorf("yes %v: %+v, %v", yes, r, r.First)
				}
			}
			if r := look(t, audit.Approvers{}, answeredWith(t, anna, yes, plain)); !r.Sound || r.Verified != 0 || r.Unverified != 1 {
				t.Errorf("without keys it was taken for verified: %+v", r)
			}
		}
	})
	for name, c := range map[string]struct {
		key    approval.Key
		change func(*approval.Statement, *events.GateAnswer)
		want   string
	}{
		"of another action":  {anna, statement(func(s *approval.Statement) { s.ProposalHash = strings.Repeat("ab", 32) }), "did not sign"},
		"of another gate":    {anna, statement(func(s *approval.Statement) { s.Gate = "g-2" }), "did not sign"},
		"of another run":     {anna, statement(func(s *approval.Statement) { s.Run = "q" }), "did not sign"},
		"of another station": {anna, statement(func(s *approval.Statement) { s.Station = "other" }), "did not sign"},
		"of another reason":  {anna, statement(func(s *approval.Statement) { s.Reason = "because" }), "did not sign"},
		"of the opposite": {anna, statement(func(s *approval.Statement) {
			s.Decision = map[string]string{approval.Approve: approval.Reject, approval.Reject: approval.Approve}[s.Decision]
		}), "did not sign"},
		"of a stranger":               {stranger, plain, "unknown"},
		"under the key of another":    {anna, ev(func(a *events.GateAnswer) { a.Key = bert.ID() }), "did not sign"},
		"in the name of another":      {anna, ev(func(a *events.GateAnswer) { a.By = "bert" }), "anna signed"},
		"that is no signature":        {anna, ev(func(a *events.GateAnswer) { a.Signature = "AAAA" }), "64 bytes"},
		"that was taken off":          {anna, ev(func(a *events.GateAnswer) { a.Signature, a.Key = "", "" }), "not signed"},
		"that calls itself a subject": {anna, ev(func(a *events.GateAnswer) { a.Assurance = events.AssuranceSubject }), "anna signed"},
	} {
		t.Run("SAFE-3 SAFE-9 an answer with a signature "+name+" is named with its position", func(t *testing.T) {
			t.Parallel()
			for _, yes := range []bool{true, false} {
				evs := answeredWith(t, c.key, yes, c.change)
				if _, err := run.Fold(run.State{}, evs...); err != nil {
					t.Fatalf("the forged log does not even fold: %v", err)
				}
				r := look(t, audit.Approvers{Keys: keys}, evs)
				if r.Sound || r.First == nil || r.First.Sequence != 6 || !strings.Contains(r.First.Why, c.want) || !strings.Contains(r.First.Why, "g-1") {
					t.Errorf("yes %v: %+v", yes, r.First)
				}
			}
		})
	}
	t.Run("SAFE-3 SAFE-9 an answer that never had a signature is wrong where only signed ones are taken, and fine elsewhere", func(t *testing.T) {
		t.Parallel()
		unsigned := ev(func(a *events.GateAnswer) { a.Signature, a.Key, a.Assurance = "", "", events.AssuranceNone })
		for _, yes := range []bool{true, false} {
			evs := answeredWith(t, anna, yes, unsigned)
			if r := look(t, audit.Approvers{Keys: keys, OnlySigned: true}, evs); r.Sound || r.First.Sequence != 6 || !strings.Contains(r.First.Why, "not signed") {
				t.Errorf("%+v", r.First)
			}
			if r := look(t, audit.Approvers{Keys: keys}, evs); !r.Sound || r.Answers != 1 || r.Verified != 0 {
				t.Errorf("%+v, %v", r, r.First)
			}
			if r := look(t, audit.Approvers{OnlySigned: true}, answeredWith(t, anna, yes, plain)); r.Sound {
				t.Error("without a single key a signature was believed")
			}
		}
	})
	t.Run("SAFE-3 SAFE-9 a gate that shows another action than the one whose hash is signed is wrong", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("demo", "r")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"))
		gate := runtest.GateAt("g-1", "a", "")
		gate.Proposal = json.RawMessage(`{"step":"harmless"}`)
		b.Append(gate)
		if r := look(t, audit.Approvers{}, b.Events()); r.Sound || r.First.Sequence != 5 || !strings.Contains(r.First.Why, "proposal_hash") {
			t.Errorf("%+v", r.First)
		}
	})
}
