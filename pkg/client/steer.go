package client

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// TaskType and Source are the CloudEvents type and source of a task that this package publishes.
const (
	TaskType = events.TaskType
	Source   = "/inspan/client"
)

// Dispatch publishes a task as a CloudEvent and returns its run's id once the task is stored. The run itself may still
// be refused: Start tells. A task with an id that is published again starts nothing new.
func (c *Client) Dispatch(ctx context.Context, t events.Task) (runID string, err error) {
	if t.ID == "" {
		t.ID = NewID()
	}
	_, err = publisher{c}.dispatch(ctx, t)
	return t.ID, err
}

// dispatch publishes a task that has an id, and returns its position in the input stream.
func (p publisher) dispatch(ctx context.Context, t events.Task) (input uint64, err error) {
	if err := events.CheckID("task", t.ID); err != nil {
		return 0, err
	}
	if n := len(t.Task); n > events.MaxTask { // one that is larger still would only be called too large by the server
		return 0, &RefusedError{Code: "bad_input", Reason: fmt.Sprintf("the task has %d bytes, the limit is %d", n,
			events.MaxTask), Hint: "put it into a file of the workspace, and name the file"}
	}
	body, err := json.Marshal(map[string]any{"specversion": "1.0", "id": t.ID, "source": Source, "type": TaskType,
		"time": time.Now().UTC(), "datacontenttype": "application/json", "data": t})
	if err != nil {
		return 0, fmt.Errorf("encode the task: %w", err)
	}
	subject := events.TaskSubject(p.c.st.Name())
	if t.Project != "" {
		if err := events.CheckID("project", t.Project); err != nil {
			return 0, err
		}
		subject += "." + t.Project
	}
	return p.publish(ctx, subject, body, t.ID)
}

// Start is Dispatch that waits until the run exists. It returns a *RefusedError, or a *SilentError with the run's id
// where ctx ended first.
func (c *Client) Start(ctx context.Context, t events.Task) (runID string, err error) {
	if t.ID == "" {
		t.ID = NewID()
	}
	p := publisher{c}
	letters, err := p.refusals(t.ID)
	if err != nil {
		return "", err
	}
	defer letters.stop()
	if letters.input, err = p.dispatch(ctx, t); err != nil {
		return "", err
	}
	_, err = p.await(ctx, t.ID, letters, func(s run.State) bool { return s.Sequence > 0 })
	return t.ID, err
}

// Control steers a run and returns its state with that recorded. It returns a *RefusedError for a move that the run
// cannot make, and ErrNotFound for a run that does not exist.
func (c *Client) Control(ctx context.Context, runID string, ctl events.Control) (run.State, error) {
	if _, err := c.State(ctx, runID); err != nil {
		return run.State{}, err
	}
	return publisher{c}.steer(ctx, runID, events.ControlSubject(c.st.Name(), runID), ctl,
		func(s run.State, input uint64) bool {
			switch {
			case s.Took(input):
				return true
			case ctl.Action == "stop": // where all steps were done it completes, by itself
				return s.Status == events.Completed
			}
			return ctl.Action == "autonomy" && s.Options.Autonomy == ctl.Level // the level in force is not said again
		})
}
