package dispatch

import (
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/pkg/events"
	"github.com/spf13/cobra"
)

// acceptFlags say what decides that a run is done.
type acceptFlags struct{ accept, expect, protect []string }

// add defines the flags.
func (f *acceptFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.accept, "accept", nil,
		"command that decides that the run is done: it must exit with 0 on a copy of the files; may be repeated")
	cmd.Flags().StringArrayVar(&f.expect, "expect", nil,
		"text, such as '--- PASS: TestParse', that the output of the command of --accept must have; may be repeated")
	cmd.Flags().StringArrayVar(&f.protect, "protect", nil,
		"files, such as '**/*_test.go', that --accept finds as they were when the run began; may be repeated")
}

// set puts the checks into a task.
func (f *acceptFlags) set(t *events.Task) error {
	if len(f.expect) > 0 && len(f.accept) != 1 {
		return app.Usage("--expect goes with one --accept: it says what the output of that command must have")
	}
	if len(f.accept) == 0 {
		if len(f.protect) > 0 {
			return app.Usage("--protect goes with --accept: it says which files the commands find as they were")
		}
		return nil
	}
	t.Accept = &events.Accept{Protect: f.protect}
	for _, command := range f.accept {
		t.Accept.Checks = append(t.Accept.Checks, events.Check{Kind: events.CheckCommand, Run: command,
			Expect: f.expect})
	}
	if fault := t.Accept.Fault(); fault != "" {
		return app.Usage("--accept: %s", fault)
	}
	return nil
}
