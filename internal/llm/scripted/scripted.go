// Package scripted is a model that answers from a YAML file, for tests, demonstrations and benchmarks without a key.
//
// Promises: the model is a pure function of the Request. It remembers nothing, so any replica of an executor, also
// after a crash, gets the same answer to the same question; a script can tell one try from the next only by
// Meta.Attempt. The first entry whose conditions all hold answers. A question that no entry answers is an *llm.Error
// of class Invalid which names the script, the step, the turn and what the last tool results said. Streaming goes
// through the sink in pieces like a real provider's, and a delay ends with the context. A script is read strictly:
// an unknown key, a bad range or an unknown placeholder is an error with its line before anything runs.
package scripted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/inspan/inspan/internal/llm"
)

// Provider is the adapter's name in answers and references ("scripted/NAME").
const Provider = "scripted"

// defaultChunk is how many characters a piece of streamed text has where the entry does not say.
const defaultChunk = 32

var _ llm.Model = (*Model)(nil)

// Model answers from one script. It is safe for concurrent use.
type Model struct {
	name    string
	entries []entry
}

// Name of the script, as given to Parse or taken from the file's name without its ending.
func (m *Model) Name() string { return m.name }

// Ask gives the answer of the first entry that matches req.
func (m *Model) Ask(ctx context.Context, req llm.Request, sink llm.Sink) (llm.Answer, error) {
	if err := ctx.Err(); err != nil {
		return llm.Answer{}, err
	}
	e := m.find(req)
	if e == nil {
		return llm.Answer{}, m.noEntry(req)
	}
	answer, err := e.answer(m.name, req)
	if err != nil {
		return llm.Answer{}, &llm.Error{Class: llm.Invalid, Err: fmt.Errorf("script %s, turns[%d]: %w", m.name, e.index, err),
			Hint: "fix the placeholder or add a condition so that the entry matches only where the result exists"}
	}
	if err := wait(ctx, time.Duration(e.Delay)); err != nil {
		return llm.Answer{}, err
	}
	if err := stream(ctx, answer, e.Chunk, sink); err != nil {
		return llm.Answer{}, err
	}
	if e.Error != nil {
		return llm.Answer{}, e.Error.asError(m.name)
	}
	return answer, nil
}

func (m *Model) find(req llm.Request) *entry {
	for i := range m.entries {
		if m.entries[i].When.holds(req) {
			return &m.entries[i]
		}
	}
	return nil
}

func (m *Model) noEntry(req llm.Request) error {
	meta := req.Meta
	return &llm.Error{
		Class: llm.Invalid,
		Err: fmt.Errorf("script %s has no entry for turn %d of step %q (purpose %q, agent %q, attempt %d); the last tool results were %s",
			m.name, meta.Turn, meta.Step, meta.Purpose, meta.Agent, attempt(meta), brief(lastResults(req.Messages))),
		Hint: "add an entry that matches, or one without conditions at the end of the script",
	}
}

// answer fills the placeholders of e for req.
func (e *entry) answer(script string, req llm.Request) (llm.Answer, error) {
	a := llm.Answer{Model: req.Model, Provider: Provider, Finish: e.finish()}
	if a.Model == "" {
		a.Model = script
	}
	var err error
	if a.Text, err = fill(e.Text, req); err != nil {
		return a, err
	}
	if a.Thinking, err = fill(e.Thinking, req); err != nil {
		return a, err
	}
	for i, c := range e.Calls {
		input, err := c.input(req)
		if err != nil {
			return a, fmt.Errorf("calls[%d]: %w", i, err)
		}
		id := c.ID
		if id == "" {
			id = fmt.Sprintf("call_%d_%d", req.Meta.Turn, i+1)
		}
		a.Calls = append(a.Calls, llm.Call{ID: id, Name: c.Name, Input: input})
	}
	if u := e.Usage; u != nil {
		a.Usage = llm.Usage{Input: u.Input, Output: u.Output, CachedInput: u.Cached}
	} else {
		a.Usage = llm.EstimateUsage(req, a)
	}
	a.Raw, err = json.Marshal(raw{Text: a.Text, Thinking: a.Thinking, Calls: a.Calls})
	return a, err
}

// raw is this model's own form of an assistant message.
type raw struct {
	Text     string     `json:"text"`
	Thinking string     `json:"thinking,omitempty"`
	Calls    []llm.Call `json:"calls,omitempty"`
}

func (e *entry) finish() llm.Finish {
	switch {
	case e.Finish != "":
		return llm.Finish(e.Finish)
	case len(e.Calls) > 0:
		return llm.ToolUse
	}
	return llm.Done
}

func (f *failure) asError(script string) error {
	message := f.Message
	if message == "" {
		message = "error defined by the script"
	}
	return &llm.Error{Class: llm.Class(f.Class), Status: f.Status, RetryAfter: time.Duration(f.RetryAfter),
		Err: fmt.Errorf("script %s: %w", script, errors.New(message))}
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func stream(ctx context.Context, a llm.Answer, chunk int, sink llm.Sink) error {
	if sink == nil {
		return nil
	}
	if chunk == 0 {
		chunk = defaultChunk
	}
	for rest := a.Thinking; rest != ""; {
		var piece string
		piece, rest = cut(rest, chunk)
		if err := ctx.Err(); err != nil {
			return err
		}
		sink(llm.Delta{Thinking: piece})
	}
	for rest := a.Text; rest != ""; {
		var piece string
		piece, rest = cut(rest, chunk)
		if err := ctx.Err(); err != nil {
			return err
		}
		sink(llm.Delta{Text: piece})
	}
	return nil
}

// cut splits s after n characters, never inside one.
func cut(s string, n int) (piece, rest string) {
	at := 0
	for ; n > 0 && at < len(s); n-- {
		_, size := utf8.DecodeRuneInString(s[at:])
		at += size
	}
	return s[:at], s[at:]
}
