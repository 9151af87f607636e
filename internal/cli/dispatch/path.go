package dispatch

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/pkg/events"
)

// pathFlags say which path the run of a task takes.
type pathFlags struct {
	long     *bool
	estimate string
}

func (f *pathFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolFunc("long-running", "the run needs all of the harness: plan, checkpoints, snapshots; =false lets it take the direct path; the agent and --estimate say, if not given", func(word string) error {
		long, err := strconv.ParseBool(word)
		f.long = &long
		return err
	})
	fl.StringVar(&f.estimate, "estimate", "",
		"how long the work may take, for example 20m; what takes long is wrapped in the harness")
}

// path puts them into a task.
func (f *pathFlags) path(task *events.Task) error {
	if f.long != nil {
		task.LongRunning = f.long
	}
	if task.Estimate = f.estimate; f.estimate == "" {
		return nil
	}
	if d, err := time.ParseDuration(f.estimate); err != nil || d <= 0 {
		return app.Usage("--estimate %q: want a duration above zero, such as 20m", f.estimate)
	}
	return nil
}

// enabled is what --harness-config says of the harness itself, for one run.
func enabled(task *events.Task, word string) error {
	on, err := strconv.ParseBool(word)
	if err != nil {
		return fmt.Errorf("enabled: %w", err)
	}
	task.LongRunning = &on
	return nil
}
