package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// publisher publishes messages of a client and waits for what comes of them.
type publisher struct{ c *Client }

// steer publishes a message about a run and waits for what comes of it.
func (p publisher) steer(ctx context.Context, runID, subject string, message any,
	done func(s run.State, input uint64) bool) (run.State, error) {
	input, letters, err := p.send(ctx, subject, message)
	if err != nil {
		return run.State{}, err
	}
	defer letters.stop()
	return p.await(ctx, runID, letters, func(s run.State) bool { return done(s, input) })
}

// sendAs publishes an answer in somebody's name: on the subject that permissions bind to that name, or where this user
// may not publish there, as a claim.
func (p publisher) sendAs(ctx context.Context, subject, by string, a events.Answer) (input uint64, l *letters,
	err error) {
	err = ErrDenied
	if by != "" {
		input, l, err = p.send(ctx, subject+"."+by, a)
	}
	if errors.Is(err, ErrDenied) {
		a.By = by
		return p.send(ctx, subject, a)
	}
	return input, l, err
}

// send publishes a message. It returns its position in the input stream, and what is refused of it; the caller stops
// that.
func (p publisher) send(ctx context.Context, subject string, message any) (input uint64, l *letters, err error) {
	body, err := json.Marshal(message)
	if err != nil {
		return 0, nil, fmt.Errorf("encode the message: %w", err)
	}
	token := rand.Text()
	if l, err = p.refusals(token); err != nil {
		return 0, nil, err
	}
	if input, err = p.publish(ctx, subject, body, token); err != nil {
		l.stop()
		return 0, nil, err
	}
	return input, l, nil
}

func (p publisher) publish(ctx context.Context, subject string, body []byte, token string) (seq uint64, err error) {
	seq, err = p.c.st.PublishAt(ctx, subject, body, map[string]string{tokenHeader: token})
	if errors.Is(err, ErrInputFull) {
		return 0, fmt.Errorf("station %s takes nothing more until its services have worked off what waits: send it again later, inspan doctor says which of them run: %w", p.c.st.Name(), err)
	}
	if err != nil {
		return 0, fmt.Errorf("%w: is station %s set up on this server, and may this user publish there? inspan doctor looks",
			err, p.c.st.Name())
	}
	return seq, nil
}

func (p publisher) refusals(token string) (*letters, error) {
	// one message has one dead letter; a second repeats it
	l := &letters{c: p.c, token: token, come: make(chan kernel.DeadLetter, 1)}
	var err error
	l.stop, err = p.c.st.WatchSubject(events.DeadSubject(p.c.st.Name(), "*"), func(_ string, data []byte) {
		var d kernel.DeadLetter
		if json.Unmarshal(data, &d) == nil && d.Token == token {
			select {
			case l.come <- d:
			default:
			}
		}
	})
	if errors.Is(err, ErrDenied) {
		l.stop, err = func() {}, nil // who may not listen may still read the list
	}
	return l, err
}

// await watches a run until want holds, the message was refused, or ctx ends.
func (p publisher) await(ctx context.Context, runID string, l *letters, want func(run.State) bool) (run.State, error) {
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	states, failed := make(chan run.State, 1), make(chan error, 1) // one each: the watcher never waits for us to look
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		var last run.State
		for item, err := range p.c.Watch(watch, runID, 0) {
			if err != nil {
				failed <- err
				return
			}
			if last = item.State; want(last) {
				states <- last
				return
			}
		}
		// It ended without what was wanted: only a refusal can follow.
	}()
	defer func() { cancel(); <-gone }()
	for wait := lookFirst; ; wait = min(2*wait, quietMost) {
		select {
		case s := <-states:
			return s, nil
		case d := <-l.come:
			if l.answers(d) {
				return run.State{}, refused(d)
			}
		case err := <-failed:
			if ctx.Err() == nil && !errors.Is(err, ErrDenied) {
				return run.State{}, err
			}
			return run.State{}, &SilentError{Station: p.c.st.Name(), Run: runID, Err: err}
		case <-time.After(wait):
			if d, ok := l.look(ctx); ok {
				return run.State{}, refused(d)
			}
		case <-ctx.Done():
			return run.State{}, &SilentError{Station: p.c.st.Name(), Run: runID, Err: context.Cause(ctx)}
		}
	}
}

const tokenHeader = "Inspan-Token"

// letters waits for the dead letter of the message with a token.
type letters struct {
	c     *Client
	token string
	come  chan kernel.DeadLetter
	stop  func()
	// input is the position of the message in the input stream. The token of a task is its id, so that letters of earlier
	// tasks of the same id have it, too.
	input uint64
	// after is how far the list was looked through.
	after uint64
}

// answers reports whether a letter is about the message, and not about an earlier one of the same token.
func (l *letters) answers(d kernel.DeadLetter) bool { return d.Token == l.token && d.Seq >= l.input }

// look finds the letter in the list, in case that it came while the connection was away. An error only means that it
// is looked again.
func (l *letters) look(ctx context.Context) (kernel.DeadLetter, bool) {
	for {
		page, more, err := l.c.st.Dead(ctx, l.after)
		if err != nil {
			return kernel.DeadLetter{}, false
		}
		if i := slices.IndexFunc(page, func(r jet.Refused) bool { return l.answers(r.Letter) }); i >= 0 {
			return page[i].Letter, true
		}
		if len(page) > 0 {
			l.after = page[len(page)-1].Seq
		}
		if !more {
			return kernel.DeadLetter{}, false
		}
	}
}

// lookFirst is how soon the list of refusals is read where nothing has come by itself.
const lookFirst = 500 * time.Millisecond

func refused(d kernel.DeadLetter) error {
	return &RefusedError{Code: d.Code, Reason: d.Reason, Hint: d.Hint}
}
