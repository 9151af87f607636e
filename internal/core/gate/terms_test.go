package gate

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// refusedWith fails unless an answer was refused with a code and a hint.
func refusedWith(t *testing.T, err error, code string) {
	t.Helper()
	if r, ok := errors.AsType[*Refused](err); !ok || r.Code != code || r.Hint == "" || r.Reason == "" {
		t.Errorf("got %v, want it refused with %s and a hint", err, code)
	}
}

// gated builds a run whose call of bash waits at a gate with these terms.
func gated(t *testing.T, l Policy, terms events.GateTerms) (*runtest.Builder, *run.Gate) {
	t.Helper()
	l.Terms = terms
	b := asking(10, runtest.Asked(1, 1, "bash", `{"command":"make all"}`))
	b.Append(look(t, b, l)...)
	if len(b.State().Gates) != 1 {
		t.Fatalf("no gate: %+v", b.State().Open)
	}
	return b, b.State().Gates[0]
}

var careful = events.Rule{ID: "careful", Tool: "bash", Match: events.Match{Glob: "make *"}, Action: "ask"}

func TestEdited(t *testing.T) {
	t.Parallel()
	edit := func(g *run.Gate, input string) Reply {
		return Reply{Gate: g.ID, Decision: "approve", By: "anna", Hash: g.Hash, Input: 4, Edited: json.RawMessage(input)}
	}
	t.Run("SAFE-10c SAFE-9 edited arguments become the action that is hashed, permitted and run", func(t *testing.T) {
		t.Parallel()
		b, g := gated(t, law(careful), events.GateTerms{})
		say, err := AnswerEdited(b.State(), noon, edit(g, `{"command":"make test"}`), law(careful))
		if err != nil {
			t.Fatal(err)
		}
		yes := say[0].(*events.GateApprovedData)
		if yes.ProposalHash != g.Hash || yes.EditedHash != events.EditedHash(g.Hash, json.RawMessage(`{"command":"make test"}`)) || yes.EditedHash == g.Hash {
			t.Errorf("%+v", yes)
		}
		b.Append(say...)
		if again, err := AnswerEdited(b.State(), noon, edit(g, `{"command":"make test"}`), law(careful)); len(again) != 0 || err != nil {
			t.Errorf("law 1: %v %v", again, err)
		}
		other := edit(g, `{"command":"make more"}`)
		other.Input = 5
		_, err = AnswerEdited(b.State(), noon, other, law(careful))
		refusedWith(t, err, "gate_closed")
		allowed := look(t, b, law(careful))[0].(*events.CallAllowedData)
		if !allowed.Edited || allowed.Gate != g.ID || allowed.InputHash != digest([]byte(`{"command":"make test"}`)) {
			t.Errorf("%+v", allowed)
		}
		plain := *allowed
		plain.Edited = false
		if _, err := b.Try(&plain); err == nil {
			t.Error("the fold takes a permission for what was not approved")
		}
		b.Append(allowed)
		if c := b.State().Open["c1-1"]; string(c.Input) != `{"command":"make test"}` || !c.Edited {
			t.Errorf("what is run: %s", c.Input)
		}
		b.Append(runtest.CallBegun(runtest.Ref("a", "c1-1", "bash"), 1))
		b.Append(runtest.CallDone(runtest.Ref("a", "c1-1", "bash"), b.State().Open["c1-1"].Fence, "ok"))
		if r := b.State().ToolCallHistory.At(0); !r.Edited || string(r.Arguments) != `{"command":"make test"}` {
			t.Errorf("%+v", r)
		}
	})
	t.Run("SAFE-10 GUARD-9 what a rule denies, a hook blocks or the schema does not have stays undone, whoever approves it", func(t *testing.T) {
		t.Parallel()
		b, g := gated(t, law(careful), events.GateTerms{})
		for code, input := range map[string]string{events.RefusedGuard: `{"command":"git push --force"}`, events.RefusedInput: `{"bad":1}`} {
			_, err := AnswerEdited(b.State(), noon, edit(g, input), law(careful))
			refusedWith(t, err, code)
		}
		l := hooked(map[string]string{"c1-1": "block"}, careful)
		_, err := AnswerEdited(b.State(), noon, edit(g, `{"command":"make test"}`), l)
		refusedWith(t, err, events.RefusedHook)
		if say, err := AnswerEdited(b.State(), noon, edit(g, `{"command":"make test"}`), hooked(nil, careful)); len(say) != 0 || err != nil {
			t.Errorf("before the hook was asked: %v %v", say, err)
		}
		no := edit(g, `{"command":"make test"}`)
		no.Decision = "reject"
		_, err = AnswerEdited(b.State(), noon, no, law(careful))
		refusedWith(t, err, "not_editable")
		_, err = Answer(b.State(), noon, edit(g, `{"command":"make test"}`))
		refusedWith(t, err, "not_editable")
		if g := b.State().Gates[0]; g.Status != run.GatePending {
			t.Errorf("a refused answer had an effect: %s", g.Status)
		}
	})
	t.Run("SAFE-10 a rule that came meanwhile denies the edited call when it is to be permitted", func(t *testing.T) {
		t.Parallel()
		b, g := gated(t, law(careful), events.GateTerms{})
		say, err := AnswerEdited(b.State(), noon, edit(g, `{"command":"make test"}`), law(careful))
		if err != nil {
			t.Fatal(err)
		}
		b.Append(say...)
		deny := events.Rule{ID: "never", Tool: "bash", Match: events.Match{Glob: "make test"}, Action: "deny"}
		if r, ok := look(t, b, law(careful, deny))[0].(*events.CallRefusedData); !ok || r.Rule != "never" {
			t.Errorf("%+v", r)
		}
	})
}

