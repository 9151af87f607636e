package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// Forms of what a command prints. FormJSON and FormYAML are data, the others tables.
const (
	FormJSON = "json"
	FormYAML = "yaml"
	// FormWide has more columns and cuts no line, FormName is one name a line.
	FormWide = "wide"
	FormName = "name"
)

// Forms are all of them.
func Forms() []string { return []string{FormJSON, FormYAML, FormWide, FormName} }

// lists are the commands that print a table of things with names, streams those that print JSON line by line.
var (
	lists = []string{"runs", "gates", "agents", "session list", "artifacts list", "checkpoints", "branches list",
		"dead list",
		"grants", "context list", "stations list", "stations route"}
	streams = []string{"run", "watch", "logs", "repl", "up", "demo", "export", "top"}
)

// CheckForm takes -o and --json together, and refuses a form that the command does not have.
func (o *Printer) CheckForm(cmd *cobra.Command) error {
	path := strings.TrimPrefix(cmd.CommandPath(), "inspan ")
	switch {
	case o.Form != "" && !slices.Contains(Forms(), o.Form):
		return Usage("-o %q: %s", o.Form, didyoumean.Hint(o.Form, Forms(), "want one of "+strings.Join(Forms(), ", ")))
	case o.JSON && o.Form != "" && o.Form != FormJSON:
		return Usage("--json is -o json, and -o %s is another form: leave one of them out", o.Form)
	case (o.Form == FormWide || o.Form == FormName) && !slices.Contains(lists, path):
		return Usage("-o %s is for lists: inspan %s", o.Form, strings.Join(lists, ", inspan "))
	case o.Form == FormYAML && slices.Contains(streams, path):
		return Usage("-o yaml: inspan %s prints JSON line by line (-o json), or text", path)
	}
	o.JSON = o.JSON || o.Form == FormJSON || o.Form == FormYAML
	return nil
}

// Note prints a sentence beside a table, which a list of names does not have.
func (o *Printer) Note(format string, args ...any) {
	if o.Form != FormName {
		fmt.Fprintf(o.Out, format+"\n", args...)
	}
}

// Failure is an error as programs read it: {"error": ...} in one line of standard error.
type Failure struct {
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Code is stable: that of a refusal of the station, else a word for the exit code.
	Code string `json:"code"`
	Exit int    `json:"exit"`
}

var exitWords = map[int]string{ExitFailed: "failed", ExitUsage: "usage", ExitPaused: "waits", ExitRefused: "refused",
	ExitUnknown: "not_found", ExitInterrupted: "interrupted"}

// FailureOf takes an error apart.
func FailureOf(err error) Failure {
	f := Failure{Message: terminal.Sanitize(err.Error()), Hint: strings.TrimPrefix(Hint(err), "; "), Exit: Code(err)}
	f.Code = exitWords[f.Exit]
	if r, ok := errors.AsType[*client.RefusedError](err); ok {
		f.Code, f.Hint = r.Code, r.Hint
		f.Message = strings.TrimSuffix(f.Message, "; "+terminal.Sanitize(r.Hint))
	}
	return f
}

// Line is the failure as one line.
func (f Failure) Line() string {
	b, err := json.Marshal(map[string]Failure{"error": f})
	if err != nil {
		return f.Message // text and numbers are always encoded
	}
	return string(events.Plain(b))
}
