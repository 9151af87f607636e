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
	"path"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/core/gate"
	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/internal/core/quota"
	"github.com/inspan/inspan/internal/hooks"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/patch"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/session"
	"github.com/inspan/inspan/internal/shell"
	"github.com/inspan/inspan/pkg/approval"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
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
	// MaxGates bounds the gates of a run that stand open at the same time, AnswersPerMinute the answers in the name of
	// one approver that this instance takes; 0 is no limit.
	MaxGates, AnswersPerMinute int
	// Terms of all gates; rules and agents can make them stricter.
	Terms events.GateTerms
	// Approvers are the keys whose signed answers are believed. With OnlySigned an answer without a signature is
	// refused.
	Approvers  approval.Keys
	OnlySigned bool
	// Stood is how long the station was halted between two times; nil is not at all.
	Stood gate.Stood
	// Deputies says who answers gates in whose place; without a ledger no one does.
	Deputies Deputies
}

// Role is the gatekeeper.
type Role struct {
	cfg Config
	// sets caches rule sets by the rules of the agent.
	sets sync.Map
	mu   sync.Mutex
	// approvers is guarded by mu.
	approvers *quota.Rate
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
	return &Role{cfg: cfg, approvers: quota.NewRate(cfg.AnswersPerMinute)}, nil
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
		if err := r.cfg.Timers.Set(ctx, s.HarnessID, "gate."+g.ID, at); err != nil {
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
		Action:   Action,
		ActionIn: ActionIn,
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

// Action reads a call for the guards: the commands of a shell text, and the paths that leave the workspace.
func Action(toolName string, input json.RawMessage) guard.Action {
	a, _ := read(toolName, input)
	return a
}

// read is Action, and the files that a shell text runs.
func read(toolName string, input json.RawMessage) (a guard.Action, runs []shell.Run) {
	a.Tool = toolName
	var args map[string]any
	if err := json.Unmarshal(input, &args); err != nil {
		a.Unclear = "the arguments are not a JSON object"
		return a, nil
	}
	if text, ok := args["command"].(string); ok {
		parsed := shell.Parse(text)
		a.Commands, a.Loose, a.Unclear, runs = parsed.Commands, parsed.Loose, parsed.Unclear, parsed.Runs
	}
	var paths []string
	for _, key := range []string{"path", "file", "dir"} {
		if p, ok := args[key].(string); ok {
			paths = append(paths, p)
		}
	}
	if list, ok := args["paths"].([]any); ok {
		for _, p := range list {
			if text, ok := p.(string); ok {
				paths = append(paths, text)
			}
		}
	}
	if text, ok := args["patch"].(string); ok {
		paths = append(paths, patch.Paths(text)...)
	}
	for _, p := range paths {
		a.Paths = append(a.Paths, strings.ReplaceAll(p, `\`, "/"))
		if leaves(p) {
			a.Outside = append(a.Outside, p)
		}
	}
	return a, runs
}

// leaves reports whether a path leads out of the workspace by its text alone. Links are the sandbox's affair.
func leaves(p string) bool {
	clean := path.Clean(strings.ReplaceAll(p, `\`, "/"))
	return strings.HasPrefix(clean, "/") || clean == ".." || strings.HasPrefix(clean, "../") || strings.HasPrefix(clean,
		"~")
}

// Input implements runlog.Role: the answer to a gate.
func (r *Role) Input(ctx context.Context, m kernel.Message) error {
	sub, ok := events.ParseRunSubject(m.Subject())
	if !ok || len(sub.Rest) < 2 || len(sub.Rest) > 3 || sub.Rest[0] != "gate" || !events.ValidID(sub.Rest[1]) {
		return kernel.Refuse("bad_subject", "answer on the answer_subject of the gate.opened event",
			"nothing is known of the subject %q", m.Subject())
	}
	reply, err := r.readReply(m, sub)
	if err != nil {
		return err
	}
	if err := r.often(m, reply.By); err != nil {
		err.Run = sub.Run
		return err
	}
	if reply, err = r.inPlaceOf(ctx, reply, reply.DeputyFor, sub.Run); err != nil {
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

// often refuses an answer where too many came in the same name; nil is no refusal. One that comes again was counted.
func (r *Role) often(m kernel.Message, by string) *kernel.Refusal {
	if m.Deliveries() > 1 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	again, ok := r.approvers.Take(by, time.Now())
	if ok {
		return nil
	}
	q := quota.Often("answers", by, r.cfg.AnswersPerMinute, again)
	return &kernel.Refusal{Code: q.Code, Reason: q.Reason, Hint: q.Hint}
}

func (r *Role) readReply(m kernel.Message, sub events.RunSubject) (gate.Reply, error) {
	var a events.Answer
	_, err := ce.Read(m.Data(), m.Header, events.AnswerType, &a)
	if err == nil {
		err = a.Check()
	}
	if err == nil && len(sub.Rest) == 3 {
		err = events.CheckID("approver", sub.Rest[2])
	}
	if err != nil {
		return gate.Reply{}, &kernel.Refusal{Code: "bad_input", Run: sub.Run, Reason: err.Error(),
			Hint: `send {"decision":"approve"} or {"decision":"reject","reason":"..."}`}
	}
	reply := gate.Reply{Stood: r.cfg.Stood, Gate: sub.Rest[1], Decision: a.Decision, Reason: a.Reason, By: a.By,
		Assurance: events.AssuranceNone, Hash: a.ProposalHash, Input: m.Seq(), Always: a.Always, Pattern: a.Pattern,
		DeputyFor: a.DeputyFor}
	reply.Term, _ = events.GrantTerm(a.For) // it was checked
	if len(a.EditedInput) > 0 && string(a.EditedInput) != "null" {
		if reply.Edited, err = events.EditedInput(a.EditedInput); err != nil {
			return gate.Reply{}, &kernel.Refusal{Code: "bad_input", Run: sub.Run, Reason: err.Error(),
				Hint: "send edited_input as a JSON object with all arguments of the call"}
		}
	}
	switch {
	case len(sub.Rest) < 3:
	case sub.Rest[2] == events.Gateway: // whose word it is, is known; whose token it was, is what that says
		reply.Assurance = events.AssuranceGateway
	default:
		reply.By, reply.Assurance = sub.Rest[2], events.AssuranceSubject
	}
	if a.Signature != "" || a.Key != "" {
		return r.signed(reply, a, sub)
	}
	if r.cfg.OnlySigned {
		return gate.Reply{}, &kernel.Refusal{Code: "unsigned_answer", Run: sub.Run,
			Reason: "this station takes signed answers only",
			Hint:   "answer with inspan approve or inspan reject and --sign KEYFILE"}
	}
	if reply.By == "" {
		reply.By = "unknown"
	}
	return reply, nil
}

// signed verifies a signed answer. Who answered is then told by the key; an answer sent in another's name is refused.
func (r *Role) signed(reply gate.Reply, a events.Answer, sub events.RunSubject) (gate.Reply, error) {
	refuse := func(code, hint string, err error) (gate.Reply, error) {
		return gate.Reply{}, &kernel.Refusal{Code: code, Run: sub.Run, Reason: err.Error(), Hint: hint}
	}
	hash := a.ProposalHash
	if len(reply.Edited) > 0 {
		hash = events.EditedHash(a.ProposalHash, reply.Edited)
	}
	name, err := r.cfg.Approvers.Verify(approval.Statement{Station: sub.Station, Run: sub.Run, Gate: reply.Gate,
		Decision:     a.Decision,
		ProposalHash: hash, Reason: a.Reason, Always: a.Always, Pattern: a.Pattern, Term: reply.Term}, a.Key, a.Signature)
	switch {
	case errors.Is(err, approval.ErrUnknownKey):
		return refuse("unknown_signer", "an operator can add the public key to INSPAN_APPROVER_KEYS", err)
	case err != nil:
		return refuse("bad_signature", "sign the answer to this very gate again, with the proposal_hash that it shows", err)
	case reply.Assurance == events.AssuranceSubject && reply.By != name:
		return refuse("bad_signature", "answer in the name of the key's owner",
			fmt.Errorf("signed by %s and sent in the name of %s", name, reply.By))
	}
	reply.By, reply.Assurance, reply.Key, reply.Signature = name, events.AssuranceSignature, a.Key, a.Signature
	return reply, nil
}
