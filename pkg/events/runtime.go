package events

import "slices"

// Runtime is a program of others that carries out the steps of an agent, as its file said when the run was created.
type Runtime struct {
	Name string `json:"name"`
	// Digest is the SHA-256 (hex) of the file it was read from.
	Digest string `json:"digest"`
	// Driver is the protocol that the program speaks: acp, claude or codex; pty where it has only a screen.
	Driver string `json:"driver"`
	// Command is the program with its arguments. Autonomous are added where the sandbox isolates.
	Command    []string `json:"command"`
	Autonomous []string `json:"autonomous_args,omitempty"`
	// Env are variables of the program; a value "secret:NAME" stands for a secret of the toolrunner. Pass are the names
	// of further secrets, each of which is the variable of its name where the toolrunner has it.
	Env  map[string]string `json:"env,omitempty"`
	Pass []string          `json:"env_pass,omitempty"`
	// Gate says how the program asks before it acts: RuntimeAsks or RuntimeAsksNot.
	Gate string `json:"gate_tools"`
	// Resumes is true where a session of the program can be gone on with after it has ended.
	Resumes bool `json:"resumes,omitempty"`
	// Transcripts are the files below HOME that the program needs to go on with a session, as patterns of path.Match in
	// which TranscriptSession stands for its name. They are stored while it works, and put back before it goes on.
	Transcripts []string `json:"transcripts,omitempty"`
	// StuckMS is how long the program may be silent without a reason before it is ended and started again; 0 for ever.
	StuckMS int64 `json:"stuck_ms,omitempty"`
	// Model is the provider that the program asks through the toolrunner; nil where it asks by itself.
	Model *RuntimeModel `json:"model,omitempty"`
	// Terminal says how a program of the driver pty is read and written; nil for all others.
	Terminal *RuntimeTerminal `json:"terminal,omitempty"`
}

// RuntimeTerminal is how a program that has only a screen is driven. The patterns are regular expressions over the text
// of one row of its screen.
type RuntimeTerminal struct {
	// Ready is in the row at which the program takes a prompt. It has ReadyMS to show it; 0 means three minutes.
	Ready   string `json:"ready"`
	ReadyMS int64  `json:"ready_ms,omitempty"`
	// Echo is shown in the place of a pasted text by a program that does not show the text itself.
	Echo string `json:"echo,omitempty"`
	// End is shown when the program has done with a prompt; TerminalTurn in it stands for the word that the program has
	// in the variable TerminalTurnEnv. Busy is shown while it works. One of them is set.
	End  string `json:"end,omitempty"`
	Busy string `json:"busy,omitempty"`
	// New and Resume are arguments that begin a session and go on with one; TranscriptSession stands for its name, which
	// is the value of the variable IDEnv, too.
	New    []string `json:"new,omitempty"`
	Resume []string `json:"resume,omitempty"`
	IDEnv  string   `json:"id_env,omitempty"`
	// Questions are what the program may ask on its screen.
	Questions []RuntimeQuestion `json:"questions,omitempty"`
}

// RuntimeQuestion is a question that a program asks on its screen.
type RuntimeQuestion struct {
	// Match is in a row of the screen while the question is open.
	Match string `json:"match"`
	// Action is QuestionAnswer (Yes is typed), QuestionAsk (the gatekeeper decides, and Yes or No is typed) or
	// QuestionFail (the program is ended).
	Action string `json:"action"`
	Yes    string `json:"yes,omitempty"`
	No     string `json:"no,omitempty"`
}

// What becomes of a question on a screen.
const (
	QuestionAnswer = "answer"
	QuestionAsk    = "ask"
	QuestionFail   = "fail"
)

// TerminalTurn stands for a word that is made anew for each program, TerminalTurnEnv is the variable with it.
const (
	TerminalTurn    = "{turn}"
	TerminalTurnEnv = "INSPAN_TURN"
)

// RuntimeModel is the provider of a program's model. The program is given an address of the toolrunner in BaseEnv and a
// token that is good there in KeyEnv; the toolrunner has the key of the provider as the secret named KeyEnv.
type RuntimeModel struct {
	// API is the form of the requests: anthropic, openai or gemini.
	API string `json:"api"`
	// URL of the provider; a secret of the toolrunner that is named BaseEnv takes its place.
	URL     string `json:"url"`
	BaseEnv string `json:"base_env"`
	KeyEnv  string `json:"key_env"`
}

// The forms of requests for models.
const (
	FormAnthropic = "anthropic"
	FormOpenAI    = "openai"
	FormGemini    = "gemini"
)

// The drivers of runtimes.
const (
	DriverACP    = "acp"
	DriverClaude = "claude"
	DriverCodex  = "codex"
	DriverPTY    = "pty"
)

// TranscriptSession stands for the name of the session in the names of transcripts.
const TranscriptSession = "{session}"

// Whether a program asks before it acts.
const (
	RuntimeAsks    = "native"
	RuntimeAsksNot = "none"
)

// ToolRuntime is the tool whose calls send prompts to the runtime of an agent, and RuntimeProvider begins the model of
// such an agent.
const (
	ToolRuntime     = "runtime"
	RuntimeProvider = "runtime"
)

// ToolOther stands for what a program asks to do that is none of InnerTools.
const ToolOther = "other"

// InnerTools are the names under which the log and the guard rules know what programs of others ask to do.
func InnerTools() []string {
	return []string{"bash", "edit", "grep", ToolOther, "read", "web_fetch", "write"}
}

// IsInner reports whether a name is one of InnerTools.
func IsInner(tool string) bool { return slices.Contains(InnerTools(), tool) }
