package loop

import (
	"fmt"

	"github.com/inspan/inspan/pkg/events"
)

// String says what was found.
func (c Circle) String() string {
	switch c.Kind {
	case SameCall:
		return fmt.Sprintf("the same call of %s was requested %d times in a row", c.Tools, c.Times)
	case Cycle:
		return fmt.Sprintf("the same calls of %s alternated for %d turns", c.Tools, c.Turns)
	case SameResult:
		return fmt.Sprintf("%s was called %d times in a row with the same result and arguments that differ only by numbers, times or names made up", c.Tools, c.Times)
	case SameError:
		return fmt.Sprintf("%s failed %d times in a row with the same error", c.Tools, c.Times)
	}
	return ""
}

// Note is the word that is put into the conversation after the last turn of a circle, "" where none is.
func (c Circle) Note() string {
	if c.Grade != Nudge {
		return ""
	}
	said := "A note from the harness, not from the user: " + c.String() + ". "
	switch c.action {
	case events.DoomSummarize:
		return said + "Stop here: answer now without calling a tool, and sum up what you found out, what is done and what is missing. If you go on like this, the step ends."
	case events.DoomWarn:
		return said + "Going on like this changes nothing. Try other input or another tool, or finish with what you have."
	case events.DoomFail:
		return said + "Going on like this changes nothing, and ends the step. Try other input or another tool, or finish with what you have."
	}
	return said + "Going on like this changes nothing: a person is asked first, and then the step ends. Try other input or another tool, or finish with what you have."
}
