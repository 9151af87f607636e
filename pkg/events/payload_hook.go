package events

// Points of a run's life at which hooks are asked.
const (
	// OnRunStart is before the first step of a run.
	OnRunStart = "run_start"
	// OnTurn is before each model turn.
	OnTurn = "turn"
	// OnPreTool is after the rules permitted a call or sent it to a person, and before it may begin.
	OnPreTool = "pre_tool"
	// OnPostTool is after an attempt of a call, before the agent sees what came of it.
	OnPostTool = "post_tool"
	// OnRunStop is before the end of a run is recorded.
	OnRunStop = "run_stop"
)

// What a hook may answer.
const (
	HookContinue  = "continue"
	HookBlock     = "block"
	HookInterrupt = "interrupt"
)

// Hook names somebody who is asked at one point of a run's life (GUARD-1 to 4). Exactly one of Command, Subject and
// Builtin is set.
type Hook struct {
	ID string `json:"id"`
	// On is run_start, turn, pre_tool, post_tool or run_stop.
	On string `json:"on"`
	// Tool is a glob over tool names, for pre_tool and post_tool; empty means "*".
	Tool string `json:"tool,omitempty"`
	// Command is a program and its arguments. It gets the question as JSON on its standard input.
	Command []string `json:"command,omitempty"`
	// Subject is the last token of station.{station}.hook.{subject}, where the question is asked as a NATS request.
	Subject string `json:"subject,omitempty"`
	// Builtin is the name of a hook that the services bring along.
	Builtin string `json:"builtin,omitempty"`
	// TimeoutMS bounds one question, in milliseconds; 0 means 5000.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
}

// HookAnswer is what a hook answered, as it stands in the event that records what followed from it. A hook may be
// asked more than once for the same thing; only the answer that is in the log counts, and a replay asks no one.
type HookAnswer struct {
	// Hook is "station:ID" or "agent:ID", by who declared it.
	Hook string `json:"hook"`
	On   string `json:"on"`
	// Answer is continue, block or interrupt.
	Answer  string `json:"answer"`
	Message string `json:"message,omitempty"`
	// Fault says why there was no answer (timeout, crash, rubbish, flood, nobody, unavailable); the answer is
	// then block.
	Fault      string `json:"fault,omitempty"`
	DurationMS int64  `json:"duration_ms"`
}

// Decisive returns the answer that decides: the first block, else the first interrupt. Whatever is no known answer is a
// block. ok is false where all say continue, or no one was asked.
func Decisive(answers []HookAnswer) (a HookAnswer, ok bool) {
	for _, next := range answers {
		switch {
		case next.Answer == HookContinue:
		case next.Answer == HookInterrupt && !ok:
			a, ok = next, true
		case next.Answer != HookInterrupt:
			return next, true
		}
	}
	return a, ok
}
