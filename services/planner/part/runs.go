// Package part is what the parts of the planner share: one has the schedules, one the budgets, one the sessions, one
// named agents with their mail and work, and one the runs. A part owns no run: it asks for one through Runs.
//
// Promises: a part keeps nothing that is not in a log. Each change is one guarded append, made only on what it was
// decided on, and a row that people read shows the log before the message that led to it is acknowledged. An id that a
// part gives follows from what it is of, so that whoever does the work again does it for the same id.
package part

import (
	"context"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/pkg/run"
)

// Runs is what the parts of the planner ask of the one that has the runs.
type Runs interface {
	// Open opens the run of a task, or goes on with an opening that somebody did not finish.
	Open(ctx context.Context, m kernel.Message, t events.Task, env ce.Envelope, from Origin) error
	// Openable returns the *kernel.Refusal of a task that Open would refuse for what it asks for.
	Openable(ctx context.Context, t events.Task) error
	// State is what is known here of a run, Fresh what the leader has. The zero State is of one that does not exist.
	State(ctx context.Context, id string) (run.State, error)
	Fresh(ctx context.Context, id string) (run.State, error)
	// Write appends to the log of a run what is decided on its state, after the hooks at its end were asked. Change
	// does what follows from it, too: the plan goes on, and its children follow.
	Write(ctx context.Context, id string, decide runlog.Decide) (runlog.Written, error)
	Change(ctx context.Context, id string, decide runlog.Decide) (runlog.Written, error)
	// Agent returns a definition, or a *kernel.Refusal that names those that there are.
	Agent(ctx context.Context, name string) (events.Agent, error)
}

// Agents finds agent definitions.
type Agents interface {
	// Agent returns kernel.ErrNotFound where there is none of that name.
	Agent(ctx context.Context, name string) (events.Agent, error)
	Names(ctx context.Context) ([]string, error)
}

// Origin is what of the station dispatches a task; nothing for one of a user.
type Origin struct {
	Firing  *events.FiringRef
	Work    *events.WorkRef
	Address *events.AddressRef
	Landing *events.LandingRef
	// Subject and Review are of the work that the run does in git.
	Subject string
	Review  *events.ReviewAsk
}

// BornAgain is how soon a run that has not started is looked at again.
const BornAgain = 5 * time.Second

// BudgetTimer is the timer of a run that waits for a budget: its next month begins.
const BudgetTimer = "budget"

// Unplanned reports whether a run should have its plan by now and has none: whoever created it did not come to that.
func Unplanned(s run.State) bool {
	return s.Created != nil && s.Plan == nil && !s.Status.Ended() && time.Since(s.CreatedAt) >= BornAgain
}

// Dispatch is the message that a dispatch of the station stands for: it is not published, because whoever might publish
// it could not be told from an outsider.
type Dispatch struct {
	Station string
	At      time.Time
	// Tries is how often whatever led to it was delivered.
	Tries uint64
}

var _ kernel.Message = Dispatch{}

// Subject implements kernel.Message, as do the methods that follow.
func (d Dispatch) Subject() string         { return events.TaskSubject(d.Station) }
func (Dispatch) Data() []byte              { return nil }
func (Dispatch) Header(string) string      { return "" }
func (Dispatch) Seq() uint64               { return 0 }
func (d Dispatch) Time() time.Time         { return d.At }
func (d Dispatch) Deliveries() uint64      { return d.Tries }
func (Dispatch) Ack(context.Context) error { return nil }
func (Dispatch) Nak(time.Duration) error   { return nil }
func (Dispatch) Working() error            { return nil }
