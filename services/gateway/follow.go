package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/gateway/phase"
)

// following is a run that a client follows, as the protocols with answers of their own do.
type following struct {
	g   *Gateway
	c   *call
	w   *lasting
	run string
	// beat is called now and then: an error ends it, as where the client is gone.
	beat func() error
	// see, which may be nil, is called with each event that comes.
	see func(client.Item) error
	// text, where it is not nil, is called with the text of turns as it is written; fresh where that of another turn
	// begins.
	text func(fresh bool, text string) error
	// over, where it is not nil, says that there is nothing more to wait for; else that is a run that rests.
	over func(run.State) bool
	// head is the sequence up to which events are repeated: no text comes before that.
	head uint64
	said passage
}

// passage is the text that is passed on. Of turns at the same time, as of parallel steps, one is.
type passage struct {
	// turn is the one whose text is passed on, and text what was of it; gone are turns whose text is not.
	turn turn
	text strings.Builder
	gone map[turn]bool
	// done is the last turn of each step that has ended: what comes late of it is not passed on.
	done map[string]int
	// early is text that overtook the end of the turn before it.
	early []client.Piece
}

// maxEarly is how many pieces may.
const maxEarly = 256

// turn of a step, and which try of it.
type turn struct {
	step    string
	number  int
	attempt int
}

// follow prepares to follow a run that a request is about.
func (g *Gateway) follow(c *call, id string) *following {
	f := followed(g, id)
	f.c, f.w = c, &lasting{ResponseWriter: c.w, rc: http.NewResponseController(c.w), wait: g.cfg.WriteWait}
	f.beat = func() error {
		if _, p := g.token(c.r, c.route.scope); p != nil {
			return p
		}
		if !f.w.alive() {
			return context.Canceled // the client is gone
		}
		return nil
	}
	return f
}

// followed is a run that is followed for whoever sets beat.
func followed(g *Gateway, id string) *following {
	return &following{g: g, run: id, said: passage{gone: map[turn]bool{}, done: map[string]int{}}}
}

// settled follows the run from a state on until it is over or the time is.
func (f *following) settled(ctx context.Context, s run.State) (run.State, error) {
	over := f.over
	if over == nil {
		over = func(s run.State) bool { return phase.Of(s).Rests() }
	}
	if over(s) {
		return s, nil
	}
	follow, cancel := context.WithCancel(ctx)
	pieces, unlive, err := f.live(follow)
	if err != nil {
		cancel()
		return s, err
	}
	items, ended := f.g.watch(follow, f.run, s.Sequence+1)
	defer func() { cancel(); unlive(); ended() }()
	beat := time.NewTicker(f.g.cfg.Heartbeat)
	defer beat.Stop()
	for !over(s) {
		words := pieces
		if s.Sequence < f.head {
			words = nil
		}
		select {
		case in, more := <-items:
			if in.err != nil || !more {
				return f.late(ctx, s, in.err)
			}
			s = in.item.State
			if err := f.item(in.item); err != nil {
				return s, err
			}
		case p := <-words:
			if err := f.piece(s, p); err != nil {
				return s, err
			}
		case <-beat.C:
			if err := f.beat(); err != nil {
				return s, err
			}
		case <-ctx.Done():
			return f.late(ctx, s, nil)
		}
	}
	return s, nil
}

// item passes on an event, and the text that was before its time.
func (f *following) item(item client.Item) error {
	if f.see != nil {
		if err := f.see(item); err != nil {
			return err
		}
	}
	held := f.said.early
	f.said.early = nil
	for _, p := range held {
		if err := f.piece(item.State, p); err != nil {
			return err
		}
	}
	return nil
}

// live has text come as it is written, where it is wanted.
func (f *following) live(ctx context.Context) (pieces <-chan client.Piece, stop func(), err error) {
	if f.text == nil {
		return nil, func() {}, nil
	}
	out := make(chan client.Piece) // the station repeats what is not taken in time
	stop, err = f.g.client.Stream(ctx, f.run, func(p client.Piece) {
		select {
		case out <- p:
		case <-ctx.Done():
		}
	})
	return out, stop, err
}

// late is how a run stands whose time is over; where the client or the gateway is gone there is no one to tell.
func (f *following) late(ctx context.Context, s run.State, err error) (run.State, error) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return s, nil
	}
	return s, errors.Join(err, ctx.Err())
}

// piece passes on text.
func (f *following) piece(s run.State, p client.Piece) error {
	of, said := turn{p.Step, p.Turn, p.Attempt}, &f.said
	if p.Event != "token" || said.gone[of] || p.Text == "" || p.Turn <= said.done[p.Step] {
		return nil
	}
	if early(s, p) && len(said.early) < maxEarly {
		said.early = append(said.early, p)
		return nil
	}
	fresh := said.turn != of
	if fresh {
		if st := s.Step(said.turn.step); said.turn.step != "" && said.turn.step != of.step && st != nil &&
			st.Status == events.StepIsRunning {
			said.gone[of] = true
			return nil
		}
		said.gone[said.turn] = true
		said.turn = of
		said.text.Reset()
	}
	if p.Missed {
		said.gone[of] = true // the end brings the whole text
		return nil
	}
	said.text.WriteString(p.Text)
	return f.text(fresh, p.Text)
}

// early reports whether text overtook the end of the turn before it, or of a call of that. The calls of programs of
// others last as long as these write.
func early(s run.State, p client.Piece) bool {
	for _, c := range s.Open {
		if c.Step == p.Step && c.Turn < p.Turn && c.Parent == "" && c.Program == nil {
			return true
		}
	}
	return p.Turn > s.Turns().Len()+1
}

// ended is what is missing of the text of a turn that has ended; fresh where nothing of it was passed on.
func (f *following) ended(d *events.TurnFinishedData) (rest string, fresh bool) {
	f.said.done[d.Step] = d.Turn
	if of := f.said.turn; of.step == d.Step && of.number == d.Turn && d.TextRef == nil {
		if rest, begun := strings.CutPrefix(d.Text, f.said.text.String()); begun {
			return rest, f.said.text.Len() == 0
		}
	}
	return d.Text, true
}

// rest is what is missing of the output of a run behind the text that was passed on; whole where that is all of it.
func (f *following) rest(s run.State) (rest string, whole bool) {
	if s.Result == nil {
		return "", false
	}
	rest, begun := strings.CutPrefix(s.Result.Output, f.said.text.String())
	return rest, !begun || f.said.text.Len() == 0
}

// event sends a value as a server-sent event.
func (f *following) event(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := f.w.Write(append(append([]byte("data: "), b...), "\n\n"...)); err != nil {
		return context.Canceled // the client is gone
	}
	if f.w.FlushError() != nil {
		return context.Canceled
	}
	return nil
}

// streams begins an answer of server-sent events.
func (f *following) streams() { f.w.Header().Set("Content-Type", "text/event-stream") }

// waits counts a request as one that waits, and lets it take long. ctx ends with the gateway, too; end must be called.
func (g *Gateway) waits(c *call) (ctx context.Context, end func(), err error) {
	release, ok := g.limits.stream(c.token.Name)
	if !ok {
		return nil, nil, tooManyStreams()
	}
	if err := c.endless(); err != nil {
		release()
		return nil, nil, err
	}
	ctx, stop := g.running(c.r.Context())
	ctx, cancel := context.WithTimeout(ctx, maxCall)
	return ctx, func() {
		cancel()
		stop()
		release()
		_ = last(g, c) // the connection may be gone
	}, nil
}

// last lets the end of an answer that waited be written in time.
func last(g *Gateway, c *call) error {
	return http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(g.cfg.WriteWait))
}
