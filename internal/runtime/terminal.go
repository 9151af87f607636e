package runtime

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Limits of what a file says of a screen.
const (
	maxQuestions = 16
	maxPattern   = 256
	maxKeys      = 64
	leastReady   = time.Second
	mostReady    = time.Hour
)

// Screen is what a file says of a program that has only a screen.
type Screen struct {
	// Driver is "pty" for a program that has only a screen; else it follows from kind and headless.parser.
	Driver string `toml:"driver" json:"driver,omitempty"`
	Ready  struct {
		// Prefix is what the row begins with at which a prompt is taken. Match is a regular expression for it, where
		// other rows begin so, too.
		Prefix  string `toml:"prefix" json:"prefix,omitempty"`
		Match   string `toml:"match" json:"match,omitempty"`
		Timeout string `toml:"timeout" json:"timeout,omitempty"`
	} `toml:"ready" json:"ready,omitzero"`
	Turn struct {
		Echo string `toml:"echo" json:"echo,omitempty"`
		End  string `toml:"end" json:"end,omitempty"`
		Busy string `toml:"busy" json:"busy,omitempty"`
	} `toml:"turn" json:"turn,omitzero"`
	Questions []Question `toml:"questions" json:"questions,omitempty"`
}

// Question is a question that a program asks on its screen.
type Question struct {
	Match  string `toml:"match" json:"match"`
	Action string `toml:"action" json:"action"`
	Yes    string `toml:"yes" json:"yes,omitempty"`
	No     string `toml:"no" json:"no,omitempty"`
}

// terminal checks what is said of a program that has only a screen.
func (p *parsing) terminal(e *Entry) {
	if e.Driver != events.DriverPTY {
		if e.Turn != (Screen{}).Turn || len(e.Questions) > 0 {
			p.fail("turn", "only a program that has only a screen is read from it", `write driver = "pty", or leave it out`)
		}
		return
	}
	switch {
	case e.Ready.Match != "" && e.Ready.Prefix != "":
		p.fail("ready.match", "the row at which a prompt is taken has a prefix and a pattern", "leave one of them out")
	case e.Ready.Match == "" && strings.TrimSpace(e.Ready.Prefix) == "" || len(e.Ready.Prefix) > maxPattern:
		p.fail("ready.prefix", "without it nothing shows when the program takes a prompt",
			`write what the row begins with at which it does, such as "> "`)
	}
	if e.Turn.End == "" && e.Turn.Busy == "" {
		p.fail("turn.end", "without a pattern nothing shows when a turn has ended",
			"write a pattern that the program shows then, or turn.busy, one that it shows while it works")
	}
	if d, err := time.ParseDuration(e.Ready.Timeout); e.Ready.Timeout != "" &&
		(err != nil || d < leastReady || d > mostReady) {
		p.fail("ready.timeout", fmt.Sprintf("%.64q is no time between %s and %s", e.Ready.Timeout, leastReady, mostReady), `write it as "60s"`)
	}
	for key, text := range map[string]string{"ready.match": e.Ready.Match, "turn.echo": e.Turn.Echo,
		"turn.end": e.Turn.End, "turn.busy": e.Turn.Busy} {
		p.pattern(key, text)
	}
	if e.Session.Resume && e.Session.ResumeFlag == "" && e.Session.ContinueFlag == "" {
		p.fail("session.resume_flag", "no argument resumes a session",
			"write the argument before the name of the session, or set session.resume = false")
	}
	if e.Session.IDEnv != "" && !envRule.MatchString(e.Session.IDEnv) {
		p.fail("session.id_env", fmt.Sprintf("%.64q is not the name of a variable", e.Session.IDEnv), "A-Z a-z 0-9 and _")
	}
	p.questions(e)
}

func (p *parsing) questions(e *Entry) {
	if len(e.Questions) > maxQuestions {
		p.fail("questions", fmt.Sprintf("more than %d questions", maxQuestions), "")
	}
	actions := []string{events.QuestionAnswer, events.QuestionAsk, events.QuestionFail}
	for _, q := range e.Questions {
		if q.Match == "" {
			p.fail("questions.match", "a question without a pattern", "write what the program shows when it asks")
		}
		p.pattern("questions.match", q.Match)
		if !slices.Contains(actions, q.Action) {
			p.fail("questions.action", fmt.Sprintf("%.64q is nothing that can be done", q.Action), `write "answer", "ask" or "fail"`)
		}
		if q.Action != events.QuestionFail && q.Yes == "" || len(q.Yes) > maxKeys || len(q.No) > maxKeys {
			p.fail("questions.yes", fmt.Sprintf("no keys to answer with, or more than %d bytes", maxKeys),
				`write what is typed, such as "1\r"`)
		}
	}
}

// pattern checks a regular expression.
func (p *parsing) pattern(key, text string) {
	if _, err := regexp.Compile(text); err != nil || len(text) > maxPattern {
		p.fail(key, fmt.Sprintf("%.64q is no regular expression of at most %d bytes", text, maxPattern),
			`characters such as ( ) [ ] . * ? are written with \ before them`)
	}
}

// terminal is what a run pins of it.
func (e Entry) terminal() *events.RuntimeTerminal {
	s := e.Session
	t := &events.RuntimeTerminal{Ready: e.Ready.Match, Echo: e.Turn.Echo, End: e.Turn.End, Busy: e.Turn.Busy,
		IDEnv: s.IDEnv}
	if t.Ready == "" {
		t.Ready = `^[\s│┃|]*` + regexp.QuoteMeta(e.Ready.Prefix)
	}
	if d, err := time.ParseDuration(e.Ready.Timeout); err == nil {
		t.ReadyMS = d.Milliseconds()
	}
	if s.IDFlag != "" {
		t.New = []string{s.IDFlag, events.TranscriptSession}
	}
	switch {
	case s.ResumeFlag != "":
		t.Resume = []string{s.ResumeFlag, events.TranscriptSession}
	case s.ContinueFlag != "":
		t.Resume = []string{s.ContinueFlag}
	}
	for _, q := range e.Questions {
		t.Questions = append(t.Questions, events.RuntimeQuestion(q))
	}
	return t
}
