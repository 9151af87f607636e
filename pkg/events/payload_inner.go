package events

import (
	"encoding/json"
	"strconv"
)

// CallRequestedData says that a program of others, which carries out a call, asks to do something inside. The
// gatekeeper permits it as it does the calls of models.
type CallRequestedData struct {
	Event string `json:"event"`
	ToolRef
	// Fence is that of the attempt of the parent.
	Fence uint64 `json:"fence"`
	// ProgramID is what the program calls it, Title what it shows of it; both are its own words.
	ProgramID string `json:"program_id,omitempty"`
	Title     string `json:"title,omitempty"`
	// Input are the arguments that are judged, with what the program reported; InputRef where they are large.
	Input    json.RawMessage `json:"input,omitempty"`
	InputRef *Ref            `json:"input_ref,omitempty"`
}

// Kind implements Payload.
func (*CallRequestedData) Kind() Kind { return CallRequested }

func (d *CallRequestedData) line() string {
	return "call " + d.Call + " of " + d.Tool + " requested inside of " + d.Parent
}

// CallProgressedData is stored before a program of others is given its work in a call: from then on it may act. It is
// stored again when the files of its session were stored.
type CallProgressedData struct {
	Event string `json:"event"`
	ToolRef
	Fence uint64 `json:"fence"`
	// Session is what the program calls the conversation, by which it can be gone on with; empty where it has no name
	// yet.
	Session string `json:"session,omitempty"`
	// Transcript is the object with the files of the session as they were then; nil where none were stored.
	Transcript *Ref `json:"transcript,omitempty"`
}

// Kind implements Payload.
func (*CallProgressedData) Kind() Kind { return CallProgressed }

func (d *CallProgressedData) line() string {
	switch {
	case d.Transcript != nil:
		return "call " + d.Call + ": the transcript of session " + strconv.Quote(d.Session) + " is stored"
	case d.Session == "":
		return "call " + d.Call + ": the program is given its work"
	}
	return "call " + d.Call + ": the program works in session " + strconv.Quote(d.Session)
}

// MaxProgramText is the most bytes of a name or title that a program of others gives.
const MaxProgramText = 512
