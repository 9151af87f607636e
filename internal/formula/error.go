package formula

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Codes of an Error.
const (
	CodeFile        = "file"        // cannot be read, is too large or is not text
	CodeSyntax      = "syntax"      // not the TOML or YAML that is accepted
	CodeUnknown     = "unknown_key" // a key that no one knows
	CodeUnsupported = "unsupported" // a key or value that no run can carry out yet
	CodeMissing     = "missing"     // something that must be there
	CodeType        = "type"        // a value of another type
	CodeValue       = "value"       // a value that is not permitted
	CodeLimit       = "limit"       // too long, too many, too deep
	CodeDuplicate   = "duplicate"   // the same name twice
	CodeReference   = "reference"   // a name that names nothing
	CodeCycle       = "cycle"       // something that depends on itself
	CodeTemplate    = "template"    // a template that cannot be read
	CodeVariable    = "variable"    // a variable without a value
	CodeDigest      = "digest"      // a file is not the one that was expected
)

// Error is one thing that is wrong, in the shape that all file formats share.
type Error struct {
	Code string `json:"code"`
	File string `json:"file,omitempty"`
	// Line and Column count from 1, the column in bytes; 0 where the error is about the whole file.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Path of the key, for example steps[2].needs[0]; empty for the whole file.
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	// Hint says what to do next.
	Hint string `json:"hint,omitempty"`
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File + ":")
		if e.Line > 0 {
			fmt.Fprintf(&b, "%d:%d:", e.Line, e.Column)
		}
		b.WriteString(" ")
	}
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Message)
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// Faults takes an error of this package apart.
func Faults(err error) []*Error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // it is taken apart
		var all []*Error
		for _, one := range joined.Unwrap() {
			all = append(all, Faults(one)...)
		}
		return all
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return []*Error{e}
	}
	return nil
}

// faults collects what is wrong with a formula, in the order of the files.
type faults struct{ found []*Error }

// What is found while a file is parsed, formulas are composed, the whole is checked, and values are put in.
type (
	reader   struct{ *faults }
	composer struct{ *faults }
	checker  struct{ *faults }
	compiler struct{ *faults }
)

func (f *faults) add(at place, path, code, hint, format string, args ...any) {
	if len(f.found) >= MaxFaults {
		return
	}
	e := &Error{Code: code, Path: path, Message: fmt.Sprintf(format, args...), Hint: hint}
	at.into(e)
	if !slices.ContainsFunc(f.found, func(o *Error) bool { return *o == *e }) {
		f.found = append(f.found, e)
	}
}

// err joins them; nil where there are none.
func (f *faults) err() error {
	var all []error
	for _, e := range f.found {
		all = append(all, e)
	}
	return errors.Join(all...)
}

// shown is a stranger's text made fit for a message: quoted and short.
func shown(s string) string {
	if len(s) > maxShown {
		s = strings.ToValidUTF8(s[:maxShown], "") + "..."
	}
	return fmt.Sprintf("%q", s)
}
