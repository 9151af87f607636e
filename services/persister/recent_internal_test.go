package persister

import (
	"crypto/rand"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestRecentBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size, count = 64 << 10, 4
		r := recent{most: DefaultRecent}
		event := make([]byte, size) // half of it cannot be compressed
		if _, err := rand.Read(event[:size/2]); err != nil {
			t.Fatal(err)
		}
		receive := func(id string, sequence uint64) {
			r.add(runlog.ReceivedEvent{Run: id, Sequence: sequence, Stored: event, State: run.State{Status: events.Running, Sequence: sequence}})
			if r.bytes > DefaultRecent {
				t.Fatalf("got %d bytes kept, want at most %d", r.bytes, DefaultRecent)
			}
		}
		whole := func(id string) bool { kept := r.runs[id]; return kept.whole(count) }
		runs := 4 * DefaultRecent / size
		for i := range runs {
			receive(fmt.Sprintf("r%d", i), 1)
		}
		for sequence := uint64(2); sequence <= count; sequence++ {
			receive("r0", sequence)
		}
		if !whole("r0") || whole(fmt.Sprintf("r%d", runs-1)) {
			t.Error("the runs that began first were let go for those that came when there was no room")
		}
		<-time.After(recentQuiet + time.Second) // of the bubble
		for sequence := uint64(1); sequence <= count; sequence++ {
			receive("new", sequence)
		}
		if !whole("new") || whole("r0") {
			t.Error("runs of which nothing more was heard keep others out")
		}
		var sum int
		for _, kept := range r.runs {
			for _, b := range append(kept.packed, kept.events...) {
				sum += len(b)
			}
		}
		if sum != r.bytes {
			t.Errorf("got %d bytes counted, want %d", r.bytes, sum)
		}
	})
}