func TestExpired(t *testing.T) {
	t.Parallel()
	terms := events.GateTerms{ExpiresMS: time.Hour.Milliseconds()}
	t.Run("PLUS-21a the time in which the station was halted counts towards no gate, nor makes it an answer late", func(t *testing.T) {
		t.Parallel()
		var asked time.Time
		stood := Stood(func(since, _ time.Time) time.Duration {
			asked = since
			return time.Minute
		})
		p := law(careful)
		p.Stood = stood
		b, g := gated(t, p, terms)
		if say, _ := Look(b.State(), g.ExpiresAt.Add(time.Minute-1), p); len(say) != 0 {
			t.Errorf("%v", say)
		}
		if say, err := Answer(b.State(), g.ExpiresAt.Add(time.Minute-1), Reply{Gate: g.ID, Decision: "approve", Input: 4, Stood: stood}); err != nil || len(say) == 0 {
			t.Errorf("%v, %v", say, err)
		}
		if say, _ := Look(b.State(), g.ExpiresAt.Add(time.Minute), p); len(say) != 1 || !asked.Equal(b.State().Gates[0].CreatedAt) {
			t.Errorf("%v, asked since %s", say, asked)
		}
	})
	t.Run("SAFE-10a a gate expires once its time is up: not before, once, and a later answer is refused", func(t *testing.T) {
		t.Parallel()
		b, g := gated(t, law(careful), terms)
		if g.ExpiresAt != noon.Add(time.Hour) || g.OnExpiry != events.ExpiryRejects {
			t.Fatalf("%+v", g)
		}
		if say, _ := Look(b.State(), g.ExpiresAt.Add(-time.Millisecond), law(careful)); len(say) != 0 {
			t.Errorf("a firing that came early: %v", say)
		}
		after := g.ExpiresAt
		_, err := Answer(b.State(), after, Reply{Gate: g.ID, Decision: "approve", Input: 4})
		refusedWith(t, err, CodeExpired)
		say, _ := Look(b.State(), after, law(careful))
		if len(say) != 1 || say[0].(*events.GateExpiredData).Outcome != events.ExpiryRejects {
			t.Fatalf("%v", say)
		}
		b.AppendAt(after, say...)
		if again, _ := Look(b.State(), after, law(careful)); len(again) != 0 {
			t.Errorf("law 1: a firing that came twice: %v", again)
		}
		_, err = Answer(b.State(), after, Reply{Gate: g.ID, Decision: "approve", Input: 5})
		refusedWith(t, err, CodeExpired)
		b.Append(runtest.Paused("gate expired"), runtest.Resumed())
		if r, ok := look(t, b, law(careful))[0].(*events.CallRefusedData); !ok || r.Code != events.RefusedByPerson || !strings.Contains(r.Reason, "no one answered within") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("SAFE-10 a paused run's gates expire too, and a gate without terms never does", func(t *testing.T) {
		t.Parallel()
		b, g := gated(t, law(careful), terms)
		b.Append(runtest.Paused("lunch"))
		if say, _ := Look(b.State(), g.ExpiresAt, law(careful)); len(say) != 1 {
			t.Errorf("%v", say)
		}
		b, _ = gated(t, law(careful), events.GateTerms{})
		if say, _ := Look(b.State(), noon.AddDate(50, 0, 0), law(careful)); len(say) != 0 {
			t.Errorf("%v", say)
		}
	})
	t.Run("SAFE-10 of the terms of station, agent and rule the strictest hold", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			draw := func(name string) events.GateTerms {
				return events.GateTerms{Approvers: rapid.IntRange(0, 4).Draw(t, name), ExpiresMS: rapid.Int64Range(0, 3).Draw(t, name), OnExpiry: rapid.SampledFrom([]string{"", "reject", "fail"}).Draw(t, name)}
			}
			layers := []events.GateTerms{draw("station"), draw("agent"), draw("rule")}
			got := layers[0].Strictest(layers[1]).Strictest(layers[2])
			least := int64(0)
			for _, l := range layers {
				if got.Approvers < l.Approvers {
					t.Fatalf("%+v of %+v", got, layers)
				}
				if l.ExpiresMS > 0 && (least == 0 || l.ExpiresMS < least) {
					least = l.ExpiresMS
				}
			}
			if got.ExpiresMS != least || least > 0 && !slices.ContainsFunc(layers, func(l events.GateTerms) bool { return l.ExpiresMS == least && l.OnExpiry == got.OnExpiry }) {
				t.Fatalf("%+v of %+v", got, layers)
			}
		})
	})
}

