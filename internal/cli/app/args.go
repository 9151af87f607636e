package app

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/didyoumean"
)

// UnknownCommand names the command that may have been meant.
func UnknownCommand(cmd *cobra.Command, got string) error {
	var known []string
	for _, c := range cmd.Commands() {
		known = append(known, c.Name())
	}
	if near := didyoumean.Word(got, known); near != "" {
		return Usage("there is no command %q; did you mean %q? %s --help lists all", got, near, cmd.CommandPath())
	}
	return Usage("there is no command %q; %s --help lists all", got, cmd.CommandPath())
}

// Args checks the number of arguments, and names those that are wanted.
func Args(n int) cobra.PositionalArgs { return ArgsBetween(n, n) }

// ArgsBetween is Args where some may be left out.
func ArgsBetween(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && len(args) <= most {
			return nil
		}
		want := fmt.Sprint(most)
		if least < most {
			want = fmt.Sprintf("%d to %d", least, most)
		}
		return Usage("%s: %d given, want %s: %s", cmd.CommandPath(), len(args), want, cmd.UseLine())
	}
}

// Group is the RunE of a command that only has commands below it.
func Group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return UnknownCommand(cmd, args[0])
}
