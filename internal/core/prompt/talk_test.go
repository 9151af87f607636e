package prompt

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestTalk(t *testing.T) {
	t.Parallel()
	t.Run("PRMT-8 LOOP-12 a prompt that goes on from an earlier one is the same as one assembled anew, whatever came between", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			b := runtest.New("main", "r1")
			a := events.Agent{Name: "worker", Model: "m", NoImages: rapid.Bool().Draw(t, "no images")}
			talks := map[string]*Talk{}
			for range rapid.IntRange(5, 150).Draw(t, "events") {
				moves := runtest.Moves(b.State())
				if len(moves) == 0 {
					break
				}
				b.Append(moves[rapid.IntRange(0, len(moves)-1).Draw(t, "move")])
				s := b.State()
				if s.Plan == nil || rapid.IntRange(0, 2).Draw(t, "look") > 0 {
					continue
				}
				if rapid.IntRange(0, 9).Draw(t, "narrow") == 0 {
					a.ContextWindow = rapid.IntRange(0, 4000).Draw(t, "window")
				}
				for _, st := range s.Plan.Steps {
					if talks[st.ID] == nil {
						talks[st.ID] = &Talk{}
					}
					in := Input{State: s, Step: st, Agent: a, System: "sys", User: "work"}
					got, _ := json.Marshal(talks[st.ID].Assemble(in))
					want, _ := json.Marshal(Assemble(in))
					if string(got) != string(want) {
						t.Fatalf("step %s\n got %s\nwant %s", st.ID, got, want)
					}
				}
			}
		})
	})
	t.Run("PRMT-8 a prompt of another run with the same id, and one of an older state, are assembled anew", func(t *testing.T) {
		t.Parallel()
		of := func(run string, turns int) Input {
			b := runtest.New("main", "r1")
			b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
			for n := 1; n <= turns; n++ {
				asked := runtest.Asked(n, 1, "read", `{"path":"x"}`)
				ref := runtest.Ref("a", asked.ID, "read")
				b.Append(runtest.Turn(n, "a", run, asked), runtest.CallYes(ref, "read"), runtest.CallDone(ref, 0, run))
				if run == "second" {
					b.Append(runtest.Paused("wait"), runtest.Resumed()) // its turns end at other times
				}
			}
			s := b.State()
			return Input{State: s, Step: s.Step("a"), Agent: s.Agents["worker"], System: "sys", User: "work"}
		}
		var talk Talk
		for _, in := range []Input{of("first", 2), of("first", 4), of("first", 3), of("second", 4), of("first", 5), of("first", 5)} {
			if got, _ := json.Marshal(talk.Assemble(in)); true {
				if want, _ := json.Marshal(Assemble(in)); string(got) != string(want) {
					t.Fatalf("got %s\nwant %s", got, want)
				}
			}
		}
	})
	t.Run("PRMT-8 PLUS-2 a call that had no result in one prompt has it in the next", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("main", "r1")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
		asked := runtest.Asked(1, 1, "read", `{"path":"x"}`)
		ref := runtest.Ref("a", asked.ID, "read")
		b.Append(runtest.Turn(1, "a", "I read it.", asked), runtest.CallYes(ref, "read"))
		var talk Talk
		see := func() string {
			s := b.State()
			in := Input{State: s, Step: s.Step("a"), Agent: s.Agents["worker"], System: "sys", User: "work"}
			p := talk.Assemble(in)
			return p.Entries[len(p.Entries)-1].Exchange.Results[0].Output
		}
		if got := see(); !strings.HasPrefix(got, "interrupted") {
			t.Fatalf("the open call shows %q", got)
		}
		b.Append(runtest.CallDone(ref, 0, "the text of x"))
		if got := see(); got != "the text of x" {
			t.Errorf("the ended call shows %q", got)
		}
	})
	t.Run("PRMT-8 MSG-15 mail that comes after the prompt of a turn was put together is in the prompt of its next request", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("main", "r1")
		b.Append(runtest.WokenCreated(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
		asked := runtest.Asked(1, 1, "read", `{"path":"x"}`)
		ref := runtest.Ref("a", asked.ID, "read")
		var talk Talk
		same := func(want int) {
			t.Helper()
			s := b.State()
			in := Input{State: s, Step: s.Step("a"), Agent: s.Agents["worker"], System: "sys", User: "work"}
			got, _ := json.Marshal(talk.Assemble(in))
			anew, _ := json.Marshal(Assemble(in))
			if n := strings.Count(string(got), "Mail has come."); n != want || string(got) != string(anew) {
				t.Errorf("%d messages, want %d\n got %s\nwant %s", n, want, got, anew)
			}
		}
		same(0)
		b.Append(runtest.Mail("a", "m1"))
		same(1)
		b.Append(runtest.Turn(1, "a", "x", asked), runtest.CallYes(ref, "read"), runtest.CallDone(ref, 0, "ok"))
		same(1)
		b.Append(runtest.Mail("a", "m2"))
		same(2)
	})
}