func TestQuorum(t *testing.T) {
	t.Parallel()
	yes := func(g *run.Gate, by string, input uint64, edited string) Reply {
		return Reply{Gate: g.ID, Decision: "approve", By: by, Assurance: events.AssuranceSubject, Input: input, Edited: json.RawMessage(edited)}
	}
	t.Run("SAFE-10b SAFE-9 each person counts once, for one action, never who asked for the run, and only with proof", func(t *testing.T) {
		t.Parallel()
		l := law(careful)
		b, g := gated(t, l, events.GateTerms{Approvers: 2})
		claimed := yes(g, "anna", 3, "")
		claimed.Assurance = events.AssuranceNone
		_, err := Answer(b.State(), noon, claimed)
		refusedWith(t, err, "unproven_answer")
		_, err = Answer(b.State(), noon, yes(g, "Olga", 3, ""))
		refusedWith(t, err, "own_request")
		say, err := Answer(b.State(), noon, yes(g, "anna", 4, ""))
		if err != nil || say[0].Kind() != events.GateVoted {
			t.Fatalf("%v %v", say, err)
		}
		b.Append(say...)
		_, err = Answer(b.State(), noon, yes(g, "anna", 5, ""))
		refusedWith(t, err, "already_voted")
		say, err = AnswerEdited(b.State(), noon, yes(g, "bert", 6, `{"command":"make test"}`), l)
		if err != nil || say[0].Kind() != events.GateVoted {
			t.Fatalf("a yes to another action is no second one: %v %v", say, err)
		}
		b.Append(say...)
		if len(look(t, b, l)) != 0 {
			t.Error("two votes for two actions permitted one")
		}
		say, err = AnswerEdited(b.State(), noon, yes(g, "carl", 7, `{"command":"make test"}`), l)
		if err != nil || say[0].Kind() != events.GateApproved || say[0].(*events.GateApprovedData).Votes != 2 {
			t.Fatalf("%v %v", say, err)
		}
		b.Append(say...)
		if a, ok := look(t, b, l)[0].(*events.CallAllowedData); !ok || !a.Edited {
			t.Errorf("%+v", a)
		}
	})
	t.Run("SAFE-10 SAFE-2 the fold takes no approval that lacks votes, and no voice that counts twice", func(t *testing.T) {
		t.Parallel()
		b, g := gated(t, law(careful), events.GateTerms{Approvers: 2})
		alone := events.GateAnswer{Event: "gate_approved", Gate: g.ID, Step: g.StepID, Call: g.CallID, By: "anna", ProposalHash: g.Hash}
		if _, err := b.Try(&events.GateApprovedData{GateAnswer: alone}); err == nil {
			t.Error("one yes of two was enough")
		}
		b.Append(&events.GateVotedData{GateAnswer: alone})
		if _, err := b.Try(&events.GateVotedData{GateAnswer: alone}); err == nil {
			t.Error("one person voted twice")
		}
		if _, err := b.Try(&events.GateApprovedData{GateAnswer: alone}); err == nil {
			t.Error("one person was two")
		}
	})
	t.Run("SAFE-10 GATE-8 whatever comes in which order, a gate is approved only by enough different people, and one no rejects", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(rt *rapid.T) {
			need := rapid.IntRange(1, 4).Draw(rt, "need")
			l := law(careful)
			b, g := gated(t, l, events.GateTerms{Approvers: need})
			said, closed := map[string]map[string]bool{}, false
			for i := range rapid.IntRange(1, 12).Draw(rt, "answers") {
				r := yes(g, rapid.SampledFrom([]string{"olga", "anna", "bert", "carl", "dora"}).Draw(rt, "by"), uint64(i+1), rapid.SampledFrom([]string{"", `{"command":"make a"}`}).Draw(rt, "edit"))
				if rapid.IntRange(0, 5).Draw(rt, "no") == 0 {
					r.Decision, r.Edited = "reject", nil
				}
				say, err := AnswerEdited(b.State(), noon, r, l)
				if err != nil {
					continue
				}
				if closed {
					rt.Fatalf("an answer after the end: %v", say)
				}
				b.Append(say...)
				if again, err := AnswerEdited(b.State(), noon, r, l); len(again) != 0 || err != nil {
					rt.Fatalf("law 1: %v %v", again, err)
				}
				key := string(r.Edited)
				if said[key] == nil {
					said[key] = map[string]bool{}
				}
				if r.Decision == "approve" {
					said[key][r.By] = true
				}
				now := b.State().Gates[0]
				closed = now.Status != run.GatePending
				if now.Status == run.GateApproved && (len(said[key]) < need || need > 1 && said[key]["olga"]) {
					rt.Fatalf("approved by %v, %d were needed", said[key], need)
				}
				if r.Decision == "reject" && now.Status != run.GateRejected {
					rt.Fatalf("a no left the gate %s", now.Status)
				}
				if !closed && len(said[key]) >= need {
					rt.Fatalf("%v did not approve, %d were needed", said[key], need)
				}
			}
		})
	})
}
