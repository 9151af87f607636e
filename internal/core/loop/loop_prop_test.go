package loop_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/core/loop"
	"github.com/inspan/inspan/internal/core/prompt"
	"github.com/inspan/inspan/pkg/events"
)

// The window that decisions look at and the walk over the whole conversation agree, and the deliberately dumb twin that
// counts from the beginning agrees with both.
func TestWindowProperty(t *testing.T) {
	t.Parallel()
	t.Run("LOOP-5 PLUS-4 what a look at the last turns finds is what the whole conversation shows", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			d := events.DoomLoop{Threshold: rapid.IntRange(2, 4).Draw(t, "threshold"), Cycle: rapid.IntRange(1, 3).Draw(t, "cycle"),
				Action: rapid.SampledFrom([]string{events.DoomPause, events.DoomFail, events.DoomWarn, events.DoomSummarize}).Draw(t, "action")}
			b := history(d)
			var inputs []string
			for range rapid.IntRange(1, 40).Draw(t, "turns") {
				in := rapid.IntRange(0, 2).Draw(t, "input")
				ok := rapid.Bool().Draw(t, "ok")
				result := fmt.Sprint("result ", rapid.IntRange(0, 1).Draw(t, "result"))
				inputs = append(inputs, fmt.Sprint(in, ok, result))
				id := ask(b, "read", fmt.Sprint(in))
				ends(b, id, "read", result, ok)
				look := loop.Look(b.State(), "a")
				talk := prompt.Conversation(b.State(), "a")
				if note := talk[len(talk)-1].Note; note != look.Note() {
					t.Fatalf("the conversation says %q, the look at the last turns %q", note, look.Note())
				}
				row := 1
				for i := len(inputs) - 1; i > 0 && inputs[i] == inputs[i-1]; i-- {
					row++
				}
				if want := min(row, d.Threshold+2); loop.Row(b.State(), "a") != want {
					t.Fatalf("got %d in a row, want %d", loop.Row(b.State(), "a"), want)
				}
				if row >= d.Threshold+2 && d.Action != events.DoomWarn && look.Grade != loop.End {
					t.Fatalf("%d in a row and %+v", row, look)
				}
			}
		})
	})
}
