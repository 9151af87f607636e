package executor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/core/prompt"
	"github.com/inspan/inspan/internal/core/turn"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/streaming"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// ask makes the request and turns the answer into what the log can hold. begun tells that the model has spoken, and so
// has what it said, also where the request ended before its answer.
func (r *Role) ask(ctx context.Context, s run.State, task turn.Task, fits *shown,
	said *streaming.Stream, so *soFar) (a turn.Answer, begun bool, err error) {
	agent, ok := s.Agent(task.Step.AssignedAgent)
	if !ok {
		return a, false, fmt.Errorf("agent %s is not pinned in the run", task.Step.AssignedAgent)
	}
	model, name, err := r.cfg.Models.Model(agent.Model)
	if err != nil {
		return a, false, err
	}
	req, err := r.request(ctx, s, task, agent, name, fits)
	if err != nil {
		return a, false, err
	}
	so.asked, so.began = req, time.Now()
	answer, err := askShown(ctx, r.timed(model), req, func(d llm.Delta) {
		begun = true
		said.Write(streaming.Thinking, "", d.Thinking)
		said.Write(streaming.Token, "", d.Text)
		so.text.WriteString(d.Text)
	})
	if err != nil {
		return a, begun, err
	}
	half(&answer)
	a, err = r.keep(ctx, answer, task, time.Since(so.began))
	fault(agent, answer, &a.Data)
	return a, true, err
}

// input is all that the prompt of a turn is made of.
func (r *Role) input(s run.State, task turn.Task, agent events.Agent) (prompt.Input, error) {
	text, err := agentfile.Render(agent, agentfile.RenderInput{Task: prompt.Brief(s, task.Step, s.Created.Task),
		Variables: s.Created.Variables,
		Station:   s.Identity.Station, Run: s.HarnessID, Step: task.Step.ID, StepDescription: task.Step.Description,
		Workspace: s.Created.Workspace})
	if err != nil {
		return prompt.Input{}, &llm.Error{Class: llm.Invalid, Err: err,
			Hint: "fix the agent's prompt or the task's variables"}
	}
	return prompt.Input{State: s, Step: task.Step, Agent: agent, System: text.System, User: text.User}, nil
}

// tools are what the model is told that it may call.
func (r *Role) tools(agent events.Agent) []llm.Tool {
	known := r.cfg.ToolsOf(agent)
	var out []llm.Tool
	for _, name := range agent.Tools {
		if t, ok := known.Get(name); ok {
			spec := t.Spec()
			out = append(out, llm.Tool{Name: spec.Name, Description: spec.Description, Input: spec.Input})
		}
	}
	return out
}

// shown is all that a model is shown for a turn: the prompt, the conversation before it, and the tools. The talk is
// what the prompt was made of.
type shown struct {
	prompt prompt.Prompt
	before recalled
	tools  []llm.Tool
	talk   *talk
}

// show assembles what the model is shown.
func (r *Role) show(ctx context.Context, in prompt.Input) (*shown, error) {
	before, err := r.recall(ctx, in.State, in.Step, in.Agent)
	if err != nil {
		return nil, err
	}
	t := r.talks.take(in.State.HarnessID, in.Step.ID)
	return &shown{prompt: t.Assemble(in), before: before, tools: r.tools(in.Agent), talk: t}, nil
}

// request makes what the model is asked, of what it is shown; nil assembles that. It is the same bytes for the same
// state.
func (r *Role) request(ctx context.Context, s run.State, task turn.Task, agent events.Agent, name string,
	all *shown) (llm.Request, error) {
	if all == nil {
		in, err := r.input(s, task, agent)
		if err != nil {
			return llm.Request{}, err
		}
		if all, err = r.show(ctx, in); err != nil {
			return llm.Request{}, err
		}
	}
	messages, err := all.talk.goOn(ctx, all.before.messages, all.prompt.Entries, r.exchange)
	if err != nil {
		return llm.Request{}, err
	}
	if all.talk.Goes() {
		r.talks.put(s.HarnessID, task.Step.ID, all.talk)
	}
	return llm.Request{Model: name, System: all.prompt.System, Tools: all.tools, MaxOutputTokens: agent.MaxOutputTokens,
		Temperature: agent.Temperature, Messages: messages, Meta: llm.Meta{Run: s.HarnessID, Step: task.Step.ID,
			Agent: agent.Name, Turn: task.Number, Attempt: task.Attempt, Purpose: "turn"}}, nil
}

