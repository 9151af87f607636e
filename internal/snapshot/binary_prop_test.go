package snapshot_test

import (
	"bytes"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/snapshot"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// walk draws the state after a random legal history. Moves that end the run or hold it up are taken seldom, so that
// walks get long.
func walk(t *rapid.T) run.State {
	b := runtest.New("demo", "run-a")
	for range rapid.IntRange(1, 400).Draw(t, "facts") {
		moves := runtest.Moves(b.State())
		if len(moves) == 0 {
			break
		}
		p := rapid.SampledFrom(moves).Draw(t, "move")
		switch p.Kind() {
		case events.RunFailed, events.StepFailed, events.RunPaused, events.CheckpointSaved, events.CheckpointFallback, events.RunAdjusted:
			p = rapid.SampledFrom(moves).Draw(t, "other move")
		}
		b.Append(p)
	}
	return b.State()
}

func TestForms(t *testing.T) {
	t.Parallel()
	t.Run("EVT-5 PROP-4 any state written in the binary form is read back equal, and its JSON is equal", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			want := walk(t)
			b, err := snapshot.Binary{}.Encode(want)
			if err != nil {
				t.Fatal(err)
			}
			got, err := snapshot.Binary{}.Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, got, want)
			again, err := snapshot.Binary{}.Encode(got)
			if err != nil || !bytes.Equal(again, b) {
				t.Fatalf("equal states gave other bytes (%v)", err)
			}
		})
	})
}

func equal(t *rapid.T, got, want run.State) {
	g, err := run.Codec{}.Encode(got)
	if err != nil {
		t.Fatal(err)
	}
	w, err := run.Codec{}.Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(g, w) {
		t.Fatalf("the JSON differs:\n got %s\nwant %s", g, w)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("the states differ although their JSON is equal: %s", g)
	}
}
