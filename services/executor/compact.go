package executor

import (
	"context"
	"time"

	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/internal/core/prompt"
	"github.com/inspan/inspan/internal/core/turn"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// compact shortens the history of a step before its turn is taken, where it is too long: the model is asked for a
// summary, in a request of its own that fails and is made again as a turn's. looked is false where the turn may be
// taken as it is; fits is then its prompt, nil where it was not looked at. Where a summary was asked for twice, the
// second one is not said, and after a crash it is asked for again.
func (r *Role) compact(ctx context.Context, s run.State, task turn.Task) (w runlog.Written, looked bool, fits *shown,
	err error) {
	agent, ok := s.Agent(task.Step.AssignedAgent)
	if !ok || prompt.SettingsOf(s, agent, task.Step).Limit == 0 {
		return w, false, nil, nil
	}
	in, err := r.input(s, task, agent)
	if err != nil {
		return w, false, nil, nil // the turn meets the same error, and says it
	}
	p, err := r.show(ctx, in)
	if err != nil {
		return w, false, nil, err
	}
	w, looked, err = r.shorten(ctx, in, task, p)
	return w, looked, p, err
}

// shorten does what is to be done about the length of a prompt; looked is false where that is nothing.
func (r *Role) shorten(ctx context.Context, in prompt.Input, task turn.Task, p *shown) (w runlog.Written, looked bool,
	err error) {
	s, agent := in.State, in.Agent
	verdict := p.judge(in)
	switch {
	case verdict.Full != "":
		w, err = r.cfg.Ledger.Write(ctx, s.HarnessID, func(s run.State, _ time.Time) ([]events.Payload, error) {
			return turn.Full(s, task, verdict.Full), nil
		})
		return w, true, err
	case verdict.Cut == nil:
		return w, false, nil
	}
	ask, done := r.cfg.Ends.Context(ctx, s.HarnessID)
	defer done()
	said, begun, err := r.summary(ask, s, task, agent, verdict.Cut, verdict.Cut.Ask(in))
	if err != nil {
		w, err = r.failed(ctx, ask, s, task, err, begun)
		return w, true, err
	}
	w, err = r.cfg.Ledger.Write(ctx, s.HarnessID, func(s run.State, _ time.Time) ([]events.Payload, error) {
		return turn.Compact(s, task, said), nil
	})
	return w, true, err
}

// judge decides whether a prompt is too long, with what stands beside it in the request.
func (p *shown) judge(in prompt.Input) prompt.Verdict {
	for _, t := range p.tools {
		in.Tools += prompt.Tokens(t.Name) + prompt.Tokens(t.Description) + prompt.Tokens(string(t.Input))
	}
	in.Earlier = p.before.tokens
	return prompt.Judge(in, p.prompt)
}

// summary asks for the summary of a cut. begun tells that the model has spoken.
func (r *Role) summary(ctx context.Context, s run.State, task turn.Task, agent events.Agent, cut *prompt.Cut,
	asking prompt.Asking) (d events.HistoryCompactedData, begun bool, err error) {
	model, name, err := r.cfg.Models.Model(agent.Model)
	if err != nil {
		return d, false, err
	}
	most := asking.MaxOutputTokens
	if budget.Limited(s) && agent.MaxOutputTokens > 0 {
		most = min(most, agent.MaxOutputTokens) // no more than is set aside for the turn
	}
	begin := time.Now()
	answer, err := r.timed(model).Ask(ctx, llm.Request{Model: name, System: asking.System,
		Messages:        []llm.Message{{Role: llm.User, Text: asking.User}},
		MaxOutputTokens: most, Temperature: agent.Temperature, Meta: llm.Meta{Run: s.HarnessID, Step: task.Step.ID,
			Agent: agent.Name, Turn: task.Number, Attempt: task.Attempt, Purpose: "compaction"}},
		func(llm.Delta) { begun = true })
	if err == nil && cut.Shorten(answer.Text) == "" {
		err = &llm.Error{Class: llm.Transient, Err: errNoSummary}
	}
	if err != nil {
		return d, begun, err
	}
	text := cut.Shorten(answer.Text)
	return events.HistoryCompactedData{Event: "history_compacted", Step: task.Step.ID, Through: cut.Through,
		Replaced: cut.Replaced, Summary: text, TokensBefore: cut.Before, TokensAfter: cut.After(text), Window: cut.Window,
		Protected: cut.Protected, InputTokens: answer.Usage.Input, OutputTokens: answer.Usage.Output,
		CachedTokens: answer.Usage.CachedInput, CacheWriteTokens: answer.Usage.CacheWrite, Attempt: task.Attempt,
		DurationMS: time.Since(begin).Milliseconds(), Model: answer.Model, Provider: answer.Provider}, true, nil
}
