package events

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// Types of the CloudEvents that the station takes from outside; a bare JSON document has none.
const (
	TaskType     = "dev.inspan.task.v1"
	ControlType  = "dev.inspan.control.v1"
	AnswerType   = "dev.inspan.answer.v1"
	SessionType  = "dev.inspan.session.v1"
	ScheduleType = "dev.inspan.schedule.v1"
	HarnessType  = "dev.inspan.harness.v1"
	WorkType     = "dev.inspan.work.v1"
	MailType     = "dev.inspan.mail.v1"
	QueueType    = "dev.inspan.queue.v1"
	HaltType     = "dev.inspan.halt.v1"
	BudgetType   = "dev.inspan.budget.v1"
	DeputyType   = "dev.inspan.deputy.v1"
)

// Limits of the name and the reason that a person gives, in bytes. Both are shown on terminals.
const (
	MaxBy     = 128
	MaxReason = 2048
)

// CheckBy returns what is wrong with a name that somebody gives: it is one line.
func CheckBy(by string) error { return checkText("by", by, MaxBy, false) }

// CheckReason returns what is wrong with a reason.
func CheckReason(reason string) error { return checkText("reason", reason, MaxReason, true) }

// CheckNote returns what is wrong with a note of a work item.
func CheckNote(note string) error { return checkText("note", note, MaxWorkNote, true) }

func checkText(what, text string, limit int, lines bool) error {
	if len(text) > limit {
		return fmt.Errorf("%s has %d bytes, the limit is %d", what, len(text), limit)
	}
	for _, r := range text {
		if lines && (r == '\n' || r == '\t' || r == '\r') {
			continue
		}
		if Acts(r) {
			return fmt.Errorf("%s has the character %U, which a terminal acts on", what, r)
		}
	}
	return nil
}

// Acts reports whether a terminal acts on a character, or a text is no UTF-8 there.
func Acts(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == utf8.RuneError || r == '\u2028' ||
		r == '\u2029'
}

// Check returns what is wrong with who steers a run and why.
func (c *Control) Check() error { return firstOf(CheckBy(c.By), CheckReason(c.Reason)) }

// Check returns what is wrong with who answers and why.
func (a *Answer) Check() error {
	return firstOf(CheckBy(a.By), CheckReason(a.Reason), a.checkAlways(), a.checkDeputy())
}

// Check returns what is wrong with who steers a session and why.
func (c *SessionControl) Check() error { return firstOf(CheckBy(c.By), CheckReason(c.Reason)) }

// Check returns what is wrong with who steers a schedule and why.
func (c *ScheduleControl) Check() error { return firstOf(CheckBy(c.By), CheckReason(c.Reason)) }

// Check returns what is wrong with who steers a work item and why.
func (c *WorkControl) Check() error { return firstOf(CheckBy(c.By), CheckReason(c.Reason)) }

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
