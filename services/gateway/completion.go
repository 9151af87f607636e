package gateway

import (
	"context"

	"github.com/inspan/inspan/pkg/run"
)

// completion is one that a client waits for.
type completion struct {
	*following
	in ChatRequest
	// created is when it was asked for, in seconds.
	created int64
	sent    bool
}

// answer is one without its choices.
func (a *completion) answer(object string) ChatAnswer {
	return ChatAnswer{ID: a.run, Object: object, Created: a.created, Model: a.in.Model, Choices: []ChatChoice{}}
}

// stream answers piece by piece: the text of each turn as it is written, and at the end what is missing of the output
// of the run.
func (a *completion) stream(ctx context.Context) error {
	a.streams()
	a.text = a.words
	s, err := a.g.client.State(ctx, a.run)
	if err == nil {
		err = a.delta(ChatText{Role: "assistant"})
	}
	if err == nil {
		s, err = a.settled(ctx, s)
	}
	if err != nil {
		return a.fail(a.g.problem(a.c.route.path, err))
	}
	if p := unanswered(s); p != nil {
		return a.fail(p)
	}
	return a.finish(s)
}

// words passes on text; that of another turn is set apart.
func (a *completion) words(fresh bool, text string) error {
	if fresh && a.sent {
		text = "\n\n" + text
	}
	a.sent = true
	return a.delta(ChatText{Content: text})
}

// finish sends what is missing of the output, and the end.
func (a *completion) finish(s run.State) error {
	rest, whole := a.rest(s)
	if whole && a.sent {
		rest = "\n\n" + rest
	}
	if rest != "" {
		if err := a.delta(ChatText{Content: rest}); err != nil {
			return nil // the client is gone
		}
	}
	stop := "stop"
	last := a.answer("chat.completion.chunk")
	last.Choices = []ChatChoice{{Delta: &ChatText{}, Finish: &stop}}
	if a.event(last) != nil {
		return nil
	}
	if a.in.Options.Usage {
		usage := a.answer("chat.completion.chunk")
		usage.Usage = usageOf(s)
		if a.event(usage) != nil {
			return nil
		}
	}
	_, _ = a.w.Write([]byte("data: [DONE]\n\n")) // the client may be gone
	return nil
}

// fail ends the stream with an error: what came before is no answer.
func (a *completion) fail(p *Problem) error {
	_ = a.event(chatError(p)) // the client may be gone
	return nil
}

func (a *completion) delta(t ChatText) error {
	out := a.answer("chat.completion.chunk")
	out.Choices = []ChatChoice{{Delta: &t}}
	return a.event(out)
}
