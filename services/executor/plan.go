package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/turn"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/streaming"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// planTimer is the id of the timer of a request for a plan. A step may have that name too: there is a plan then, and
// none is requested any more.
const planTimer = "plan"

// planSchema is what a model must answer a request for a plan with.
var planSchema = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["steps"],"properties":{"steps":{"type":"array","items":` +
	`{"type":"object","additionalProperties":false,"required":["id","description","dependencies","critical"],"properties":{"id":{"type":"string"},` +
	`"description":{"type":"string"},"agent":{"type":"string"},"dependencies":{"type":"array","items":{"type":"string"}},"critical":{"type":"boolean"}}}}}}`)

const planSystem = "You plan work. Answer with one JSON document: the steps, each with a short id, a description, the agent that does it, " +
	"the ids it depends on, and whether it is critical (hard to undo). Use as few steps as the task needs."

// planning is the part of the role that asks models for plans.
type planning struct{ *Role }

// serve does what is owed to a run that waits for its plan. lost counts the earlier deliveries, whose requests no one
// knows of.
func (r planning) serve(ctx context.Context, s run.State, lost int) error {
	duty := turn.NextPlan(s, r.cfg.Now(), lost)
	switch {
	case len(duty.Append) > 0:
		_, err := r.cfg.Ledger.Write(ctx, s.HarnessID, func(s run.State, now time.Time) ([]events.Payload, error) {
			return turn.NextPlan(s, now, lost).Append, nil
		})
		return err
	case !duty.Wait.IsZero():
		return r.cfg.Timers.Set(ctx, s.HarnessID, "turn."+planTimer, duty.Wait, s.Sequence)
	case duty.Ask == nil:
		return nil
	}
	return r.take(ctx, s, *duty.Ask)
}

// take asks the model for a plan and says what came of it; nothing where the answer came too late.
func (r planning) take(ctx context.Context, s run.State, task turn.PlanTask) error {
	ask, done := r.cfg.Ends.Context(ctx, s.HarnessID)
	defer done()
	said := r.cfg.Live.Open(s.HarnessID, streaming.About{Turn: task.Try, Owed: task.Owed, Attempt: task.Attempt})
	defer said.Close() // when the answer is stored, or never will be
	answer, begun, err := r.ask(ask, s, task, said)
	said.Done(err)
	if err == nil {
		_, err = r.cfg.Ledger.Write(ctx, s.HarnessID, func(s run.State, _ time.Time) ([]events.Payload, error) {
			return turn.FinishPlan(s, task, answer), nil
		})
		if !errors.Is(err, kernel.ErrTooLarge) {
			return err
		}
		err, begun = &llm.Error{Class: llm.Invalid, Err: err, Hint: "ask for fewer steps"}, true
	}
	return r.failed(ctx, ask, s, task, err, begun)
}

// ask makes the request and turns the answer into what the log can hold. begun tells that the model has spoken.
func (r planning) ask(ctx context.Context, s run.State, task turn.PlanTask,
	said *streaming.Stream) (d events.PlanAnsweredData, begun bool, err error) {
	req, model, err := r.request(ctx, s, task)
	if err != nil {
		return d, false, err
	}
	begin := time.Now()
	answer, err := r.timed(model).Ask(ctx, req, func(p llm.Delta) {
		begun = true
		said.Write(streaming.Thinking, "", p.Thinking)
		said.Write(streaming.Token, "", p.Text)
	})
	if err != nil {
		return d, begun, err
	}
	d = events.PlanAnsweredData{Text: answer.Text, FinishReason: string(answer.Finish), InputTokens: answer.Usage.Input,
		OutputTokens: answer.Usage.Output,
		CachedTokens: answer.Usage.CachedInput, CacheWriteTokens: answer.Usage.CacheWrite,
		DurationMS: time.Since(begin).Milliseconds(), Model: answer.Model,
		Provider: answer.Provider}
	if d.TextRef, err = r.offload(ctx, "plan", []byte(answer.Text), events.MaxInlineText); err != nil {
		return d, true, &awayError{err}
	}
	if d.TextRef != nil {
		d.Text = strings.ToValidUTF8(answer.Text[:events.MaxInlineText/2], "") + "\n... the whole text is stored"
	}
	return d, true, nil
}

// awayError is a store that gave no answer: it says nothing of the plan, and is no reason to end a run.
type awayError struct{ error }

func (e *awayError) Unwrap() error { return e.error }

// request makes what the model is asked for: the task, and where its answer before was no plan, that one and why. It is
// the same bytes for the same state.
func (r planning) request(ctx context.Context, s run.State, task turn.PlanTask) (llm.Request, llm.Model, error) {
	agent, p := s.Agents[s.AgentName], s.Planning
	model, name, err := r.cfg.Models.Model(agent.Model)
	if err != nil {
		return llm.Request{}, nil, err
	}
	messages := []llm.Message{{Role: llm.User, Text: fmt.Sprintf("Task: %s\n\nRegistered agents: %v. Your own name: %s.",
		s.Created.Task, p.Agents, s.AgentName)}}
	if p.Fault != "" {
		text := p.Text
		if p.TextRef != nil {
			b, err := r.cfg.Blobs.Get(ctx, *p.TextRef)
			if err != nil {
				return llm.Request{}, nil, &awayError{fmt.Errorf("answer to request %d for a plan: %w", p.Try-1, err)}
			}
			text = string(b)
		}
		if strings.TrimSpace(text) == "" {
			text = "(nothing)" // no provider takes an empty message
		}
		messages = append(messages, llm.Message{Role: llm.Assistant, Text: text}, llm.Message{Role: llm.User,
			Text: fmt.Sprintf("The plan was refused: %s. Hint: %s. Answer with the whole plan again.", p.Fault, p.Hint)})
	}
	return llm.Request{Model: name, System: planSystem, Messages: messages, Schema: planSchema,
		Temperature:     agent.Temperature,
		MaxOutputTokens: agent.MaxOutputTokens, Meta: llm.Meta{Run: s.HarnessID, Agent: s.AgentName, Turn: task.Try,
			Attempt: task.Attempt, Purpose: "plan"}}, model, nil
}

// failed records a request for a plan that was not answered.
func (r planning) failed(ctx, ask context.Context, s run.State, task turn.PlanTask, cause error, begun bool) error {
	if _, away := errors.AsType[*awayError](cause); away || ctx.Err() != nil {
		return cause
	}
	if ask.Err() != nil {
		return nil // the run has ended: it needs no plan any more
	}
	f := r.failure(cause, s.Agents[s.AgentName].Model, begun)
	w, err := r.cfg.Ledger.Write(ctx, s.HarnessID, func(s run.State, now time.Time) ([]events.Payload, error) {
		return turn.FailPlan(s, task, f, now), nil
	})
	if err != nil {
		return err
	}
	if p := w.State.Planning; p != nil && p.Owed != 0 && !p.NotBefore.IsZero() && !w.State.Suspended(p.Outage) {
		return r.cfg.Timers.Set(ctx, s.HarnessID, "turn."+planTimer, p.NotBefore, w.State.Sequence)
	}
	return nil
}
