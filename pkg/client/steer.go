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
	"github.com/inspan/inspan/pkg/approval"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// TaskType and Source are the CloudEvents type and source of a task that this package publishes.
const (
	TaskType = events.TaskType
	Source   = "/inspan/client"
)

// Dispatch publishes a task as a CloudEvent and returns its run's id once the task is stored. The run itself may still
// be refused: Start tells. A task with an id that is published again starts nothing new.
func (c *Client) Dispatch(ctx context.Context, t events.Task) (runID string, err error) {
	if t.ID == "" {
		t.ID = NewID()
	}
	if err := events.CheckID("task", t.ID); err != nil {
		return "", err
	}
	if n := len(t.Task); n > events.MaxTask { // one that is larger still would only be called too large by the server
		return "", &RefusedError{Code: "bad_input", Reason: fmt.Sprintf("the task has %d bytes, the limit is %d", n, events.MaxTask), Hint: "put it into a file of the workspace, and name the file"}
	}
	body, err := json.Marshal(map[string]any{"specversion": "1.0", "id": t.ID, "source": Source, "type": TaskType,
		"time": time.Now().UTC(), "datacontenttype": "application/json", "data": t})
	if err != nil {
		return "", fmt.Errorf("encode the task: %w", err)
	}
	_, err = c.publish(ctx, events.TaskSubject(c.st.Name()), body, t.ID)
	return t.ID, err
}

// Start is Dispatch that waits until the run exists. It returns a *RefusedError, or a *SilentError with the run's id
// where ctx ended first.
func (c *Client) Start(ctx context.Context, t events.Task) (runID string, err error) {
	if t.ID == "" {
		t.ID = NewID()
	}
	letters, err := c.refusals(t.ID)
	if err != nil {
		return "", err
	}
	defer letters.stop()
	if _, err := c.Dispatch(ctx, t); err != nil {
		return "", err
	}
	_, err = c.await(ctx, t.ID, letters, func(s run.State) bool { return s.Sequence > 0 })
	return t.ID, err
}

// Decision is an answer to a gate.
type Decision struct {
	Run, Gate string
	// By is who answers: part of the subject, which permissions can bind to a user. Where this user may not answer in that
	// name it is only claimed, which the event says too. Empty answers in no one's name.
	By     string
	Reason string
	// Hash is the proposal_hash that was seen; the answer is refused where another proposal waits. Empty takes any.
	Hash string
	// Edit approves these arguments, a JSON object, instead of those proposed. They are judged like any call's.
	Edit json.RawMessage
	// Sign signs the answer, where it is not nil. Without a Hash the one that waits now is signed.
	Sign *approval.Key
}

// Approve answers a gate with yes and returns the run's state with the answer recorded (GATE-9). The first answer to a
// gate wins: where it was a yes of somebody else the gate in the state names them, where it was a no, and for a gate
// that does not exist, Approve returns a *RefusedError. Where the gate needs several approvers the answer may be one vote
// of them: the gate in the state is then still pending.
func (c *Client) Approve(ctx context.Context, d Decision) (run.State, error) {
	return c.decide(ctx, d, "approve")
}

// Reject answers a gate with no and returns the run's state with the run paused. Its errors are those of Approve.
func (c *Client) Reject(ctx context.Context, d Decision) (run.State, error) {
	return c.decide(ctx, d, "reject")
}

func (c *Client) decide(ctx context.Context, d Decision, word string) (run.State, error) {
	subject := events.GateSubject(c.st.Name(), d.Run, d.Gate)
	ids := []struct{ what, id string }{{"run", d.Run}, {"gate", d.Gate}}
	if d.By != "" {
		ids = append(ids, struct{ what, id string }{"approver", d.By})
	}
	for _, i := range ids {
		if err := events.CheckID(i.what, i.id); err != nil {
			return run.State{}, err
		}
	}
	answer := events.Answer{Decision: word, Reason: d.Reason, ProposalHash: d.Hash}
	if len(d.Edit) > 0 {
		var err error
		if answer.EditedInput, err = events.EditedInput(d.Edit); err != nil {
			return run.State{}, err
		}
	}
	if d.Sign != nil {
		if err := c.sign(ctx, d, &answer); err != nil {
			return run.State{}, err
		}
	}
	done := func(s run.State, input uint64) bool {
		g := s.Gate(d.Gate)
		if g != nil && g.Status == run.GatePending {
			return slices.ContainsFunc(g.Votes, func(v run.Vote) bool { return v.Input == input })
		}
		return g != nil && g.Input == input && (word == "approve" || s.Status != events.Running || g.Resolution <= s.ResumedAt)
	}
	var s run.State
	err := ErrDenied
	if d.By != "" {
		s, err = c.steer(ctx, d.Run, subject+"."+d.By, answer, done)
	}
	if _, stored := errors.AsType[*SilentError](err); errors.Is(err, ErrDenied) && !stored {
		// This user may not answer in that name: then the name is only a claim.
		answer.By = d.By
		s, err = c.steer(ctx, d.Run, subject, answer, done)
	}
	if r, ok := errors.AsType[*RefusedError](err); ok && r.Code == "gate_closed" && len(d.Edit) == 0 {
		return c.agreed(ctx, d, word, err)
	}
	return s, err
}

