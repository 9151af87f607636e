package events

// ForkOrigin names what a forked run begins with, so that it can be checked against the log it comes from.
type ForkOrigin struct {
	Run      string `json:"run_id"`
	Sequence uint64 `json:"sequence"`
	// Hash is the SHA-256 of the stored bytes of that event, in hex: it stands for all that came before.
	Hash string `json:"hash"`
	// StartBytes and StartHash are the length and the hex SHA-256 of the state that the run.forked events hold
	// together.
	StartBytes int    `json:"start_bytes"`
	StartHash  string `json:"start_hash"`
	// SameWorkspace is true where the fork works in the directory of the other run.
	SameWorkspace bool `json:"same_workspace,omitempty"`
}

// RunForkedData is a part of the state that a forked run begins with: a JSON document that follows from the events of
// the other run up to the fork. The parts come in order.
type RunForkedData struct {
	Event string `json:"event"`
	// Offset of Data in the whole document, in bytes.
	Offset int    `json:"offset"`
	Data   string `json:"data"`
	// Refs are the objects that the state refers to; they stand in the first part.
	Refs []Ref `json:"refs,omitempty"`
}

// Limits of a fork.
const (
	// MaxForkPart is the most bytes of RunForkedData.Data. In an event they can take twice the room.
	MaxForkPart = 96 << 10
	// MaxForkStart is the most bytes of the whole state.
	MaxForkStart = 8 << 20
)

// Kind implements Payload.
func (*RunForkedData) Kind() Kind { return RunForked }
