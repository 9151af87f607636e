package agentfile

import (
	"errors"
	"fmt"
	"strings"
)

// Codes of an Error.
const (
	CodeFile      = "file"          // the file cannot be read, is too large or is not text
	CodeFront     = "frontmatter"   // the two lines of dashes are not there
	CodeYAML      = "yaml"          // the frontmatter is not the YAML that is accepted
	CodeUnknown   = "unknown_key"   // a key that no one knows
	CodeMissing   = "missing"       // a key that must be there
	CodeType      = "type"          // a value of another type
	CodeValue     = "value"         // a value that is not permitted
	CodeLimit     = "limit"         // too long, too many, too deep
	CodeDuplicate = "duplicate"     // said twice
	CodeConflict  = "conflict"      // two spellings of one setting differ
	CodeTemplate  = "template"      // the body is not a template that is supported
	CodeVariable  = "variable"      // a variable of the template has no value
	CodeNoEffect  = "no_effect_yet" // Warning: accepted, but the capability does not exist yet
	CodeAlias     = "alias"         // Warning: another spelling of a key
)

// Error is one thing wrong with an agent file, in the shape that all file formats share.
type Error struct {
	Code string `json:"code"`
	// File is the name of the file, for example "fixer.prompt".
	File string `json:"file,omitempty"`
	// Line counts from 1 in the whole file; 0 where the error is not about one line.
	Line int `json:"line,omitempty"`
	// Path of the key as it was written, for example "harness.budget.tool_calls"; empty for the whole file.
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	// Expected and Actual are short and for people; empty where Message says it all.
	Expected string `json:"expected,omitempty"`
	Actual   string `json:"actual,omitempty"`
	// Hint says what to do next.
	Hint string `json:"hint,omitempty"`
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(location(e.File, e.Line, e.Path))
	b.WriteString(e.Message)
	switch {
	case e.Expected != "" && e.Actual != "":
		fmt.Fprintf(&b, " (want %s, got %s)", e.Expected, e.Actual)
	case e.Expected != "":
		fmt.Fprintf(&b, " (want %s)", e.Expected)
	case e.Actual != "":
		fmt.Fprintf(&b, " (got %s)", e.Actual)
	}
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// Faults takes a joined error apart into what is wrong with files and what is not about them.
func Faults(err error) (faults []*Error, other error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // it is taken apart
		for _, one := range joined.Unwrap() {
			more, rest := Faults(one)
			faults, other = append(faults, more...), errors.Join(other, rest)
		}
		return faults, other
	}
	if f, ok := errors.AsType[*Error](err); ok {
		return []*Error{f}, nil
	}
	return nil, err
}

// Warning is something in a sound agent file that its author should know.
type Warning struct {
	Code    string `json:"code"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func (w Warning) String() string {
	s := location(w.File, w.Line, w.Path) + w.Message
	if w.Hint != "" {
		s += "; " + w.Hint
	}
	return s
}

func location(file string, line int, path string) string {
	var b strings.Builder
	switch {
	case file != "" && line > 0:
		fmt.Fprintf(&b, "%s:%d: ", file, line)
	case file != "":
		b.WriteString(file + ": ")
	case line > 0:
		fmt.Fprintf(&b, "line %d: ", line)
	}
	if path != "" {
		b.WriteString(path + ": ")
	}
	return b.String()
}

// shown is a stranger's text made fit for a message: quoted and short.
func shown(s string) string {
	const most = 80
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return fmt.Sprintf("%q", s)
}
