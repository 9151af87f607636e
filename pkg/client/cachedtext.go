package client

import (
	"context"
	"encoding/json"

	"github.com/inspan/inspan/internal/streaming"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// cachedText is what the station keeps of what was said live of a run, for a watcher who came late. Who may not read
// it, or finds nothing, goes on with what comes.
type cachedText struct {
	c   *Client
	run string
	j   *streaming.Joiner
	// after is the position up to which it was read.
	after uint64
}

// begin tells what is kept of the turns and calls under way. It must be told before anything that is newer. What is
// kept is read before and after the events: so a turn that the events do not have yet is told as far as it had come.
func (k *cachedText) begin(ctx context.Context) {
	said := k.read(ctx)
	if len(said) == 0 {
		return
	}
	s, err := k.c.State(ctx, k.run)
	if err != nil {
		k.after = 0 // what comes may still be completed from it
		return
	}
	for _, data := range append(said, k.read(ctx)...) {
		var m streaming.Message
		if json.Unmarshal(data, &m) == nil && underWay(s, m.About) {
			k.j.Take(data)
		}
	}
}

// fill tells what is missing of streams that are known.
func (k *cachedText) fill(ctx context.Context) {
	for _, data := range k.read(ctx) {
		k.j.Fill(data)
	}
}

func (k *cachedText) read(ctx context.Context) [][]byte {
	said, last, err := k.c.st.Replay(ctx, k.run, k.after)
	if err != nil {
		return nil // it is only what comes early; the events have it in the end
	}
	k.after = last
	return said
}

// underWay reports whether the events do not have yet what a stream is the text of.
func underWay(s run.State, of streaming.About) bool {
	if of.Call != "" {
		return s.Open[of.Call] != nil
	}
	st := s.Step(of.Step)
	return !s.Status.Ended() && st != nil && st.Status == events.StepIsRunning && st.Owed == of.Owed
}
