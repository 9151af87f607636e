package run

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// FoldError says which event does not fit, and why. The run is then held: nothing is guessed (SAFE-2).
type FoldError struct {
	Run      string
	Sequence uint64
	Kind     events.Kind
	Fault    string
	Err      error
}

func (e *FoldError) Error() string {
	s := fmt.Sprintf("run %s, event %d (%s): %s", e.Run, e.Sequence, e.Kind, e.Fault)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause, for example events.ErrDamaged.
func (e *FoldError) Unwrap() error { return e.Err }

// HashOf returns the hash that the next event must carry: lower-case hex SHA-256 of the exact stored bytes.
func HashOf(stored []byte) string { return events.HashOf(stored) }

// Fold applies stored events in order to an earlier state (the zero State for none).
func Fold(s State, stored ...[]byte) (State, error) {
	for _, b := range stored {
		next, err := s.Apply(b)
		if err != nil {
			return State{}, err
		}
		s = next
	}
	return s, nil
}

// Apply returns the state after one stored event.
func (s State) Apply(stored []byte) (State, error) {
	f, p, err := events.Read(stored)
	if err != nil {
		return State{}, &FoldError{Run: s.HarnessID, Sequence: s.Sequence + 1, Fault: "cannot be read", Err: err}
	}
	return s.ApplyEvent(f, p, HashOf(stored))
}

// ApplyEvent is Apply for an event that is already decoded; hash is HashOf its stored bytes.
func (s State) ApplyEvent(f events.Event, p events.Payload, hash string) (State, error) {
	kind := p.Kind()
	if fault := s.chainFault(f, kind); fault != "" {
		return State{}, &FoldError{Run: f.Run, Sequence: f.Sequence, Kind: kind, Fault: fault}
	}
	next := s
	if fault := next.fold(f, p); fault != "" {
		return State{}, &FoldError{Run: f.Run, Sequence: f.Sequence, Kind: kind, Fault: fault}
	}
	next.tick(&s, f.Time)
	next.Sequence, next.Hash, next.UpdatedAt = f.Sequence, hash, f.Time
	return next, nil
}

func (s *State) chainFault(f events.Event, kind events.Kind) string {
	word, _ := events.Lookup(kind)
	last, hash := s.Sequence, s.Hash
	if last == 0 && kind == events.RunPruned { // it stands for all that came before it
		last, hash = f.Sequence-1, f.PrevHash
	}
	switch {
	case f.Sequence != last+1:
		return fmt.Sprintf("sequence %d does not follow %d: an event is missing or repeated", f.Sequence, last)
	case f.PrevHash != hash:
		return "prevhash is not the hash of the event before: the log was changed"
	case s.Sequence > 0 && (f.Run != s.HarnessID || f.Station != s.Identity.Station && kind != events.RunMoved):
		return "belongs to another run"
	case f.Author() != word.Author:
		return fmt.Sprintf("said by %q, only %s may say it", f.Author(), word.Author)
	case s.Status.Ended():
		return fmt.Sprintf("comes after the end of the run (%s)", s.Status)
	case s.Sequence == 0 && kind != events.RunCreated && kind != events.RunPruned:
		return "a run begins with run.created"
	case s.Sequence > 0 && (kind == events.RunCreated || kind == events.RunPruned):
		return "the run exists already"
	}
	return ""
}

// fold folds one payload by the rule of its event type, and returns what is wrong with it, or "".
func (s *State) fold(f events.Event, p events.Payload) string {
	fold, ok := rules[p.Kind()]
	if !ok {
		return "no rule to fold it"
	}
	return fold(s, f, p)
}

// runRules fold the events about a run as a whole.
var runRules = []rule{
	on((*State).create),
	on(func(s *State, _ events.Event, d *events.RunForkedData) string { return s.forked(d) }),
	on(func(s *State, f events.Event, d *events.RunStartedData) string {
		s.StartedAt, s.ForkStart = &f.Time, "" // a fork that never became whole can start, but only to end
		s.Cancelled = d.Cancelled
		s.hold(d.Hooks)
		return s.move(events.Created, events.Running)
	}),
	on(func(s *State, _ events.Event, d *events.RunPausedData) string {
		s.PauseReason, s.Held = d.Reason, nil
		s.StopPassed = s.StopPassed || len(d.Hooks) > 0
		s.Clock.Paused, s.PausedByParent = d.ClockStopped, d.Parent
		if d.Funds != nil {
			s.Options.Funds = d.Funds
		}
		s.took(d.Input)
		return s.move(events.Running, events.Paused)
	}),
	on(func(s *State, f events.Event, d *events.RunResumedData) string {
		if s.Stopping != nil {
			return "the run is stopping and cannot go on"
		}
		s.funded(d.Funds, f.Sequence)
		s.PauseReason, s.ResumedAt, s.Clock.Paused, s.PausedByParent = "", f.Sequence, false, false
		s.took(d.Input)
		return s.move(events.Paused, events.Running)
	}),
	on(func(s *State, f events.Event, d *events.RunFundedData) string {
		s.funded(&d.Funds, f.Sequence)
		return ""
	}),
	on(func(s *State, _ events.Event, d *events.RunAdjustedData) string {
		s.Options.Autonomy = d.Autonomy
		s.took(d.Input)
		return ""
	}),
	on((*State).moved),
	on((*State).pruned),
	on(func(s *State, f events.Event, d *events.RunCompletedData) string {
		return s.end(d.Result, events.Completed, f.Time)
	}),
	on(func(s *State, f events.Event, d *events.RunFailedData) string {
		return s.end(d.Result, events.Failed, f.Time)
	}),
}

// planRules fold the events about a plan.
var planRules = []rule{
	on(func(s *State, f events.Event, d *events.PlanMadeData) string {
		if s.Torn() {
			return "the state that the run begins with is not whole"
		}
		return s.planMade(d, f.Time)
	}),
	on(func(s *State, f events.Event, d *events.PlanRevisedData) string {
		return s.planRevised(d, f.Time, f.Sequence)
	}),
	on(func(s *State, _ events.Event, _ *events.PlanCompletedData) string {
		if done, total := s.StepsCompleted(); total == 0 || done < total {
			return "steps of the plan are not complete"
		}
		s.PlanDone = true
		return ""
	}),
}

func (s *State) create(f events.Event, d *events.RunCreatedData) string {
	if d.Agent == "" {
		return "it names no agent"
	}
	s.SchemaVersion, s.HarnessID, s.AgentName, s.TaskID = SchemaVersion, f.Run, d.Agent, d.TaskID
	s.Status, s.CreatedAt, s.Identity = events.Created, f.Time, f.Identity
	s.Agents, s.Options, s.Prices = d.Agents, d.Options, d.Prices
	s.SubAgentIDs, s.SubAgentResults = []string{}, map[string]string{}
	created := *d
	created.Agents, created.Prices = nil, nil // held in s.Agents and s.Prices, which plan.made may extend
	s.Created = &created
	if d.Direct {
		return s.direct(f, d)
	}
	return ""
}

func (s *State) move(from, to events.Status) string {
	if s.Status != from {
		return fmt.Sprintf("the run is %s and cannot become %s", s.Status, to)
	}
	s.Status = to
	return ""
}

// moved makes the run one of the station that the event is of. Positions of inputs are those of the station it came
// from and mean nothing here; neither do its idempotency keys, unless they are the same.
func (s *State) moved(f events.Event, d *events.RunMovedData) string {
	if d.FromStation != s.Identity.Station || d.Covered != s.Sequence {
		return fmt.Sprintf("it moves event %d of station %s, but the run is at event %d of station %s", d.Covered,
			d.FromStation, s.Sequence, s.Identity.Station)
	}
	s.Identity, s.Inputs = f.Identity, nil
	s.Gates = slices.Clone(s.Gates)
	for i, g := range s.Gates {
		next := *g
		next.Votes = slices.Clone(g.Votes)
		for v := range next.Votes {
			next.Votes[v].Input = 0
		}
		next.Input, s.Gates[i] = 0, &next
	}
	s.Children = slices.Clone(s.Children)
	for i, c := range s.Children {
		next := *c
		next.Moved = next.Moved || c.Lives()
		s.Children[i] = &next
	}
	for id, c := range s.Open {
		if c.Phase == CallStarted && c.Effect == "idempotent" && !d.SameKey {
			next := *c
			next.Effect = "once"
			s.setOpen(id, &next)
		}
	}
	return ""
}

// took remembers the message from outside that an event came from.
func (s *State) took(input uint64) {
	if input == 0 {
		return
	}
	from := max(0, len(s.Inputs)+1-MaxInputs)
	s.Inputs = append(append([]uint64(nil), s.Inputs[from:]...), input)
}

func (s *State) end(r events.Result, to events.Status, at time.Time) string {
	if s.Status != events.Running && (s.Status != events.Paused || to != events.Failed) {
		return fmt.Sprintf("the run is %s and cannot become %s", s.Status, to)
	}
	if fault := s.endFault(r); fault != "" {
		return fault
	}
	s.Status, s.Result, s.EndedAt = to, &r, &at
	s.took(r.Input)
	s.Open, s.CallsHeld, s.Held, s.Planning, s.Clock.Paused = nil, 0, nil, nil, false
	return ""
}

func (s *State) planMade(d *events.PlanMadeData, at time.Time) string {
	if s.Plan != nil {
		return "the run has a plan already"
	}
	p := &Plan{TaskID: d.TaskID, CreatedAt: at, Origin: d.Origin, Vars: d.Vars, Steps: make([]*Step, len(d.Steps))}
	ids := make(map[string]bool, len(d.Steps))
	for i, st := range d.Steps {
		if ids[st.ID] {
			return fmt.Sprintf("the plan has two steps %s", st.ID)
		}
		ids[st.ID] = true
		fault := s.kindFault(st)
		if fault == "" {
			fault = flowFault(st)
		}
		if fault != "" {
			return fault
		}
		p.Steps[i] = stepOf(st)
	}
	if len(d.Agents) > 0 {
		all := maps.Clone(s.Agents)
		maps.Copy(all, d.Agents)
		s.Agents = all
	}
	s.Plan, s.Planning = p, nil
	s.pinPrices(d.Prices)
	s.lose(d.Lost)
	s.spend(d.ModelRef, s.AgentName, d.InputTokens, d.OutputTokens, 0, d.Cost)
	return ""
}

func stepOf(st events.PlanStep) *Step {
	next := &Step{ID: st.ID, Description: st.Description, AssignedAgent: st.Agent, Kind: st.Kind,
		Dependencies: st.Dependencies,
		Critical:     st.Critical, Git: st.Git, Accept: st.Accept, Status: events.StepIsPending,
		StepCourse: StepCourse{Flow: st.Flow}}
	next.place(st.Child)
	return next
}

// step replaces one step of the plan by a changed copy, if it has the status it must have.
func (s *State) step(id string, want events.StepStatus, change func(*Step)) string {
	if s.Plan == nil {
		return "the run has no plan"
	}
	for i, st := range s.Plan.Steps {
		if st.ID != id {
			continue
		}
		if st.Status != want {
			return fmt.Sprintf("step %s is %s, not %s", id, st.Status, want)
		}
		next, plan := *st, *s.Plan
		change(&next)
		plan.Steps = append([]*Step(nil), plan.Steps...)
		plan.Steps[i] = &next
		s.Plan = &plan
		return ""
	}
	return fmt.Sprintf("step %s is not in the plan", id)
}

func (s *State) stepEnded(id string, change func(*Step)) string {
	fault := s.step(id, events.StepIsRunning, func(st *Step) {
		change(st)
		st.Owed, st.Final, st.Attempt, st.NotBefore, st.Passed, st.TooLong = 0, false, 0, time.Time{}, false, 0
		st.Outage = nil
	})
	if fault != "" {
		return fault
	}
	s.dropOpen(id)
	blockDependents(s.Plan)
	s.CurrentStepIndex = firstIncomplete(s.Plan)
	return ""
}

// hold remembers the first answer of a hook that the run has to follow.
func (s *State) hold(answers []events.HookAnswer) {
	if a, ok := events.Decisive(answers); ok && s.Held == nil {
		s.Held = &Held{HookAnswer: a}
	}
}

// deferred folds a turn that is taken later: after a wait, or, where a hook interrupted it, once the run is resumed.
func (s *State) deferred(d *events.TurnDeferredData, f events.Event) string {
	s.lose(d.Lost)
	_, own := events.Decisive(d.Hooks)
	if d.Class == events.ClassInterrupted {
		s.hold(d.Hooks)
		if s.Held != nil {
			told := *s.Held
			told.Told, s.Held = true, &told
		}
	}
	return s.step(d.Step, events.StepIsRunning, func(st *Step) {
		st.Attempt, st.NotBefore, st.Passed = d.Attempt, d.NotBefore, st.Passed || own
		st.Outage = s.failed(st.Outage, d.Outage, d.Class, d.Error, f)
		if d.Class == events.ClassTooLong {
			st.TooLong++
			s.narrow(st.AssignedAgent, d.Window)
		}
	})
}

// narrow remembers that the model of an agent has a smaller context window.
func (s *State) narrow(agent string, window int) {
	model := s.Agents[agent].Model
	if known := s.Windows[model]; window <= 0 || model == "" || known > 0 && known <= window {
		return
	}
	windows := maps.Clone(s.Windows)
	if windows == nil {
		windows = map[string]int{}
	}
	windows[model] = window
	s.Windows = windows
}

// dropOpen forgets the open calls of a step that ended: their results no longer count.
func (s *State) dropOpen(step string) {
	for id, c := range s.Open {
		if c.Step != step {
			continue
		}
		if c.Phase != CallRequested && !s.Harness(step) {
			s.CallsHeld--
		}
		s.setOpen(id, nil)
	}
}

// blockDependents marks every pending or ready step that depends, directly or not, on a failed one (PLAN-6). What a run
// delivers waits for the end of other steps and not for their success: it is blocked where nothing was checked out. The
// plan was copied by the caller.
func blockDependents(p *Plan) {
	bad := map[string]bool{}
	for _, st := range p.Steps {
		bad[st.ID] = st.Status == events.StepIsFailed && !st.Spared() || st.Status == events.StepIsBlocked
	}
	for changed := true; changed; {
		changed = false
		for i, st := range p.Steps {
			if bad[st.ID] || st.Ended() || st.Status == events.StepIsRunning || st.Flow != nil && st.Flow.Always {
				continue
			}
			for _, dep := range st.Dependencies {
				if bad[dep] && (st.Kind != events.StepDeliver || dep == events.CheckoutStep) {
					next := *st
					next.Status = events.StepIsBlocked
					p.Steps[i], bad[st.ID], changed = &next, true, true
					break
				}
			}
		}
	}
}

func firstIncomplete(p *Plan) int {
	for i, st := range p.Steps {
		if !st.Done() {
			return i
		}
	}
	return len(p.Steps)
}