// exchange turns one turn and its results into messages, fetching what was too large for the log.
func (r *Role) exchange(ctx context.Context, e prompt.Exchange) ([]llm.Message, error) {
	t := e.Turn
	m := llm.Message{Role: llm.Assistant, Text: t.Text, Raw: t.Raw, Provider: t.Provider}
	if t.RawRef != nil {
		b, err := r.cfg.Blobs.Get(ctx, *t.RawRef)
		if err != nil {
			return nil, fmt.Errorf("message of turn %d: %w", t.Number, err)
		}
		m.Raw = b
	}
	if t.TextRef != nil {
		b, err := r.cfg.Blobs.Get(ctx, *t.TextRef)
		if err != nil {
			return nil, fmt.Errorf("text of turn %d: %w", t.Number, err)
		}
		m.Text = string(b)
	}
	for _, c := range t.Calls {
		input := c.Input
		if c.InputRef != nil {
			b, err := r.cfg.Blobs.Get(ctx, *c.InputRef)
			if err != nil {
				return nil, fmt.Errorf("arguments of call %s: %w", c.ID, err)
			}
			input = b
		}
		m.Calls = append(m.Calls, llm.Call{ID: c.ProviderID, Name: c.Tool, Input: input})
	}
	out := []llm.Message{m}
	if len(e.Results) > 0 {
		results := llm.Message{Role: llm.ToolResults}
		for _, res := range e.Results {
			images, err := r.images(ctx, res.ProviderID, res.Images)
			if err != nil {
				return nil, err
			}
			results.Results = append(results.Results, llm.Result{CallID: res.ProviderID, Name: res.Tool, Output: res.Output,
				Failed: res.Failed, Images: images})
		}
		out = append(out, results)
	}
	if e.Note != "" {
		out = append(out, llm.Message{Role: llm.User, Text: e.Note})
	}
	return out, nil
}

// keep stores what is too large for the log and returns the rest.
func (r *Role) keep(ctx context.Context, a llm.Answer, task turn.Task, took time.Duration) (turn.Answer, error) {
	if len(a.Calls) > events.MaxCallsPerTurn {
		return turn.Answer{}, &llm.Error{Class: llm.Invalid,
			Err: fmt.Errorf("the model asked for %d calls at once, the limit is %d", len(a.Calls), events.MaxCallsPerTurn)}
	}
	d := events.TurnFinishedData{Text: a.Text, InputTokens: a.Usage.Input, OutputTokens: a.Usage.Output,
		CachedTokens: a.Usage.CachedInput, CacheWriteTokens: a.Usage.CacheWrite, FinishReason: string(a.Finish),
		Attempt:    task.Attempt,
		DurationMS: took.Milliseconds(), Model: a.Model, Provider: a.Provider, Raw: a.Raw}
	var err error
	if d.TextRef, err = r.offload(ctx, "text", []byte(a.Text), events.MaxInlineText); err != nil {
		return turn.Answer{}, err
	}
	if d.TextRef != nil {
		d.Text = strings.ToValidUTF8(a.Text[:events.MaxInlineText/2], "") + "\n... the whole text is stored"
	}
	if d.RawRef, err = r.offload(ctx, "message", a.Raw, events.MaxInlineRaw); err != nil {
		return turn.Answer{}, err
	}
	if d.RawRef != nil {
		d.Raw = nil
	}
	inline := 0
	for i, c := range a.Calls {
		rc := events.RequestedCall{ProviderID: c.ID, Tool: c.Name, Input: c.Input}
		if rc.ProviderID == "" {
			rc.ProviderID = "call-" + strconv.Itoa(task.Number) + "-" + strconv.Itoa(i+1)
		}
		// All calls of a turn share the room in its event.
		if rc.InputRef, err = r.offload(ctx, "input", c.Input, max(0, events.MaxInlineInput-inline)); err != nil {
			return turn.Answer{}, err
		}
		if rc.InputRef != nil {
			rc.Input = nil
		}
		inline += len(rc.Input)
		d.Calls = append(d.Calls, rc)
	}
	return turn.Answer{Data: d}, nil
}

func (r *Role) offload(ctx context.Context, kind string, data []byte, limit int) (*events.Ref, error) {
	if len(data) <= limit {
		return nil, nil
	}
	ref, err := r.cfg.Blobs.Put(ctx, kind, data)
	if err != nil {
		return nil, fmt.Errorf("store %s of a turn: %w", kind, err)
	}
	return &ref, nil
}
