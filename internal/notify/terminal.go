package notify

import (
	"context"
	"io"
	"strings"

	"github.com/inspan/inspan/internal/core/view"
)

// Form is how a terminal is asked to call a person.
type Form string

// Forms. Auto rings the bell and uses the sequence that the terminal is known to take.
const (
	Auto   Form = "auto"
	Bell   Form = "bell"
	OSC9   Form = "osc9"
	OSC777 Form = "osc777"
	Off    Form = "off"
)

// Forms lists them.
func Forms() []string {
	return []string{string(Auto), string(Bell), string(OSC9), string(OSC777), string(Off)}
}

// Terminal calls at a terminal, in one write: what is drawn there at the same time is not torn.
type Terminal struct {
	Out  io.Writer
	Form Form
	// Env looks a variable of the environment up, by which Auto knows the terminal.
	Env func(name string) string
}

var _ Sink = Terminal{}

// Send implements Sink.
func (t Terminal) Send(_ context.Context, n Notice) error {
	_, err := io.WriteString(t.Out, t.bytes(n))
	return err
}

// Close implements Sink.
func (Terminal) Close() {}

// Sequences of terminals.
const (
	bell = "\a"
	esc  = "\x1b"
	osc  = esc + "]"
	end  = esc + "\\"
)

func (t Terminal) bytes(n Notice) string {
	switch t.Form {
	case Off:
		return ""
	case Bell:
		return bell
	case OSC9:
		return t.through(nine(n))
	case OSC777:
		return t.through(seven(n))
	case Auto:
	}
	term := t.Env("TERM")
	switch {
	case term == "" || term == "linux" || term == "dumb":
		return bell
	case t.Env("VTE_VERSION") != "" || strings.HasPrefix(term, "rxvt") || strings.HasPrefix(term, "foot"):
		return t.through(seven(n)) + bell
	}
	return t.through(nine(n)) + bell // terminals that do not know it show nothing
}

// nine is the sequence of iTerm2, which WezTerm, Ghostty, kitty and others know.
func nine(n Notice) string { return osc + "9;" + title(n) + ": " + view.Clip(n.Text, maxText) + end }

// seven is the sequence of rxvt-unicode, which terminals with VTE and foot know.
func seven(n Notice) string {
	return osc + "777;notify;" + title(n) + ";" + view.Clip(n.Text, maxText) + end
}

// title has no semicolon, which would end it.
func title(n Notice) string { return strings.ReplaceAll("inspan "+view.Clip(n.Run, maxText), ";", ",") }

// through hands a sequence through tmux, which drops it unless its user allows that (allow-passthrough).
func (t Terminal) through(sequence string) string {
	if t.Env("TMUX") == "" {
		return sequence
	}
	return esc + "Ptmux;" + strings.ReplaceAll(sequence, esc, esc+esc) + end
}
