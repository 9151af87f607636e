// Package gatekeeper is the role that permits: steps by the autonomy level, calls by the allowed set, the guard rules
// and the budget, and both through people where a gate stands.
//
// Promises: closed by default; no verdict, no call. The first valid answer to a gate in log order wins. It holds no
// worker and no memory while a gate waits.
package gatekeeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/core/gate"
	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/internal/hooks"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/session"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/services/gatekeeper/actions"
	"github.com/inspan/inspan/services/gatekeeper/answers"
	"github.com/inspan/inspan/services/gatekeeper/deputies"
)

// Config holds what the role needs.
type Config struct {
	Ledger *runlog.Ledger
	Timers kernel.Timers
	Blobs  kernel.Blobs
	// Sessions are the logs of the station's sessions, where their standing grants are; nil keeps none.
	Sessions *session.Ledger
	// Tools tells effect classes and schemas; nothing is run here.
	Tools *tool.Registry
	// ToolsOf returns the tools of an agent, those of its servers too; nil means Tools for every agent.
	ToolsOf func(events.Agent) *tool.Registry
	// Rules of the station, between the built-in ones and the agent's.
	Rules []events.Rule
	// Hooks asks those who are to be asked before a call; nil lets every hook of an agent block.
	Hooks *hooks.Asker
	// MaxGates bounds the gates of a run that stand open at the same time; 0 is no limit.
	MaxGates int
	// Terms of all gates; rules and agents can make them stricter.
	Terms events.GateTerms
	// Answers says which answers to gates are taken.
	Answers answers.Config
	// Stood is how long the station was halted between two times; nil is not at all.
	Stood gate.Stood
	// Deputies says who answers gates in whose place; without a ledger no one does.
	Deputies deputies.Deputies
}

// Role is the gatekeeper.
type Role struct {
	cfg Config
	// sets caches rule sets by the rules of the agent.
	sets    sync.Map
	answers *answers.Reader
}

var _ runlog.Role = (*Role)(nil)

// New checks the configuration; a rule set that does not build is an error here, not later.
func New(cfg Config) (*Role, error) {
	if cfg.Ledger == nil || cfg.Timers == nil || cfg.Tools == nil || cfg.Blobs == nil {
		return nil, errors.New("gatekeeper needs a ledger, timers, blobs and tools")
	}
	if _, err := guard.Build(cfg.Rules); err != nil {
		return nil, fmt.Errorf("guard rules of the station: %w", err)
	}
	if cfg.ToolsOf == nil {
		cfg.ToolsOf = func(events.Agent) *tool.Registry { return cfg.Tools }
	}
	return &Role{cfg: cfg, answers: answers.New(cfg.Answers)}, nil
}

// Service implements runlog.Role.
func (*Role) Service() events.Service { return events.Gatekeeper }

// Event implements runlog.Role: whatever was received, the question is what the state is owed.
func (r *Role) Event(ctx context.Context, h runlog.ReceivedEvent) error {
	return r.look(ctx, h.Run, h.State)
}

// Due implements runlog.Role: the time of a gate may be up, which the look finds out.
func (r *Role) Due(ctx context.Context, runID, _, _ string, s run.State) error {
	return r.look(ctx, runID, s)
}

// wake sets the timers of the gates that expire or remind. Set again, a timer is the same one: so it is set whenever
// the run was looked at, and one that got lost comes back with the next look.
func (r *Role) wake(ctx context.Context, s run.State) error {
	for _, g := range s.Waiting() {
		at, ok := r.cfg.Stood.NextOf(g, time.Now())
		if !ok {
			continue
		}
		if err := r.cfg.Timers.Set(ctx, s.HarnessID, "gate."+g.ID, at, s.Sequence); err != nil {
			return fmt.Errorf("timer of gate %s: %w", g.ID, err)
		}
	}
	return nil
}

// look says what is owed. Where the verdict on a call needs answers of hooks, or arguments that were not fetched, these
// are got and it is looked again.
func (r *Role) look(ctx context.Context, runID string, s run.State) error {
	answers := map[string][]events.HookAnswer{}
	grants := r.grants()
	for {
		inputs, err := r.inputs(ctx, s)
		if err != nil {
			return err
		}
		var owed []question
		unread := map[string]bool{}
		w, err := r.cfg.Ledger.Write(ctx, runID, func(s run.State, now time.Time) ([]events.Payload, error) {
			owed = nil
			clear(unread)
			law := r.policy(inputs, unread)
			law.Hooks = r.answered(&s, answers, &owed)
			law.Grants = grants.lookup()
			return gate.Look(s, now, law)
		})
		if err != nil {
			return err
		}
		if _, expired := w.Wrote(events.GateExpired); expired {
			s = w.State // what follows for a call of the harness is said at once: no run is paused for it
			continue
		}
		fetched, err := grants.fetch(ctx)
		if err != nil {
			return err
		}
		if len(owed)+len(unread) == 0 && !fetched {
			return r.wake(ctx, w.State)
		}
		for _, q := range owed {
			if answers[q.about.Call.ID], err = r.cfg.Hooks.Ask(ctx, q.due, q.about); err != nil {
				return err
			}
		}
		s = w.State
	}
}

// inputs fetches the arguments that are too large to stand in the log, before the decision is made.
func (r *Role) inputs(ctx context.Context, s run.State) (map[string]json.RawMessage, error) {
	var large map[string]json.RawMessage
	for id, c := range s.Open {
		if c.Phase != run.CallRequested || c.InputRef == nil {
			continue
		}
		b, err := r.cfg.Blobs.Get(ctx, *c.InputRef)
		if err != nil {
			return nil, fmt.Errorf("arguments of call %s: %w", id, err)
		}
		if large == nil {
			large = map[string]json.RawMessage{}
		}
		large[id] = b
	}
	return large, nil
}

