package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/gateway/tokens"
)

const (
	// maxCall is the most that a call of a tool, or a completion, waits for the end of its run.
	maxCall = time.Hour
	// progressEvery is the least time between two notes of progress.
	progressEvery = 100 * time.Millisecond
	// maxQuestion is the most bytes of what a person is asked.
	maxQuestion = 4 << 10
)

// waiting is a call that waits for a run.
type waiting struct {
	m     *mcpServer
	req   *sdk.CallToolRequest
	token tokens.Token
	run   string
	wait  time.Duration
	// asked is what an earlier part of this call asked.
	asked asked

	// notes say why gates were not answered; an empty one is that of a gate that was.
	notes map[string]string
	// progress counts the notes of progress, notedAt is when the last one was sent.
	progress float64
	notedAt  time.Time
}

// asked is the requestState of a call that asks a person: of which run, and the hash of each gate's proposal.
type asked struct {
	Run   string            `json:"run_id"`
	Gates map[string]string `json:"gates"`
}

// bare is a request that has only the header of one.
func bare(extra *sdk.RequestExtra) *http.Request { return &http.Request{Header: extra.Header} }

// result waits and says how the run stands then, or asks the client to ask a person.
func (w *waiting) result(ctx context.Context) (toolResult, ToolRun, error) {
	w.notes = map[string]string{}
	for gate, response := range w.req.Params.InputResponses {
		res, _ := response.(*sdk.ElicitResult)
		w.decide(ctx, gate, w.asked.Gates[gate], res)
	}
	s, err := w.settled(ctx)
	if err != nil {
		return nil, ToolRun{}, w.m.rpcError(err)
	}
	if open := w.open(s); w.asks() && w.newest() && len(open) > 0 {
		state := asked{Run: w.run, Gates: map[string]string{}}
		out := &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{}}
		for _, g := range open {
			state.Gates[g.ID] = g.Hash
			out.InputRequests[g.ID] = question(s, g)
		}
		b, err := json.Marshal(state)
		out.RequestState = string(b)
		return out, ToolRun{}, err
	}
	out := standing(s, w.notes)
	return &sdk.CallToolResult{Content: out.content(), IsError: s.Status == events.Failed}, out, nil
}

// asks reports whether a person is asked: the client can, and the token may answer.
func (w *waiting) asks() bool { return w.token.Has(tokens.Answer) && elicits(w.req.Session) }

// newest reports whether the client is asked by the answer to its request.
func (w *waiting) newest() bool {
	p := w.req.Session.InitializeParams()
	return p != nil && p.ProtocolVersion >= mcpStateless
}

// open are the gates that wait and that no one was asked for yet.
func (w *waiting) open(s run.State) []*run.Gate {
	var open []*run.Gate
	for _, g := range s.Waiting() {
		if _, done := w.notes[g.ID]; !done {
			open = append(open, g)
		}
	}
	return open
}

// over reports whether there is nothing more to wait for: the run has ended or stands, or waits for an answer that this
// call does not get.
func (w *waiting) over(s run.State) bool {
	if s.Status.Ended() || s.Status == events.Paused {
		return true
	}
	if open := w.open(s); len(open) > 0 {
		return !w.asks() || w.newest()
	}
	for _, g := range s.Waiting() {
		if w.notes[g.ID] == "" {
			return false // it was answered: that is in the log soon
		}
	}
	return len(s.Waiting()) > 0
}

// answer of a person to the question for a gate.
type answer struct {
	gate *run.Gate
	res  *sdk.ElicitResult
	err  error
}

