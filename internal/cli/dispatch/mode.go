package dispatch

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/pkg/events"
)

// modeFlags say how a run works while no one watches.
type modeFlags struct {
	mode   string
	every  time.Duration
	phases []string
}

// add defines the flags.
func (f *modeFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.mode, "mode", "",
		"normal, dream (a checkpoint at each interval and a report) or overnight (the same for --phase); docs/dream.md")
	cmd.Flags().DurationVar(&f.every, "checkpoint-interval", 0,
		"with --mode: how far apart checkpoints are (default 5m at --autonomy 3)")
	cmd.Flags().StringArrayVar(&f.phases, "phase", nil,
		"with --mode: NAME[=AGENT][: COMMAND], a part of the run that the command decides about; may be repeated")
}

// set puts the mode into a task, whose text is known.
func (f *modeFlags) set(t *events.Task) error {
	if f.mode == "" || f.mode == string(events.ModeNormal) {
		if f.every != 0 || len(f.phases) > 0 {
			return app.Usage("--phase and --checkpoint-interval go with --mode dream or overnight")
		}
		return nil
	}
	if len(f.phases) > 0 && t.Plan != nil {
		return app.Usage("--plan and --phase both say what the steps are: leave one of them out")
	}
	t.Mode = events.RunMode(f.mode)
	if f.every != 0 {
		ms := f.every.Milliseconds()
		t.CheckpointIntervalMS = &ms
	}
	var phases []events.Phase
	for _, text := range f.phases {
		phases = append(phases, app.Phase(text))
	}
	if err := events.CheckPhases(phases); err != nil {
		return app.Usage("--phase: %w", err)
	}
	if t.Plan == nil {
		t.Plan = events.PhasePlan(t.Task, phases)
	}
	if t.Mode == events.ModeOvernight && t.Plan == nil {
		return app.Usage(`--mode overnight needs phases, such as --phase "build=coder: make test"`)
	}
	return nil
}
