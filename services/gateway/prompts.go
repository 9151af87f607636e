package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/inspan/inspan/internal/agentbus"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/gateway/phase"
)

// prompter is who starts runs and answers gates over the Synadia Agent Protocol. The NATS server decides who may; who
// it was, it does not say.
const prompter = "agents-protocol"

// maxAsked is how often one gate is asked about where the answers decide nothing.
const maxAsked = 5

// answerPrompts answers prompts of the Synadia Agent Protocol until ctx ends.
func answerPrompts(ctx context.Context, g *Gateway) {
	bus := g.cfg.Agents
	if bus == nil {
		return
	}
	err := bus.Serve(ctx, agentbus.Service{Station: g.client.Station(), Program: g.cfg.Program,
		Agents: func(ctx context.Context) (names []string, err error) {
			all, err := g.client.Agents(ctx)
			for _, a := range all {
				names = append(names, a.Name)
			}
			return names, err
		},
		Prompt: func(ctx context.Context, p agentbus.Prompt) {
			a := &prompted{g: g, bus: bus, p: p, asked: map[string]bool{}}
			err := bus.Send(p.Reply, agentbus.Ack())
			if err == nil {
				err = a.answer(ctx)
			}
			if err != nil && !errors.Is(err, errGone) {
				why := g.problem(prompter, err)
				text := chatError(why).Error.Message
				if ctx.Err() != nil {
					text = "the gateway stops, and the run goes on: send the prompt with the same Nats-Msg-Id again"
				}
				err = bus.Fail(p.Reply, promptCode(why.Status), text)
			}
			if err = errors.Join(err, bus.End(p.Reply)); err != nil && !errors.Is(err, errGone) {
				g.cfg.Failed(prompter, err)
			}
		},
		Failed: func(err error) { g.cfg.Failed(prompter, err) }})
	if err != nil && ctx.Err() == nil {
		g.cfg.Failed(prompter, fmt.Errorf("prompts are not answered: %w", err))
	}
}

// errGone means that no one takes the answer any more.
var errGone = errors.New("the caller is gone")

// promptCode is a status as the protocol has them.
func promptCode(status int) int {
	switch status {
	case 400, 401, 403, 404, 409, 429, 500:
		return status
	case 413, 415:
		return 400
	case 422: // another request has the id, or the run failed
		return 409
	}
	return 500
}

// prompted is a prompt that is answered.
type prompted struct {
	g   *Gateway
	bus agentbus.Bus
	p   agentbus.Prompt
	f   *following
	// said is true once there was text; turn is the whole text of the last turn that was sent.
	said bool
	turn string
	// asked has the gates and pauses that were asked about.
	asked   map[string]bool
	asking  sync.WaitGroup
	waiting context.Context
}

// task is what a prompt asks for.
func (a *prompted) task() (t events.Task, err error) {
	in, err := agentbus.Read(a.p.Data)
	if err != nil {
		return t, bad(err.Error(), "")
	}
	if len(a.p.ID) > maxKey {
		return t, bad(fmt.Sprintf("Nats-Msg-Id: want at most %d characters", maxKey), "")
	}
	t = events.Task{ID: client.NewID(), Agent: a.p.Agent, Task: in.Prompt, Session: in.Session, By: prompter}
	if a.p.ID != "" {
		t.ID = keyedID(prompter, a.p.Agent+" "+a.p.ID)
	}
	return t, nil
}

// answer runs the agent and sends what it says until the run has ended.
func (a *prompted) answer(ctx context.Context) error {
	if p := a.g.often(prompter); p != nil {
		return p
	}
	t, err := a.task()
	if err != nil {
		return err
	}
	release, ok := a.g.limits.stream(prompter)
	if !ok {
		return tooManyStreams()
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, maxCall)
	defer cancel()
	same, err := a.g.start(ctx, t)
	if r, ok := errors.AsType[*client.RefusedError](err); ok && r.Code == "unknown_agent" {
		return &Problem{Status: 404, Code: "not_found", Detail: r.Reason,
			Hint: "nats req '$SRV.INFO.agents' '' lists those there are"}
	}
	if err == nil && !same {
		err = &Problem{Status: 409, Code: "duplicate_id", Detail: "the Nats-Msg-Id belongs to another prompt",
			Hint: "send the same as before, or another id"}
	}
	if err == nil {
		err = a.bus.Send(a.p.Reply, agentbus.Run(t.ID))
	}
	if err != nil {
		return err
	}
	return a.stream(ctx, t.ID)
}

