package client

import (
	"context"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/streaming"
)

// Piece is text of a run that is not stored yet: a part of what a model writes or a tool prints.
type Piece struct {
	// Event is token, thinking, tool_output or error.
	Event string `json:"event"`
	// Step and Turn it belongs to; Turn is the number that its turn.finished will have. Attempt counts the requests of
	// the turn, or the attempts of the call.
	Step    string `json:"step_id,omitempty"`
	Turn    int    `json:"step_number,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	// Call and Tool are set for the output of a tool; Output is stdout or stderr.
	Call   string `json:"tool_id,omitempty"`
	Tool   string `json:"tool_name,omitempty"`
	Output string `json:"stream,omitempty"`
	Text   string `json:"text,omitempty"`
	// Done is true in the last piece of an attempt, Error says why it failed, if it did.
	Done  bool   `json:"done,omitempty"`
	Error string `json:"error,omitempty"`
	// Again says that the turn is asked for once more: what came of it before is to be forgotten.
	Again bool `json:"again,omitempty"`
	// Missed says that text is missing before this piece. The events have it in the end.
	Missed bool `json:"missed,omitempty"`
}

// Limits of a stream of text.
const (
	// pieces is how many messages may wait for a slow hear; those behind it are asked for again.
	pieces = 1024
	// What is missing is asked for again this often, this many times, before the stream goes on without it.
	askEvery = 250 * time.Millisecond
	mostAsks = 8
)

// Stream has hear called with the text of a run as it comes, from one goroutine, until stop is called or ctx ends. Who
// comes late gets the text of the turns and calls under way from their beginning, at most the last 256 KiB of each;
// where the station keeps it (INSPAN_STREAMING=jetstream), also text whose services are gone. What has ended is in the
// events. Each byte comes once and in order. Nothing comes where the station does not stream. stop waits until hear has
// returned; hear must not call it.
func (c *Client) Stream(ctx context.Context, runID string, receive func(Piece)) (stop func(), err error) {
	if err := checkRun(runID); err != nil {
		return nil, err
	}
	news := make(chan []byte, pieces) // what does not fit is asked for again
	take := func(data []byte) {
		select {
		case news <- data:
		default:
		}
	}
	stopLive, err := c.st.Watch(ctx, runID, true, func(s jet.Seen) {
		if s.Live {
			take(s.Data)
		}
	})
	if err != nil {
		return nil, err
	}
	ask, stopAnswers, err := c.st.SoFar(ctx, runID, take)
	if err != nil {
		stopLive()
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		k := &cachedText{c: c, run: runID, j: streaming.NewJoiner(func(p streaming.Piece) { receive(pieceOf(p)) })}
		k.begin(ctx)
		join(ctx, news, ask, k)
	}()
	return func() {
		cancel()
		stopLive()
		stopAnswers()
		<-gone
	}, nil
}

// join puts what comes in order, and asks for what is missing.
func join(ctx context.Context, news <-chan []byte, ask func() error, kept *cachedText) {
	j := kept.j
	t := time.NewTicker(askEvery)
	defer t.Stop()
	asks := 0
	_ = ask() // who cannot ask goes on with what comes
	for {
		select {
		case data := <-news:
			if j.Take(data); !j.Waiting() {
				asks = 0
			}
		case <-t.C:
			switch {
			case !j.Waiting():
			case asks < mostAsks:
				asks++
				_ = ask() // as above
				kept.fill(ctx)
			default:
				asks = 0
				j.GiveUp()
			}
		case <-ctx.Done():
			return
		}
	}
}

func pieceOf(p streaming.Piece) Piece {
	return Piece{Event: p.Event, Step: p.Step, Turn: p.Turn, Attempt: p.Attempt, Call: p.Call, Tool: p.Tool,
		Output: p.Output,
		Text:   p.Content, Done: p.Done, Error: p.Error, Again: p.Again, Missed: p.Missed}
}
