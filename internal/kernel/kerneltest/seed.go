package kerneltest

import (
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// Seed stores the events of one run, from its first on, in a journal that knows nothing of that run yet.
func Seed(t testing.TB, j kernel.Journal, evs ...[]byte) {
	t.Helper()
	head := uint64(0)
	for _, b := range evs {
		f, err := events.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		kind, err := f.Kind()
		if err != nil {
			t.Fatal(err)
		}
		ack := j.Append(t.Context(), kernel.Entry{ID: f.Run, Kind: kind, Bytes: b, Head: head})
		if ack.Outcome != kernel.Stored {
			t.Fatalf("store %s of run %s: %s: %v", kind, f.Run, ack.Outcome, ack.Err)
		}
		head = ack.Seq
	}
}