// stream sends what happens in a run until it has ended.
func (a *prompted) stream(ctx context.Context, id string) error {
	now, err := a.g.client.State(ctx, id)
	if err != nil {
		return err
	}
	waiting, settle := context.WithCancel(ctx)
	defer func() { settle(); a.asking.Wait() }()
	a.waiting = waiting
	a.f = followed(a.g, id)
	a.f.head, a.f.text, a.f.see = now.Sequence, a.words, a.happened
	a.f.over = func(s run.State) bool { return phase.Of(s).Ended() && s.Sequence >= now.Sequence }
	a.f.beat = func() error {
		if !a.bus.Alive(ctx, a.p.Reply) {
			return errGone
		}
		return nil
	}
	s, err := a.f.settled(ctx, run.State{HarnessID: id})
	if err != nil {
		return err
	}
	switch phase.Of(s) {
	case phase.Completed:
		if rest, whole := a.f.rest(s); rest != "" && s.Result.Output != a.turn {
			return a.words(whole, rest)
		}
		return nil
	case phase.Stopped:
		return &Problem{Status: 409, Code: "run_stopped", Detail: "the run " + id + " was stopped: " + s.Result.Error}
	case phase.Failed:
		return &Problem{Status: 500, Code: "run_failed", Detail: "the run " + id + " failed, " + s.Result.FinishReason +
			": " +
			s.Result.Error}
	case phase.Queued, phase.Working, phase.Waiting, phase.Paused:
	}
	return &Problem{Status: 500, Code: "run_goes_on", Detail: "the run " + id + " has not ended in an hour and goes on",
		Hint: "send the prompt with the same Nats-Msg-Id again to wait on"}
}

// words sends text.
func (a *prompted) words(fresh bool, text string) error {
	if fresh && a.said {
		text = "\n\n" + text
	}
	a.said = true
	return a.bus.Send(a.p.Reply, agentbus.Text(text))
}

// happened sends what is missing of the text of a turn, and asks about what the run waits for.
func (a *prompted) happened(item client.Item) error {
	if d, ok := item.Payload.(*events.TurnFinishedData); ok {
		rest, fresh := a.f.ended(d)
		if d.TextRef != nil {
			rest = "" // it is only the beginning: the output has the rest
		} else {
			a.turn = d.Text
		}
		if rest != "" {
			if err := a.words(fresh, rest); err != nil {
				return err
			}
		}
	}
	s := item.State
	if s.Sequence < a.f.head {
		return nil // what it waited for then is decided
	}
	for _, g := range s.Waiting() {
		a.ask(matter{run: s.HarnessID, about: g.ID, hash: g.Hash,
			text: "The agent wants to do this: " + forPeople(g.Description) + "\nAnswer approve, or reject and why."})
	}
	if s.Status == events.Paused && !s.PausedByParent {
		a.ask(matter{run: s.HarnessID, about: fmt.Sprintf("pause-%d", s.ResumedAt), paused: true,
			text: "The run is paused: " + forPeople(s.PauseReason) + "\nAnswer resume, or stop."})
	}
	return nil
}

// matter is what the caller is asked about.
type matter struct {
	run, about, hash, text string
	paused                 bool
}

// ask asks about one thing, once, and has the station have the answer.
func (a *prompted) ask(q matter) {
	if a.asked[q.about] {
		return
	}
	a.asked[q.about] = true
	ctx := a.waiting
	a.asking.Go(func() {
		text := q.text
		for range maxAsked {
			why, err := a.question(ctx, q, text)
			if err != nil && ctx.Err() == nil {
				a.g.cfg.Failed(prompter, err)
			}
			if err != nil || why == "" {
				return
			}
			text = why + "\n" + q.text
		}
	})
}

// question asks once, and returns why the answer decided nothing; "" where it did.
func (a *prompted) question(ctx context.Context, q matter, text string) (why string, err error) {
	subject, answers, stop, err := a.bus.Ask(a.g.client.Station())
	if err != nil {
		return "", err
	}
	defer stop()
	if err := a.bus.Send(a.p.Reply, agentbus.Query(q.about, subject, text)); err != nil {
		return "", err
	}
	var data []byte
	select {
	case data = <-answers:
	case <-ctx.Done():
		return "", nil
	}
	word, rest, err := agentbus.Decision(data)
	if err != nil {
		return "The answer cannot be read: " + err.Error(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.g.cfg.RequestWait)
	defer cancel()
	err = a.decide(ctx, q, word, rest)
	if err != nil && ctx.Err() == nil {
		return "Nothing was decided: " + chatError(a.g.problem(prompter, err)).Error.Message, nil
	}
	return "", err
}

// decide gives an answer to the station.
func (a *prompted) decide(ctx context.Context, q matter, word, rest string) (err error) {
	switch {
	case !q.paused:
		_, err = a.g.decide(ctx, client.Decision{Run: q.run, Gate: q.about, By: prompter, Reason: rest, Hash: q.hash}, word)
	case word == "resume" || word == "stop":
		_, err = a.g.client.Control(ctx, q.run, events.Control{Action: word, By: prompter, Reason: rest})
	default:
		err = bad(fmt.Sprintf("%.32q is neither resume nor stop", word), "")
	}
	return err
}
