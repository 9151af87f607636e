package gate

import (
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// takes reports whether the fold takes an event at a time.
func takes(b *runtest.Builder, at time.Time, p events.Payload) bool {
	_, err := run.Fold(b.State(), b.Bad(p, func(f *events.Event) { f.Time = at }))
	return err == nil
}

func TestReminded(t *testing.T) {
	t.Parallel()
	hours := func(n float64) int64 { return int64(n * 3_600_000) }
	terms := events.GateTerms{GateReminders: events.GateReminders{RemindMS: hours(1), EscalateMS: hours(2.5),
		EscalateTo: "leads"}}
	t.Run("PLUS-23a people are called again after each hour, others after the time for that, and each once",
		func(t *testing.T) {
			t.Parallel()
			b, g := gated(t, law(careful), terms)
			opened := g.CreatedAt
			var got []string
			for minute := 0; minute <= 14*60; minute += 10 {
				now := opened.Add(time.Duration(minute) * time.Minute)
				for range 2 { // looked at again it says nothing
					for _, p := range Reminded(b.State(), now, nil) {
						d := p.(*events.GateRemindedData)
						got = append(got, now.Sub(opened).String()+" "+d.To)
						b.AppendAt(now, p)
					}
				}
			}
			want := []string{"1h0m0s ", "2h0m0s ", "2h30m0s leads", "3h0m0s leads", "4h0m0s leads", "5h0m0s leads",
				"6h0m0s leads",
				"7h0m0s leads", "8h0m0s leads", "9h0m0s leads"}
			if len(got) != len(want) {
				t.Fatalf("got %q", got)
			}
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("%d: got %q, want %q", i, got[i], want[i])
				}
			}
			if at, ok := Stood(nil).NextOf(b.State().Gates[0], opened); ok {
				t.Errorf("there is another one at %s", at)
			}
		})
	t.Run("PLUS-23a of those whose time came while no gatekeeper ran the last is said", func(t *testing.T) {
		t.Parallel()
		b, g := gated(t, law(careful), terms)
		say := Reminded(b.State(), g.CreatedAt.Add(150*time.Minute), nil)
		if len(say) != 1 || say[0].(*events.GateRemindedData).Number != 3 || say[0].(*events.GateRemindedData).To != "leads" {
			t.Errorf("%+v", say)
		}
	})
	t.Run("PLUS-23a PLUS-21a a halt does not count, and a gate that was answered or is over is left alone", func(t *testing.T) {
		t.Parallel()
		b, g := gated(t, law(careful), terms)
		late := g.CreatedAt.Add(90 * time.Minute)
		halted := Stood(func(time.Time, time.Time) time.Duration { return time.Hour })
		if say := Reminded(b.State(), late, halted); len(say) != 0 {
			t.Errorf("%+v", say)
		}
		if at, ok := halted.NextOf(g, late); !ok || !at.Equal(g.CreatedAt.Add(2*time.Hour)) {
			t.Errorf("%s %v", at, ok)
		}
		say, err := Answer(b.State(), noon, Reply{Gate: g.ID, Decision: "approve", By: "anna", Hash: g.Hash, Input: 4})
		if err != nil {
			t.Fatal(err)
		}
		if b.Append(say...); len(Reminded(b.State(), late, nil)) != 0 {
			t.Error("it was answered")
		}
		short := terms
		short.ExpiresMS = hours(1)
		over, g := gated(t, law(careful), short)
		for _, p := range Reminded(over.State(), g.ExpiresAt, nil) {
			t.Errorf("it has ended: %+v", p)
		}
	})
	t.Run("PLUS-23a the shortest times of station, agent and rule count", func(t *testing.T) {
		t.Parallel()
		got := terms.Strictest(events.GateTerms{GateReminders: events.GateReminders{RemindMS: hours(0.5),
			EscalateMS: hours(9), EscalateTo: "owners"}})
		if got.RemindMS != hours(0.5) || got.EscalateMS != hours(2.5) || got.EscalateTo != "leads" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("PLUS-23a the fold refuses a reminder before its time, one that was, and one to others", func(t *testing.T) {
		t.Parallel()
		b, g := gated(t, law(careful), terms)
		d := events.GateRemindedData{Event: "gate_reminded", Gate: g.ID, Step: g.StepID, Call: g.CallID,
			Action: events.GateWaiting, Number: 1,
			ProposalHash: g.Hash, WaitMS: hours(1)}
		for what, bad := range map[string]func(*events.GateRemindedData) time.Duration{
			"early":    func(*events.GateRemindedData) time.Duration { return 59 * time.Minute },
			"to":       func(d *events.GateRemindedData) time.Duration { d.To = "leads"; return time.Hour },
			"number":   func(d *events.GateRemindedData) time.Duration { d.Number = 0; return time.Hour },
			"too many": func(d *events.GateRemindedData) time.Duration { d.Number = 11; return 99 * time.Hour },
			"action":   func(d *events.GateRemindedData) time.Duration { d.ProposalHash = "x"; return time.Hour },
		} {
			other := d
			at := g.CreatedAt.Add(bad(&other))
			if takes(b, at, &other) {
				t.Errorf("%s is taken", what)
			}
		}
		b.AppendAt(g.CreatedAt.Add(time.Hour), &d)
		if takes(b, g.CreatedAt.Add(time.Hour), &d) {
			t.Error("it is taken twice")
		}
	})
}