// Policy returns what the verdicts of a gatekeeper of this configuration rest on, for whoever looks at recorded ones
// again. It asks no hooks and fetches nothing; of the configuration it needs Tools, and may have ToolsOf, Rules,
// MaxGates and Terms.
func Policy(cfg Config) gate.Policy {
	if cfg.ToolsOf == nil {
		cfg.ToolsOf = func(events.Agent) *tool.Registry { return cfg.Tools }
	}
	r := &Role{cfg: cfg}
	l := r.policy(nil, map[string]bool{})
	l.Input = func(c *run.Call) (json.RawMessage, error) {
		if c.InputRef != nil {
			return nil, gate.ErrNotFetched
		}
		return c.Input, nil
	}
	return l
}

// policy notes in unread the calls whose arguments are not among the large ones that were fetched.
func (r *Role) policy(large map[string]json.RawMessage, unread map[string]bool) gate.Policy {
	return gate.Policy{
		Stood: r.cfg.Stood,
		Tool: func(a events.Agent, name string) (gate.Tool, bool) {
			t, ok := r.cfg.ToolsOf(a).Get(name)
			if !ok {
				return gate.Tool{}, false
			}
			spec := t.Spec()
			known := gate.Tool{Effect: string(spec.EffectOf()), TimeoutMS: spec.TimeoutOf().Milliseconds()}
			if s, pin := a.MCPTool(name); s != nil {
				known.Rule = agentfile.RuleName(s.Name, pin.Name)
			}
			return known, true
		},
		Check: func(a events.Agent, name string, input json.RawMessage) error {
			return r.cfg.ToolsOf(a).Check(name, input)
		},
		Input: func(c *run.Call) (json.RawMessage, error) {
			if c.InputRef == nil {
				return c.Input, nil
			}
			if b, ok := large[c.ID]; ok {
				return b, nil
			}
			unread[c.ID] = true
			return nil, gate.ErrNotFetched // another event brought it while this one was looked at
		},
		Rules:    r.rules,
		Action:   actions.Of,
		ActionIn: actions.In,
		MaxGates: r.cfg.MaxGates,
		Terms:    r.cfg.Terms,
	}
}

func (r *Role) rules(a events.Agent) (guard.Set, error) {
	key, err := json.Marshal(a.Guards)
	if err != nil {
		return guard.Set{}, fmt.Errorf("guard rules of agent %s: %w", a.Name, err)
	}
	if set, ok := r.sets.Load(string(key)); ok {
		return set.(guard.Set), nil
	}
	set, err := guard.Build(r.cfg.Rules, a.Guards)
	if err == nil {
		r.sets.Store(string(key), set)
	}
	return set, err
}

// Input implements runlog.Role: the answer to a gate.
func (r *Role) Input(ctx context.Context, m kernel.Message) error {
	sub, ok := events.ParseRunSubject(m.Subject())
	if !ok || len(sub.Rest) < 2 || len(sub.Rest) > 3 || sub.Rest[0] != "gate" || !events.ValidID(sub.Rest[1]) {
		return kernel.Refuse("bad_subject", "answer on the answer_subject of the gate.opened event",
			"nothing is known of the subject %q", m.Subject())
	}
	reply, err := r.answers.Read(m, sub, r.cfg.Stood)
	if err != nil {
		return err
	}
	if reply, err = r.cfg.Deputies.InPlaceOf(ctx, reply, reply.DeputyFor, sub.Run); err != nil {
		return err
	}
	if reply.Revokes() {
		return r.revoke(ctx, sub.Run, reply)
	}
	w, err := r.record(ctx, sub.Run, reply)
	if refused, is := errors.AsType[*gate.Refused](err); is {
		if refused.Code == gate.CodeExpired { // its timer may be late, or lost
			if err := r.look(ctx, sub.Run, w.State); err != nil {
				return err
			}
		}
		return &kernel.Refusal{Code: refused.Code, Reason: refused.Reason, Hint: refused.Hint, Run: sub.Run}
	}
	if err == nil {
		err = r.give(ctx, w.State, reply)
	}
	if err != nil {
		return err
	}
	return r.look(ctx, sub.Run, w.State)
}

// record says what an answer comes to. Where edited arguments have to be shown to hooks first, these are asked and it
// is decided again.
func (r *Role) record(ctx context.Context, runID string, reply gate.Reply) (runlog.Written, error) {
	answers := map[string][]events.HookAnswer{}
	grants := r.grants()
	for {
		var owed []question
		w, err := r.cfg.Ledger.Write(ctx, runID, func(s run.State, now time.Time) ([]events.Payload, error) {
			owed = nil
			law := r.policy(nil, map[string]bool{})
			law.Hooks = r.answered(&s, answers, &owed)
			law.Grants = grants.lookup()
			return gate.AnswerEdited(s, now, reply, law)
		})
		if err != nil {
			return w, err
		}
		fetched, err := grants.fetch(ctx)
		if err != nil || len(owed) == 0 && !fetched {
			return w, err
		}
		for _, q := range owed {
			if answers[q.about.Call.ID], err = r.cfg.Hooks.Ask(ctx, q.due, q.about); err != nil {
				return w, err
			}
		}
	}
}
