package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// completion is one that a client waits for.
type completion struct {
	g   *Gateway
	c   *call
	w   *lasting
	in  ChatRequest
	run string
	// created is when it was asked for, in seconds.
	created int64
	// turn is the turn whose text is passed on, and text what was of it; gone are turns whose text is not.
	turn turn
	text strings.Builder
	gone map[turn]bool
	sent bool
}

// turn of a step, and which try of it.
type turn struct {
	step    string
	number  int
	attempt int
}

// answer is one without its choices.
func (a *completion) answer(object string) ChatAnswer {
	return ChatAnswer{ID: a.run, Object: object, Created: a.created, Model: a.in.Model, Choices: []ChatChoice{}}
}

// settled follows the run until it has an answer or waits for what this client does not give. see, which may be nil, is
// what is done with the text that comes meanwhile.
func (a *completion) settled(ctx context.Context, pieces <-chan client.Piece) (run.State, error) {
	s, err := a.g.client.State(ctx, a.run)
	if err != nil {
		return s, err
	}
	follow, cancel := context.WithCancel(ctx)
	items, ended := a.g.watch(follow, a.run, s.Sequence+1)
	defer func() { cancel(); ended() }()
	beat := time.NewTicker(a.g.cfg.Heartbeat)
	defer beat.Stop()
	for !s.Status.Ended() && s.Status != events.Paused && len(s.Waiting()) == 0 {
		select {
		case in, more := <-items:
			if in.err != nil || !more {
				return a.late(ctx, s, in.err)
			}
			s = in.item.State
		case p := <-pieces:
			if err := a.piece(s, p); err != nil {
				return s, err
			}
		case <-beat.C:
			if _, p := a.g.token(a.c.r, a.c.route.scope); p != nil {
				return s, p
			}
			if !a.w.alive() {
				return s, context.Canceled // the client is gone
			}
		case <-ctx.Done():
			return a.late(ctx, s, nil)
		}
	}
	return s, nil
}

// late is how a run stands whose time is over; where the client or the gateway is gone there is no one to tell.
func (a *completion) late(ctx context.Context, s run.State, err error) (run.State, error) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return s, nil
	}
	return s, errors.Join(err, ctx.Err())
}

// stream answers piece by piece: the text of each turn as it is written, and at the end what is missing of the output
// of the run.
func (a *completion) stream(ctx context.Context) error {
	h := a.w.Header()
	h.Set("Content-Type", "text/event-stream")
	a.gone = map[turn]bool{}
	live, cancel := context.WithCancel(ctx)
	pieces := make(chan client.Piece) // the station repeats what is not taken in time
	stop, err := a.g.client.Stream(live, a.run, func(p client.Piece) {
		select {
		case pieces <- p:
		case <-live.Done():
		}
	})
	if err != nil {
		cancel()
		return err
	}
	var s run.State
	if err = a.delta(ChatText{Role: "assistant"}); err == nil {
		s, err = a.settled(ctx, pieces)
	}
	cancel()
	stop()
	if err != nil {
		return a.fail(a.g.problem(a.c.route.path, err))
	}
	if p := unanswered(s); p != nil {
		return a.fail(p)
	}
	return a.finish(s)
}

// piece passes on text. Of turns at the same time, as of parallel steps, one is passed on.
func (a *completion) piece(s run.State, p client.Piece) error {
	of := turn{p.Step, p.Turn, p.Attempt}
	if p.Event != "token" || a.gone[of] || p.Text == "" {
		return nil
	}
	if a.turn != of {
		if st := s.Step(a.turn.step); a.turn.step != "" && a.turn.step != of.step && st != nil &&
			st.Status == events.StepIsRunning {
			a.gone[of] = true
			return nil
		}
		if a.sent {
			if err := a.delta(ChatText{Content: "\n\n"}); err != nil {
				return err
			}
		}
		a.gone[a.turn] = true
		a.turn = of
		a.text.Reset()
	}
	if p.Missed {
		a.gone[of] = true // the end brings the whole text
		return nil
	}
	a.text.WriteString(p.Text)
	a.sent = true
	return a.delta(ChatText{Content: p.Text})
}

// finish sends what is missing of the output, and the end.
func (a *completion) finish(s run.State) error {
	rest, begun := strings.CutPrefix(s.Result.Output, a.text.String())
	if !begun {
		rest = "\n\n" + s.Result.Output
	}
	if rest != "" {
		if err := a.delta(ChatText{Content: rest}); err != nil {
			return nil // the client is gone
		}
	}
	stop := "stop"
	last := a.answer("chat.completion.chunk")
	last.Choices = []ChatChoice{{Delta: &ChatText{}, Finish: &stop}}
	if a.send(last) != nil {
		return nil
	}
	if a.in.Options.Usage {
		usage := a.answer("chat.completion.chunk")
		usage.Usage = usageOf(s)
		if a.send(usage) != nil {
			return nil
		}
	}
	_, _ = a.w.Write([]byte("data: [DONE]\n\n")) // the client may be gone
	return nil
}

// fail ends the stream with an error: what came before is no answer.
func (a *completion) fail(p *Problem) error {
	_ = a.send(chatError(p)) // the client may be gone
	return nil
}

func (a *completion) delta(t ChatText) error {
	out := a.answer("chat.completion.chunk")
	out.Choices = []ChatChoice{{Delta: &t}}
	return a.send(out)
}

// send sends one event.
func (a *completion) send(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := a.w.Write(append(append([]byte("data: "), b...), "\n\n"...)); err != nil {
		return err
	}
	return a.w.FlushError()
}
