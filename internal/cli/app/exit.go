package app

import (
	"errors"
	"fmt"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// Exit codes.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitPaused      = 3
	ExitRefused     = 4
	ExitUnknown     = 5
	ExitInterrupted = 130
)

// exitError is an error that carries its own exit code; a nil cause is printed as nothing.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// Exit is an error that ends the program with a code; err may be nil.
func Exit(code int, err error) error { return &exitError{code, err} }

// Usage is an error of the command line.
func Usage(format string, args ...any) error { return Exit(ExitUsage, fmt.Errorf(format, args...)) }

// Hint is what follows an error about something that is not there: where its names are listed.
func Hint(err error) string {
	missing, ok := errors.AsType[*client.NotFoundError](err)
	switch {
	case !ok:
	case missing.What == "run":
		return "; inspan runs lists those of the station"
	case missing.What == "artifact":
		return "; inspan artifacts list RUN lists those of a run, by id and path"
	}
	return ""
}

// Code is the exit code of an error.
func Code(err error) int {
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	if errors.Is(err, ErrWaits) {
		return ExitPaused
	}
	if _, ok := errors.AsType[*client.RefusedError](err); ok {
		return ExitRefused
	}
	if _, ok := errors.AsType[*events.IDError](err); ok {
		return ExitUsage
	}
	if errors.Is(err, client.ErrForeign) {
		return ExitRefused
	}
	if errors.Is(err, client.ErrNotFound) {
		return ExitUnknown
	}
	return ExitFailed
}

// ErrWaits means that a run waits for a person and this command cannot ask one.
var ErrWaits = errors.New("the run waits for a person")

// NoRun is the error of a run that the station does not have.
func NoRun(id string) error {
	return &client.NotFoundError{What: "run", ID: id}
}
