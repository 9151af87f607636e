package lifecycle

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// Feature: agent-harnesses, Property 1: state machine moves.
func TestPROP1(t *testing.T) {
	t.Parallel()
	t.Run("PROP-1 Feature: agent-harnesses, Property 1: valid moves reach the status, invalid ones change nothing", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			b := runtest.New("main", "r1")
			b.Say(runtest.Created())
			want, input := events.Created, uint64(0)
			for _, wish := range rapid.SliceOfN(rapid.SampledFrom([]string{"start", "pause", "resume", "stop"}), 1, 12).Draw(t, "wishes") {
				input++
				before, count := b.State(), len(b.Facts())
				var say []events.Payload
				var err error
				next := want
				switch wish {
				case "start":
					if want == events.Created {
						say, next = []events.Payload{runtest.Started()}, events.Running
					} else {
						say, err = Resume(before, Wish{Input: input})
						if want == events.Paused {
							next = events.Running
						}
					}
				case "pause":
					say, err = Pause(before, noon, Wish{Input: input})
					if want == events.Running {
						next = events.Paused
					}
				case "resume":
					say, err = Resume(before, Wish{Input: input})
					if want == events.Paused {
						next = events.Running
					}
				case "stop":
					say, err = Stop(before, noon, Wish{Input: input})
					if !want.Ended() {
						next = events.Failed
					}
				}
				if err != nil && next != want || err == nil && next == want {
					t.Fatalf("%s while %s: error %v", wish, want, err)
				}
				b.Say(say...)
				if err != nil && len(b.Facts()) != count {
					t.Fatalf("%s while %s was refused and yet said something", wish, want)
				}
				want = next
				if got := b.State().Status; got != want {
					t.Fatalf("after %s: %s, want %s", wish, got, want)
				}
			}
		})
	})
}

// Feature: agent-harnesses, Property 2: pause and resume.
func TestPROP2(t *testing.T) {
	t.Parallel()
	t.Run("PROP-2 Feature: agent-harnesses, Property 2: pause then resume gives an equal state except for timestamps", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			b := runtest.New("main", "r1")
			for range rapid.IntRange(3, 40).Draw(t, "facts") {
				moves := runtest.Moves(b.State())
				if len(moves) == 0 {
					break
				}
				b.Say(moves[rapid.IntRange(0, len(moves)-1).Draw(t, "move")])
			}
			if b.State().Status != events.Running {
				return
			}
			before := b.State()
			say, err := Pause(before, noon, Wish{Input: 1000})
			if err != nil {
				t.Fatal(err)
			}
			b.Say(say...)
			say, err = Resume(b.State(), Wish{Input: 1001})
			if err != nil {
				t.Fatal(err)
			}
			b.Say(say...)
			if got, want := plain(t, b.State()), plain(t, before); got != want {
				t.Fatalf("state after pause and resume\n got %s\nwant %s", got, want)
			}
		})
	})
}

// plain is a state without what a pause and a resume themselves are: time, place in the log, inputs taken.
func plain(t *rapid.T, s run.State) string {
	s.UpdatedAt, s.Sequence, s.Hash, s.ResumedAt, s.Inputs, s.PauseReason = s.CreatedAt, 0, "", 0, nil, ""
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
