package harness

import (
	"context"

	"github.com/inspan/inspan/pkg/events"
)

// Task is what Dispatch hands to an agent of a station. Its id is derived and must be left empty.
type Task = events.Task

// TaskResult is how the run of a task ended.
type TaskResult struct {
	// Run is its id, with which the station shows it.
	Run string `json:"run"`
	// Success is false where it failed; Reason says why it ended.
	Success bool   `json:"success"`
	Output  string `json:"output"`
	Reason  string `json:"reason,omitempty"`
}

// Agents carries out tasks: the agents of a station, or what a test puts in their place. The same task id twice is one
// run.
type Agents interface {
	// RunTask returns when the run of a task has ended. An error means that it is not known how.
	RunTask(ctx context.Context, t Task) (TaskResult, error)
}

// TaskPrefix begins the ids of the runs that harnesses dispatch.
const TaskPrefix = "sdk-"

// Dispatch has an agent of the station carry out a task, and waits for its end. The id of its run is derived from the
// harness, the step and the place in it: after a restart the run that was begun is waited for, and none is begun twice.
// A run that failed is no error: see TaskResult.Success.
func (x *Execution[S, I, O]) Dispatch(ctx context.Context, t Task) (TaskResult, error) {
	if x.journal.agents == nil {
		return TaskResult{}, x.fail(ErrNoAgents)
	}
	return Do(ctx, x, Effect[TaskResult]{Name: "dispatch " + t.Agent, Class: Idempotent,
		Do: func(ctx context.Context, c Call) (TaskResult, error) {
			t.ID = TaskPrefix + c.Key
			r, err := x.journal.agents.RunTask(ctx, t)
			return r, err
		}})
}
