package tool

import (
	"context"
	"encoding/json"
)

// Inner records what a program of others does inside of a call. It is safe for concurrent use.
type Inner interface {
	// Earlier returns the session in which an earlier attempt of the call gave the program its work; begun is false
	// where none did.
	Earlier() (session string, begun bool)
	// Begin records that the program is about to be given its work, in a session of that name; empty where it has none
	// yet. It returns once that is stored.
	Begin(ctx context.Context, session string) error
	// Again records that the program ended in the middle of its work and is about to be started again: of what it had
	// begun inside the outcome is unknown, and what it had asked for is not answered any more. It returns once that is
	// stored.
	Again(ctx context.Context) error
	// Keep stores the files that the session of the program is gone on with by, in the place of those of before. It
	// returns once the log names them.
	Keep(ctx context.Context, files []InnerFile) error
	// Kept returns the files that an earlier attempt of the call stored last, nil where none did.
	Kept(ctx context.Context) ([]InnerFile, error)
	// Ask puts what the program asks to do to the gatekeeper, and waits for the verdict, for which a person may have to
	// decide. Where it is allowed, that it begins is stored before Ask returns.
	Ask(ctx context.Context, c InnerCall) (InnerVerdict, error)
	// Reserve sets aside what a request of the program for its model may use. It is passed on only with a grant that was
	// not refused, and after that is stored.
	Reserve(ctx context.Context, q InnerRequest) (InnerGrant, error)
	// Settle records what a request that was granted used.
	Settle(ctx context.Context, q InnerRequest, g InnerGrant, u InnerUse) error
	// Done records what the program says that became of what it was allowed to do.
	Done(ctx context.Context, id string, r Result) error
}

// InnerRequest is a request of a program for its model.
type InnerRequest struct {
	// API is the form of the request, Model what the program calls the model.
	API, Model string
	// Bytes is its size, Output the most output that it asks for, in tokens.
	Bytes  int
	Output int64
}

// InnerGrant is the answer to it.
type InnerGrant struct {
	// Request is its number in the log, Output the most output that it may ask for.
	Request int
	Output  int64
	// Refused says why it is not passed on; empty where it is.
	Refused string
}

// InnerUse is what a request used, in tokens. Input has all of the input, of which Cached came from the cache of the
// provider and Written was put into it. Unknown is true where the provider did not say.
type InnerUse struct {
	Input, Output, Cached, Written int
	Unknown                        bool
}

// InnerFile is a file of a program.
type InnerFile struct {
	// Path is relative to the HOME of the program.
	Path string `json:"path"`
	Data []byte `json:"data"`
}

// InnerCall is what a program asks to do.
type InnerCall struct {
	// Tool is one of the names under which the log knows what programs do.
	Tool string
	// Program is what the program calls it, Title what it shows of it; both are text of others.
	Program, Title string
	// Input are the arguments that are judged, one JSON object.
	Input json.RawMessage
}

// InnerVerdict is the answer.
type InnerVerdict struct {
	// ID is the call in the log.
	ID      string
	Allowed bool
	// Reason of a refusal.
	Reason string
}