// settled follows the run until there is nothing to wait for or the time is over, and asks for its gates meanwhile.
func (w *waiting) settled(ctx context.Context) (run.State, error) {
	soon, cancel := context.WithTimeout(ctx, requestWait)
	s, err := w.m.g.client.State(soon, w.run)
	cancel()
	if err != nil || w.wait == 0 {
		return s, err
	}
	w.note(ctx, "run "+w.run+" of "+s.AgentName+" is "+string(s.Status))
	ctx, cancel = context.WithCancel(ctx)
	items, ended := w.m.g.watch(ctx, w.run, s.Sequence+1)
	answers := make(chan answer, 1) // one is asked for at a time
	var asking sync.WaitGroup
	defer func() { cancel(); ended(); asking.Wait() }()
	end, beat := time.NewTimer(w.wait), time.NewTicker(w.m.g.cfg.Heartbeat)
	defer end.Stop()
	defer beat.Stop()
	var gate *run.Gate
	unask := context.CancelFunc(func() {})
	for !w.over(s) {
		if open := w.open(s); gate == nil && len(open) > 0 {
			about, stop := context.WithCancel(ctx)
			gate, unask = open[0], stop
			of, q := gate, question(s, gate)
			asking.Go(func() {
				res, err := w.req.Session.Elicit(about, q)
				answers <- answer{of, res, err}
			})
		}
		select {
		case in, more := <-items:
			if in.err != nil || !more {
				return s, errors.Join(in.err, ctx.Err())
			}
			if s = in.item.State; gate != nil && s.Gate(gate.ID).Status != run.GatePending {
				unask() // somebody else was faster
			}
			w.note(ctx, fmt.Sprintf("run %s: %s", w.run, in.item.Payload.Kind()))
		case a := <-answers:
			unask()
			gate = nil
			if s.Gate(a.gate.ID).Status == run.GatePending {
				if a.err != nil {
					a.res = nil
				}
				w.decide(ctx, a.gate.ID, a.gate.Hash, a.res)
			}
		case <-beat.C:
			if _, p := w.m.token(w.req.Extra); p != nil {
				return s, p
			}
			w.note(ctx, "run "+w.run+" is "+string(s.Status))
		case <-end.C:
			return s, nil
		}
	}
	unask()
	return s, nil
}

// decide gives the answer of a person to the station, and notes why there is none.
func (w *waiting) decide(ctx context.Context, gate, hash string, res *sdk.ElicitResult) {
	note := ""
	switch {
	case !w.token.Has(tokens.Answer):
		note = "the token does not have the scope " + string(tokens.Answer)
	case hash == "" || res == nil:
		note = "no one could be asked"
	case res.Action != "accept":
		note = "the person who was asked did not decide"
	default:
		decision, _ := res.Content["decision"].(string)
		reason, _ := res.Content["reason"].(string)
		ctx, cancel := context.WithTimeout(ctx, requestWait)
		defer cancel()
		_, err := w.m.g.decide(ctx, client.Decision{Run: w.run, Gate: gate, By: w.token.Name, Hash: hash, Reason: reason},
			decision)
		if err != nil {
			note = w.m.rpcError(err).Error()
		}
	}
	w.notes[gate] = note
}

// note tells the client of progress, where it wants to know. It comes by the way: who does not read it misses nothing.
func (w *waiting) note(ctx context.Context, text string) {
	token := w.req.Params.GetProgressToken()
	if token == nil || time.Since(w.notedAt) < progressEvery {
		return
	}
	w.progress++
	w.notedAt = time.Now()
	_ = w.req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: w.progress,
		Message: text})
}

// question is what a person is asked. What the run wants to do is text of a model.
func question(s run.State, g *run.Gate) *sdk.ElicitParams {
	return &sdk.ElicitParams{Mode: "form",
		Message: fmt.Sprintf("Run %s of the agent %s waits for a decision.\n%s", s.HarnessID, s.AgentName,
			forPeople(g.Description)),
		RequestedSchema: object{"type": "object", "required": []string{"decision"}, "properties": object{
			"decision": object{"type": "string", "enum": []string{"approve", "reject"}},
			"reason":   object{"type": "string", "description": "for the agent and the log"}}}}
}

// forPeople is text of a model as a person is shown it.
func forPeople(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' {
			return ' '
		}
		return r
	}, text)
	if len(text) > maxQuestion {
		text = strings.ToValidUTF8(text[:maxQuestion], "") + " ... (cut off: look at the run before you decide)"
	}
	return text
}
