// Package team is the part of the planner that has named agents work together: their mail, the work items that are
// given to them, and the merge queues that their work lands through.
//
// Promises: a message is in a mailbox once, an item is bound to one run at a time, and a queue lands one branch after
// the other. It owns none of them: all it does follows from the logs of addresses, items, queues and runs, so whatever
// one planner leaves undone another one does. An item, an agent and a queue are changed by one append each, and where
// what one of them says is about another the log of that one is asked again.
package team

import (
	"context"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/internal/mergequeue"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/planner/part"
)

// Config holds what the part needs. Each of the three may be nil: the station has none of them then.
type Config struct {
	Names  part.Names
	Agents part.Agents
	Work   *WorkItems
	Mail   *Mailboxes
	Queues *MergeQueues
}

// shared is what mail, work items and merge queues have of the station and of each other; nil for what it has not.
type shared struct {
	names  part.Names
	agents part.Agents
	runs   part.Runs
	work   *Assigner
	mail   *Postmaster
	lander *Lander
}

// Team is the part.
type Team struct {
	*shared
	steps *follower
}

// New checks the configuration.
func New(cfg Config, runs part.Runs) (t *Team, err error) {
	t = &Team{shared: &shared{names: cfg.Names, agents: cfg.Agents, runs: runs}}
	if t.work, err = newAssigner(t.shared, cfg.Work); err != nil {
		return nil, err
	}
	t.steps = newFollower(t.work)
	if t.mail, err = newPostmaster(t.shared, cfg.Mail); err != nil {
		return nil, err
	}
	t.lander, err = newLander(t.shared, cfg.Queues)
	return t, err
}

// Items is what has the work items, Mail the addresses and Queues the merge queues; nil where the station has none.
func (t *Team) Items() *Assigner  { return t.work }
func (t *Team) Mail() *Postmaster { return t.mail }
func (t *Team) Queues() *Lander   { return t.lander }

// Handlers handle what is received of work items, addresses and merge queues.
func (t *Team) Handlers() (all []kernel.Handler) {
	if t.work != nil {
		all = append(all, kernel.Handle(t.work.Ledger, kernel.Role[work.State](t.work)))
	}
	if t.mail != nil {
		all = append(all, kernel.Handle(t.mail.Ledger, kernel.Role[mailbox.State](t.mail)))
	}
	if t.lander != nil {
		all = append(all, kernel.Handle(t.lander.Ledger, kernel.Role[mergequeue.State](t.lander)))
	}
	return all
}

// Continue gives a run of a work item, an agent or a merge queue its plan where whoever created it did not come to
// that.
func (t *Team) Continue(ctx context.Context, s run.State) error {
	if err := t.work.goOn(ctx, s); err != nil {
		return err
	}
	if err := t.mail.goOn(ctx, s); err != nil {
		return err
	}
	return t.lander.goOn(ctx, s)
}

// Ended looks at the item, the queue or the address whose run has ended. ours is false for any other run.
func (t *Team) Ended(ctx context.Context, s run.State) (ours bool, err error) {
	c := s.Created
	if c.Work != nil {
		if err := t.work.ended(ctx, *c.Work, s.HarnessID); err != nil || c.Address == nil {
			return true, err
		}
	}
	switch {
	case c.Landing != nil:
		return true, t.lander.ended(ctx, s)
	case c.Address != nil:
		return true, t.mail.ended(ctx, *c.Address)
	}
	return false, nil
}

// Confirm makes a run that was just created that of its address and of its work item, and ends it where another one is.
func (t *Team) Confirm(ctx context.Context, runID string, c *events.RunCreatedData) error {
	if err := t.mail.confirm(ctx, runID, c.Address); err != nil {
		return err
	}
	// After it: an earlier run of the agent has ended by then.
	return t.work.confirm(ctx, runID, c.Work, c.Address)
}

// Acknowledge records what a turn of the run of an agent was given. deliveries is how often the event was delivered
// that says so.
func (t *Team) Acknowledge(ctx context.Context, s run.State, deliveries uint64) error {
	return t.mail.acknowledge(ctx, s, deliveries)
}

// Requested does what a call of a mail tool asks for, and answers it.
func (t *Team) Requested(ctx context.Context, h runlog.ReceivedEvent) error {
	return mailCalls{t.mail}.requested(ctx, h)
}

// Follow brings the work items of the steps of a run up to its log.
func (t *Team) Follow(ctx context.Context, runID string) error { return t.steps.follow(ctx, runID) }