// sign fills in what a signed answer has more.
func (c *Client) sign(ctx context.Context, d Decision, a *events.Answer) (err error) {
	if a.ProposalHash == "" {
		s, err := c.State(ctx, d.Run)
		if err != nil {
			return err
		}
		g := s.Gate(d.Gate)
		if g == nil {
			return notFound("gate", d.Gate)
		}
		a.ProposalHash = g.Hash
	}
	hash := a.ProposalHash
	if len(a.EditedInput) > 0 {
		hash = events.EditedHash(hash, a.EditedInput)
	}
	a.Key = d.Sign.ID()
	a.Signature, err = d.Sign.Sign(approval.Statement{Station: c.st.Name(), Run: d.Run, Gate: d.Gate, Decision: a.Decision,
		ProposalHash: hash, Reason: a.Reason})
	return err
}

// agreed returns the state of a run whose gate was answered before: in the same way is as good as by this answer.
func (c *Client) agreed(ctx context.Context, d Decision, word string, refusal error) (run.State, error) {
	s, err := c.State(ctx, d.Run)
	if err != nil {
		return s, err
	}
	want := map[string]run.GateStatus{"approve": run.GateApproved, "reject": run.GateRejected}[word]
	if g := s.Gate(d.Gate); g == nil || g.Status != want || len(g.Edited) > 0 {
		return run.State{}, refusal
	}
	return s, nil
}

// Control steers a run and returns its state with that recorded. It returns a *RefusedError for a move that the run
// cannot make, and ErrNotFound for a run that does not exist.
func (c *Client) Control(ctx context.Context, runID string, ctl events.Control) (run.State, error) {
	if _, err := c.State(ctx, runID); err != nil {
		return run.State{}, err
	}
	return c.steer(ctx, runID, events.ControlSubject(c.st.Name(), runID), ctl, func(s run.State, input uint64) bool {
		switch {
		case s.Took(input):
			return true
		case ctl.Action == "stop": // where all steps were done it completes, by itself
			return s.Status == events.Completed
		}
		return ctl.Action == "autonomy" && s.Options.Autonomy == ctl.Level // the level in force is not said again
	})
}

// steer publishes a message about a run and waits for what comes of it.
func (c *Client) steer(ctx context.Context, runID, subject string, message any, done func(s run.State, input uint64) bool) (run.State, error) {
	input, letters, err := c.send(ctx, subject, message)
	if err != nil {
		return run.State{}, err
	}
	defer letters.stop()
	return c.await(ctx, runID, letters, func(s run.State) bool { return done(s, input) })
}

// send publishes a message. It returns its position in the input stream, and what is refused of it; the caller stops that.
func (c *Client) send(ctx context.Context, subject string, message any) (input uint64, l *letters, err error) {
	body, err := json.Marshal(message)
	if err != nil {
		return 0, nil, fmt.Errorf("encode the message: %w", err)
	}
	token := rand.Text()
	if l, err = c.refusals(token); err != nil {
		return 0, nil, err
	}
	if input, err = c.publish(ctx, subject, body, token); err != nil {
		l.stop()
		return 0, nil, err
	}
	return input, l, nil
}

const tokenHeader = "Inspan-Token"

func (c *Client) publish(ctx context.Context, subject string, body []byte, token string) (seq uint64, err error) {
	seq, err = c.st.PublishAt(ctx, subject, body, map[string]string{tokenHeader: token})
	if errors.Is(err, ErrInputFull) {
		return 0, fmt.Errorf("station %s takes nothing more until its services have worked off what waits: send it again later, inspan doctor says which of them run: %w", c.st.Name(), err)
	}
	if err != nil {
		return 0, fmt.Errorf("%w: is station %s set up on this server, and may this user publish there? inspan doctor looks", err, c.st.Name())
	}
	return seq, nil
}

// letters waits for the dead letter of the message with a token.
type letters struct {
	c     *Client
	token string
	come  chan kernel.DeadLetter
	stop  func()
	// after is how far the list was looked through.
	after uint64
}

func (c *Client) refusals(token string) (*letters, error) {
	l := &letters{c: c, token: token, come: make(chan kernel.DeadLetter, 1)} // one message has one dead letter; a second repeats it
	var err error
	l.stop, err = c.st.WatchSubject(events.DeadSubject(c.st.Name(), "*"), func(_ string, data []byte) {
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

// look finds the letter in the list, in case that it came while the connection was away. An error only means that it
// is looked again.
func (l *letters) look(ctx context.Context) (kernel.DeadLetter, bool) {
	for {
		page, more, err := l.c.st.Dead(ctx, l.after)
		if err != nil {
			return kernel.DeadLetter{}, false
		}
		if i := slices.IndexFunc(page, func(r jet.Refused) bool { return r.Letter.Token == l.token }); i >= 0 {
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

// await watches a run until want holds, the message was refused, or ctx ends.
func (c *Client) await(ctx context.Context, runID string, l *letters, want func(run.State) bool) (run.State, error) {
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	states, failed := make(chan run.State, 1), make(chan error, 1) // one each: the watcher never waits for us to look
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		var last run.State
		for item, err := range c.Watch(watch, runID, 0) {
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
			return run.State{}, refused(d)
		case err := <-failed:
			if ctx.Err() == nil && !errors.Is(err, ErrDenied) {
				return run.State{}, err
			}
			return run.State{}, &SilentError{Station: c.st.Name(), Run: runID, Err: err}
		case <-time.After(wait):
			if d, ok := l.look(ctx); ok {
				return run.State{}, refused(d)
			}
		case <-ctx.Done():
			return run.State{}, &SilentError{Station: c.st.Name(), Run: runID, Err: context.Cause(ctx)}
		}
	}
}

func refused(d kernel.DeadLetter) error {
	return &RefusedError{Code: d.Code, Reason: d.Reason, Hint: d.Hint}
}
