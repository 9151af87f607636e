// Package streaming is what is said of a run while it works: the text of a model as it is written, the output of a
// tool.
//
// Promises: nothing here is an event, and no run waits for it. A stream is the text of one attempt, of a turn or of a
// call; each of its messages has a number and the place where its text stands, so a watcher sees every gap. As long as
// an attempt is at work, whoever carries it out answers what was said so far, and a Joiner puts that and what comes
// together: no gap, no repetition, in whatever order they arrive. Where no one answers any more, the log has the truth.
// What is kept is bounded: MaxReplay bytes for each attempt at work, and nothing after its end is stored. So is what a
// tool says in a second.
package streaming

import "time"

// Limits of a stream.
const (
	// BatchBytes and BatchTime say how much text is gathered for one message at most, and for how long. The first text
	// after a pause goes out at once.
	BatchBytes = 1 << 10
	BatchTime  = 40 * time.Millisecond
	// The output of a tool that comes faster than RateBytes in a second, with BurstBytes ahead, is left out in part:
	// the oldest of it first. Each message counts for MessageCost bytes more.
	RateBytes   = 128 << 10
	BurstBytes  = 256 << 10
	MessageCost = 128
	// MaxPart is the most bytes of text in one message.
	MaxPart = 32 << 10
	// MaxReplay is how many bytes of a stream are kept for those who come late; the oldest go first.
	MaxReplay = 256 << 10
	// MaxHeld is how many messages of a stream a Joiner holds while those before them are missing; the oldest go first.
	MaxHeld = 1024
	// MaxStreams is how many streams of a run a Joiner remembers; the oldest are forgotten first.
	MaxStreams = 4096
)

// The events of live messages.
const (
	Token      = "token"
	Thinking   = "thinking"
	ToolOutput = "tool_output"
	Error      = "error"
)

// About names what a stream is the text of: an attempt of a turn, or of a call.
type About struct {
	Step string `json:"step_id,omitempty"`
	// Turn counts the turns of the run from 1, as the event of the turn does; Attempt its requests, or those of the
	// call. Another step may take that number while the turn is asked for again; Owed, the event that it is owed since,
	// stays.
	Turn    int    `json:"step_number,omitempty"`
	Owed    uint64 `json:"owed_since,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Call    string `json:"tool_id,omitempty"`
	Tool    string `json:"tool_name,omitempty"`
}

// Message is one live message.
type Message struct {
	Event string `json:"event"`
	About
	// ID of the stream: two attempts never share one.
	ID string `json:"stream_id"`
	// N counts the messages of the stream from 1. One that is said again so far has the number of the last it covers.
	N uint64 `json:"n"`
	// At is how many bytes of text the stream had before Content.
	At      int64  `json:"at"`
	Content string `json:"content,omitempty"`
	// Output is what a tool wrote to: stdout or stderr.
	Output string `json:"stream,omitempty"`
	// Done is true in the last message of a stream; Error says why the attempt failed, if it did.
	Done  bool   `json:"done,omitempty"`
	Error string `json:"error,omitempty"`
	// First is true where the text before At is not kept any more.
	First bool `json:"first,omitempty"`
}

// end is how many bytes of text the stream has after the message.
func (m *Message) end() int64 { return m.At + int64(len(m.Content)) }
