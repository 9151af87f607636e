// Package topology is the one table of a station: its streams, buckets, consumers, who receives and who publishes what.
//
// Promises: streams, consumers, NATS permissions, the generated docs and the wiring of the memory journal are all
// made from this table; nothing else in the program spells them. It is plain data and imports only pkg/events.
package topology

import (
	"slices"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Stream names of a station.
func Log(station string) string  { return "LOG_" + station }
func In(station string) string   { return "IN_" + station }
func Dead(station string) string { return "DEAD_" + station }
func Live(station string) string { return "LIVE_" + station }

// Tmr is the stream of one family of timers. Each has its own because whoever may publish into a stream with schedules
// can erase all of it with a header: so a role can erase no timers but its own.
func Tmr(station, family string) string { return "TMR_" + station + "_" + family }

// Buckets shared by the stations of one NATS account; keys begin with the station.
const (
	StateBucket  = "harness-state"
	ConfigBucket = "harness-config"
	LeaseBucket  = "harness-lease"
	FilesBucket  = "harness-files"
	// ArtifactBucket holds what runs made, each run's apart, until its time is over. Unlike FilesBucket no fact needs
	// what is in it to be understood, so it is the one place that a service may take something out of.
	ArtifactBucket = "harness-artifacts"
	// SessionBucket holds who may work in which session, and where its history is. Only planners write it.
	SessionBucket = "harness-sessions"
	// TreeBucket holds who works in which working tree, and where what was kept of it is. Only toolrunners write it.
	TreeBucket = "harness-trees"
)

// ScheduleTimers is the family of the timers of schedules.
const ScheduleTimers = events.ScheduleAggregate + "-fire"

// WorkTimers is the family of the timers of work items.
const WorkTimers = events.WorkAggregate + "-expire"

// AgentTimers is the family of the timers of addresses.
const AgentTimers = events.AgentAggregate + "-wake"

// QueueTimers is the family of the timers of merge queues.
const QueueTimers = events.QueueAggregate + "-land"

// haltInput is where the station is halted and released.
const haltInput = events.HaltAggregate + "." + events.HaltID + ".control"

// budgetInput is where budgets are set and removed.
const budgetInput = events.BudgetAggregate + "." + events.BudgetID + ".control"

// deputyInput is where people name who answers gates in their place.
const deputyInput = events.DeputyAggregate + ".*.control"

// LeaseTerm is how long an instance counts as alive after its last renewal; it renews three times in that time.
const LeaseTerm = 15 * time.Second

// Subscriptions says what one role listens to: kinds of facts, its inputs and its timers.
type Subscriptions struct {
	Role events.Service
	// Facts by kind; All is every fact of every run.
	Events []events.Kind
	All    bool
	// Others are events of other aggregates.
	Others []Interest
	// Inputs are subject patterns below station.{s}. in the IN stream.
	Inputs []string
	// Apart lists those of Inputs that have a consumer of their own, so that they never wait behind the others.
	Apart []string
	// Always lists those of Inputs that have a consumer of their own, which the role also receives from while the station
	// is halted.
	Always []string
	// Timers are the families of timers it sets and receives.
	Timers []string
	// Workers is the default number of messages an instance handles at a time.
	Workers int
}

// AllSubscriptions returns the table of who receives what.
func AllSubscriptions() []Subscriptions { return slices.Clone(subscriptions) }

var subscriptions = []Subscriptions{
	{
		Role: events.Planner,
		Events: []events.Kind{events.RunCreated, events.PlanDeferred, events.PlanAnswered, events.StepFinished,
			events.StepFailed, events.GateRejected, events.GateExpired, events.RunResumed, events.TurnDeferred,
			events.StepAllowed, events.StepBranched, events.CallDelegated, events.StepClaimed, events.CheckPassed,
			events.RunCompleted, events.RunFailed, events.RunPruned, events.MailInjected, events.MailRequested},
		Inputs: []string{"task", "task.*", "run.*.control", "session.*.control",
			"schedule.*.control", "harness.*.control", "work.*.control", "agent.*.control", "mergequeue.*.control", haltInput,
			budgetInput},
		// tasks may wait for their turn; a stop may not wait for them
		Apart: []string{"run.*.control", "session.*.control", "schedule.*.control", "harness.*.control",
			"work.*.control", "agent.*.control", "mergequeue.*.control", budgetInput},
		Always:  []string{haltInput},
		Timers:  []string{"run", ScheduleTimers, WorkTimers, AgentTimers, QueueTimers},
		Workers: 32,
	},
	{
		Role: events.Gatekeeper,
		Events: []events.Kind{events.StepReady, events.TurnFinished, events.CallRequested, events.RunResumed,
			events.CheckPassed},
		Inputs:  []string{"run.*.gate.*", "run.*.gate.*.*", deputyInput},
		Timers:  []string{"gate"},
		Workers: 32,
	},
	{
		Role: events.Executor,
		Events: []events.Kind{events.RunCreated, events.PlanRequested, events.StepAllowed, events.CallFinished,
			events.CallFailed, events.CallRefused, events.RunResumed, events.CheckPassed, events.CheckFailed,
			events.ChildFinished, events.RunFunded},
		Timers:  []string{"turn"},
		Workers: 64,
	},
	{
		Role: events.Toolrunner,
		Events: []events.Kind{events.CallAllowed, events.GateOpened, events.StepClaimed, events.GateApproved,
			events.GateRejected, events.GateExpired, events.ChildSpawned, events.ChildFinished, events.MailAnswered},
		Inputs:  []string{"session.*.sweep"},
		Timers:  []string{"call"},
		Workers: 32,
	},
	{
		Role:    events.Persister,
		All:     true,
		Workers: 1024,
	},
}

// SubscriptionsOf returns the row of a role.
func SubscriptionsOf(role events.Service) Subscriptions {
	for _, h := range subscriptions {
		if h.Role == role {
			return h
		}
	}
	panic("unknown role " + string(role)) // a broken table, never input
}

// PublishesEvents returns the kinds of facts of runs that a role may say, in the order of the vocabulary.
func PublishesEvents(role events.Service) []events.Kind {
	var kinds []events.Kind
	for _, w := range events.Registry() {
		if w.Author == role {
			kinds = append(kinds, w.Kind)
		}
	}
	return kinds
}
