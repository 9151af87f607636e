package gate

import (
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// inPlace is a yes of somebody in the place of somebody else.
func inPlace(g *run.Gate, by, of string, input uint64) Reply {
	return Reply{Gate: g.ID, Decision: "approve", By: by, Assurance: events.AssuranceSubject, Hash: g.Hash, Input: input, DeputyFor: of,
		Deputy: events.Deputy{Number: 3, For: of, To: by, Since: noon.Add(-time.Hour), Until: noon.Add(time.Hour)}}
}

func TestDeputy(t *testing.T) {
	t.Parallel()
	terms := events.GateTerms{Approvers: 2}
	t.Run("PLUS-23b an answer of a deputy is the vote of who is away, and both names stand in it", func(t *testing.T) {
		t.Parallel()
		b, g := gated(t, law(careful), terms)
		say, err := Answer(b.State(), noon, inPlace(g, "bob", "ann", 4))
		if err != nil {
			t.Fatal(err)
		}
		v := say[0].(*events.GateVotedData)
		if v.By != "ann" || v.Deputy == nil || v.Deputy.By != "bob" || v.Deputy.Number != 3 || !v.Deputy.Until.Equal(noon.Add(time.Hour)) || v.Votes != 1 {
			t.Errorf("%+v %+v", v, v.Deputy)
		}
		b.Append(say...)
		if again, err := Answer(b.State(), noon, inPlace(g, "bob", "ann", 4)); len(again) != 0 || err != nil {
			t.Errorf("looked at again: %v, %v", again, err)
		}
		voted := b.State()
		g = voted.Gate(g.ID)
		for what, r := range map[string]Reply{"the deputy's own": voice(g, "bob", 5), "that of who is away": voice(g, "ann", 6),
			"one more of the deputy": inPlace(g, "bob", "ann", 7), "the deputy for a third": inPlace(g, "bob", "carol", 8),
			"of another deputy": inPlace(g, "dan", "ann", 9), "of a deputy of the deputy": inPlace(g, "dan", "bob", 10)} {
			t.Log(what)
			_, err := Answer(b.State(), noon, r)
			refusedWith(t, err, "already_voted")
		}
		say, err = Answer(b.State(), noon, inPlace(g, "dan", "carol", 11))
		if err != nil {
			t.Fatal(err)
		}
		b.Append(say...)
		if s := b.State(); s.Gate(g.ID).Status != run.GateApproved || s.Gate(g.ID).Deputy.By != "dan" || s.Gate(g.ID).Votes[0].Deputy != "bob" {
			t.Errorf("%+v", s.Gate(g.ID))
		}
	})
	t.Run("PLUS-23b who is not proven, not the deputy, or one no more does not count", func(t *testing.T) {
		t.Parallel()
		b, g := gated(t, law(careful), terms)
		for code, change := range map[string][]func(*Reply){
			"unproven_answer": {func(r *Reply) { r.Assurance = events.AssuranceNone }, func(r *Reply) { r.Assurance = events.AssuranceGateway }},
			"not_deputy":      {func(r *Reply) { r.By = "eve" }, func(r *Reply) { r.Deputy.For = "carol" }, func(r *Reply) { r.Deputy = events.Deputy{} }},
			"deputy_ended":    {func(r *Reply) { r.Deputy.Until = noon }, func(r *Reply) { r.Deputy.Since = noon.Add(time.Second) }},
		} {
			for _, f := range change {
				r := inPlace(g, "bob", "ann", 4)
				f(&r)
				_, err := Answer(b.State(), noon, r)
				refusedWith(t, err, code)
			}
		}
		late := inPlace(g, "bob", "ann", 4)
		late.Deputy.Until = noon.Add(time.Nanosecond)
		if say, err := Answer(b.State(), noon, late); err != nil || len(say) != 1 {
			t.Errorf("a moment before its end: %v, %v", say, err)
		}
	})
	t.Run("PLUS-23b who asked for the run approves neither as a deputy nor through one, and either may reject", func(t *testing.T) {
		t.Parallel()
		b, g := gated(t, law(careful), terms)
		s := b.State()
		created := *s.Created
		created.By = "ann"
		s.Created = &created
		for _, r := range []Reply{inPlace(g, "bob", "ann", 4), inPlace(g, "ann", "bob", 5)} {
			_, err := Answer(s, noon, r)
			refusedWith(t, err, "own_request")
			r.Decision = "reject"
			if say, err := Answer(s, noon, r); err != nil || len(say) != 1 {
				t.Errorf("a reject: %v, %v", say, err)
			}
		}
	})
}

// voice is a yes of somebody in the own name.
func voice(g *run.Gate, by string, input uint64) Reply {
	return Reply{Gate: g.ID, Decision: "approve", By: by, Assurance: events.AssuranceSubject, Hash: g.Hash, Input: input}
}
