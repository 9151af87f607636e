// Package hooks asks hooks: programs on this machine, responders on a NATS subject, and what is built in.
//
// Promises: whoever gives no answer in time, breaks, says too much or what cannot be read has said block. They are
// asked one after the other in the order they are given, until one blocks. A program gets the question on its standard
// input and nothing of this service's environment, runs in a process group of its own, and is gone with all that it
// started when Ask returns. Answers are cut to a bound and secrets are masked. Nothing is recorded here.
package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/core/hook"
	"github.com/inspan/inspan/pkg/events"
)

// Errors of a Requester.
var (
	// ErrNoResponders means that no one listens on the subject.
	ErrNoResponders = errors.New("no subscriber")
	// ErrFlood means that the answer is longer than hook.MaxAnswer.
	ErrFlood = errors.New("the answer is too large")
)

// Requester asks on station.{station}.hook.{name}. The error wraps ErrNoResponders, ErrFlood or that of ctx.
type Requester interface {
	AskHook(ctx context.Context, role events.Service, name string, question []byte) ([]byte, error)
}

// Func is a hook that runs in this process. An error or a panic in it is a block.
type Func func(ctx context.Context, q hook.Question) (answer, message string, err error)

// Config of an Asker.
type Config struct {
	Station string
	// Role asks.
	Role events.Service
	// Hooks of the station; no agent can take one back.
	Hooks []events.Hook
	// Dir is the folder of the programs that agent files may name. Empty: none. Those of the station may be anywhere.
	Dir string
	// Builtin is the registry of hooks that run in this process.
	Builtin map[string]Func
	// Requests may be nil: then hooks with a subject cannot be asked.
	Requests Requester
	// Mask takes secrets out of messages; nil leaves them.
	Mask func(string) string
}

// Asker asks. A nil Asker knows of no hooks of a station, and can ask none of an agent: they all block.
type Asker struct{ cfg Config }

// New checks the declarations of the station.
func New(cfg Config) (*Asker, error) {
	known := func(name string) bool { return cfg.Builtin[name] != nil }
	if err := hook.Check(cfg.Hooks, known); err != nil {
		return nil, fmt.Errorf("policy of the station: %w", err)
	}
	if cfg.Mask == nil {
		cfg.Mask = func(s string) string { return s }
	}
	return &Asker{cfg: cfg}, nil
}

// Due returns who is asked at a point; see hook.For.
func (a *Asker) Due(agent events.Agent, on, tool string) []hook.Due {
	if a == nil {
		return hook.For(nil, agent.Hooks, on, tool)
	}
	return hook.For(a.cfg.Hooks, agent.Hooks, on, tool)
}

// Ask asks all that are due, until one blocks. An error means that ctx ended and nothing was found out; everything
// else is an answer.
func (a *Asker) Ask(ctx context.Context, due []hook.Due, q hook.Question) ([]events.HookAnswer, error) {
	var all []events.HookAnswer
	for _, d := range due {
		answer := a.one(ctx, d, q)
		if err := context.Cause(ctx); err != nil {
			return nil, fmt.Errorf("call hook %s: %w", d.Name(), err)
		}
		all = append(all, answer)
		if answer.Answer == events.HookBlock {
			break
		}
	}
	return all, nil
}

// one asks one hook.
func (a *Asker) one(ctx context.Context, d hook.Due, q hook.Question) events.HookAnswer {
	out := events.HookAnswer{Hook: d.Name(), On: d.Hook.On, Answer: events.HookBlock}
	if a == nil {
		out.Fault, out.Message = hook.FaultUnavailable, "this service cannot call hooks"
		return out
	}
	q.V, q.Hook, q.On, q.Station = hook.Version, d.Name(), d.Hook.On, a.cfg.Station
	begin := time.Now()
	limited, cancel := context.WithTimeout(ctx, d.Timeout())
	answer, message, err := a.ask(limited, d, q)
	late := limited.Err() != nil
	cancel()
	out.DurationMS = time.Since(begin).Milliseconds()
	switch fault := (*fault)(nil); {
	case err == nil:
		out.Answer, out.Message = answer, message
	case late:
		out.Fault, out.Message = hook.FaultTimeout, fmt.Sprintf("no answer within %s", d.Timeout())
	case errors.As(err, &fault):
		out.Fault, out.Message = fault.code, err.Error()
	case errors.Is(err, hook.ErrAnswer):
		out.Fault, out.Message = hook.FaultMalformed, err.Error()
	case errors.Is(err, ErrNoResponders):
		out.Fault, out.Message = hook.FaultNoResponder, "no subscriber on "+events.HookSubject(a.cfg.Station, d.Hook.Subject)
	case errors.Is(err, ErrFlood):
		out.Fault, out.Message = hook.FaultFlood, fmt.Sprintf("the answer has more than %d bytes", hook.MaxAnswer)
	default:
		out.Fault, out.Message = hook.FaultCrash, err.Error()
	}
	out.Message = hook.Clip(a.cfg.Mask(out.Message))
	return out
}

// fault is an error with a code of its own.
type fault struct {
	code string
	err  error
}

func (f *fault) Error() string { return f.err.Error() }

func (f *fault) Unwrap() error { return f.err }

func (a *Asker) ask(ctx context.Context, d hook.Due, q hook.Question) (answer, message string, err error) {
	if d.Hook.Builtin != "" {
		return a.builtin(ctx, d, q)
	}
	question, err := json.Marshal(q)
	if err != nil {
		return "", "", fmt.Errorf("encode the request: %w", err)
	}
	if len(d.Hook.Command) > 0 {
		return a.command(ctx, d, question)
	}
	if a.cfg.Requests == nil {
		return "", "", &fault{hook.FaultUnavailable, errors.New("this service cannot send requests to a subject")}
	}
	raw, err := a.cfg.Requests.AskHook(ctx, a.cfg.Role, d.Hook.Subject, question)
	if err != nil {
		return "", "", err
	}
	return hook.Read(raw)
}

// builtin runs a hook of this process; one that breaks has given no answer.
func (a *Asker) builtin(ctx context.Context, d hook.Due, q hook.Question) (answer, message string, err error) {
	f := a.cfg.Builtin[d.Hook.Builtin]
	if f == nil {
		return "", "", &fault{hook.FaultUnavailable, fmt.Errorf("this service has no built-in hook %q", d.Hook.Builtin)}
	}
	defer func() {
		if p := recover(); p != nil {
			answer, message, err = "", "", fmt.Errorf("it panicked: %v", p)
		}
	}()
	if answer, message, err = f(ctx, q); err != nil {
		return "", "", err
	}
	switch answer {
	case events.HookContinue, events.HookBlock, events.HookInterrupt:
		return answer, message, nil
	}
	return "", "", fmt.Errorf("%w is none of continue, block and interrupt", hook.ErrAnswer)
}
