package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/gateway/phase"
	"github.com/inspan/inspan/services/gateway/tokens"
)

// aguiVersion of the protocol that is spoken here.
const aguiVersion = "1.0"

// AGUIInput is a request of AG-UI. What is not here is ignored: the agent has its own tools and context.
type AGUIInput struct {
	// Thread is the session, Run names the request: sent again, it is the same.
	Thread   string        `json:"threadId"`
	Run      string        `json:"runId"`
	Messages []ChatMessage `json:"messages"`
	// Resume answers what an earlier request ended with.
	Resume []AGUIResume `json:"resume,omitempty"`
}

// AGUIResume is the answer to an interrupt. Its payload has decision (approve or reject) and reason; cancelled decides
// nothing.
type AGUIResume struct {
	ID      string          `json:"interruptId"`
	Status  string          `json:"status"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// aguiRun is a request under way.
type aguiRun struct {
	*following
	in AGUIInput
	// message is the one that is open, and made counts them.
	message string
	made    int
}

// aguiRoutes are those of AG-UI.
func aguiRoutes() []route {
	return []route{{method: "POST", path: "/agui/{agent}", scope: tokens.Read, serve: serveAGUI, body: AGUIInput{},
		summary: "Run an agent for a user interface that speaks AG-UI; needs runs:write, too, and gates:answer for answers",
		answers: map[int]any{200: "text/event-stream"}}}
}

// serveAGUI streams what becomes of a request of AG-UI.
func serveAGUI(g *Gateway, c *call) error {
	var in AGUIInput
	if err := c.loose(&in, maxPayload); err != nil {
		return err
	}
	if err := events.CheckID("thread", in.Thread); err != nil {
		return err
	}
	if in.Run == "" || len(in.Run) > maxKey {
		return bad(fmt.Sprintf("runId: want 1 to %d characters", maxKey), "")
	}
	ctx, end, err := g.waits(c)
	if err != nil {
		return err
	}
	defer end()
	id, from, err := aguiBegin(ctx, g, c, in)
	if err != nil {
		return err
	}
	c.w.Header().Set("Location", "/api/v1/runs/"+id)
	a := &aguiRun{following: g.follow(c, id), in: in}
	return a.stream(ctx, from)
}

// aguiBegin starts the run of a request, or answers what it waits for. What stands behind from is news for the client.
func aguiBegin(ctx context.Context, g *Gateway, c *call, in AGUIInput) (id string, from run.State, err error) {
	if len(in.Resume) > 0 {
		return aguiResume(ctx, g, c, in)
	}
	if !c.token.Has(tokens.Write) {
		_, p := g.token(c.r, tokens.Write)
		return "", from, p
	}
	task, err := lastOfUser(in.Messages)
	if err != nil {
		return "", from, err
	}
	t := events.Task{ID: keyedID(c.token.Name, "ag-ui run "+in.Thread+" "+in.Run), Agent: c.r.PathValue("agent"),
		Task: task, Session: in.Thread, By: c.token.Name}
	same, err := g.start(ctx, t)
	if err == nil && !same {
		err = bad("the runId belongs to another request", "send each request with an id of its own")
	}
	return t.ID, from, err
}

// aguiResume gives the answers of a request to the station.
func aguiResume(ctx context.Context, g *Gateway, c *call, in AGUIInput) (id string, from run.State, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	for _, r := range in.Resume {
		of, about, ok := strings.Cut(r.ID, "/")
		if !ok || id != "" && of != id {
			return "", from, bad("resume: the interrupts are not those of one run", "send them as they came")
		}
		id = of
		if from, err = g.client.State(ctx, id); err != nil {
			return "", from, err
		}
		if from.AgentName != c.r.PathValue("agent") || from.Created.Session != in.Thread {
			return "", from, &client.NotFoundError{What: "run", ID: id}
		}
		if r.Status == "resolved" {
			if from, err = aguiAnswer(ctx, g, c, from, about, r.Payload); err != nil {
				return "", from, err
			}
		}
	}
	return id, from, nil
}

// aguiAnswer gives one answer to the station, and returns the run as it was right behind it.
func aguiAnswer(ctx context.Context, g *Gateway, c *call, s run.State, about string,
	payload json.RawMessage) (run.State, error) {
	var a askedGate
	if err := json.Unmarshal(payload, &a); err != nil {
		return s, bad("resume: the payload: "+err.Error(), `send {"decision":"approve"}, or reject with a reason`)
	}
	if s.Gate(about) == nil {
		if !c.token.Has(tokens.Write) {
			_, p := g.token(c.r, tokens.Write)
			return s, p
		}
		action := map[string]string{"approve": "resume", "reject": "stop"}[a.Decision]
		if !strings.HasPrefix(about, "pause-") || action == "" {
			return s, bad("resume: the run waits for no such thing", "send the interruptId as it came, with a decision")
		}
		return g.client.Control(ctx, s.HarnessID, events.Control{Action: action, By: c.token.Name, Reason: a.Reason})
	}
	if !c.token.Has(tokens.Answer) {
		_, p := g.token(c.r, tokens.Answer)
		return s, p
	}
	s, err := g.decide(ctx, client.Decision{Run: s.HarnessID, Gate: about, By: c.token.Name, Hash: a.Hash,
		Reason: a.Reason}, a.Decision)
	if err != nil {
		return s, err
	}
	return stateAt(ctx, g, s.HarnessID, s.Gate(about).Resolution)
}

// stateAt is a run as it was after the event of a sequence.
func stateAt(ctx context.Context, g *Gateway, id string, sequence uint64) (s run.State, err error) {
	for item, err := range g.client.Events(ctx, id, 0) {
		if err != nil {
			return s, err
		}
		if s = item.State; item.Event.Sequence >= sequence {
			break
		}
	}
	return s, nil
}

// stream sends the events behind a state until the run rests.
func (a *aguiRun) stream(ctx context.Context, from run.State) error {
	a.streams()
	if a.send("RUN_STARTED", object{"protocolVersion": aguiVersion}) != nil ||
		a.send("CUSTOM", object{"name": "inspan.run", "value": object{"run_id": a.run, "thread_id": a.in.Thread}}) != nil {
		return nil // the client is gone
	}
	a.text, a.see = a.words, a.happened
	s, err := a.g.client.State(ctx, a.run)
	if err == nil {
		a.head = s.Sequence
		s, err = a.settled(ctx, from)
	}
	if err == nil {
		err = a.close()
	}
	if err != nil {
		p := a.g.problem(a.c.route.path, err)
		_ = a.send("RUN_ERROR", object{"message": chatError(p).Error.Message, "code": p.Code}) // the client may be gone
		return nil
	}
	_ = a.finish(s) // as above
	return nil
}

// finish sends how the request ended.
func (a *aguiRun) finish(s run.State) error {
	switch p := phase.Of(s); p {
	case phase.Completed:
		return a.send("RUN_FINISHED", object{"result": s.Result.Output, "outcome": object{"type": "success"}})
	case phase.Stopped:
		return a.send("RUN_FINISHED", object{"outcome": object{"type": "cancelled"}})
	case phase.Failed:
		return a.send("RUN_ERROR", object{"code": s.Result.FinishReason,
			"message": s.Result.FinishReason + ": " + s.Result.Error})
	case phase.Queued, phase.Working:
		return a.send("RUN_ERROR", object{"message": "the run goes on: it is /api/v1/runs/" + a.run, "code": "run_goes_on"})
	case phase.Waiting, phase.Paused:
	}
	var all []object
	for _, g := range s.Waiting() {
		one := a.interrupt(g.ID, "approval", forPeople(g.Description), object{"proposal_hash": g.Hash})
		if g.CallID != "" {
			one["toolCallId"] = a.run + "/" + g.CallID
		}
		if !g.ExpiresAt.IsZero() {
			one["expiresAt"] = g.ExpiresAt.UTC().Format("2006-01-02T15:04:05.000Z")
		}
		all = append(all, one)
	}
	if s.Status == events.Paused {
		text := "The run is paused: " + forPeople(s.PauseReason) + "; approve goes on, reject stops it"
		all = []object{a.interrupt(fmt.Sprintf("pause-%d", s.ResumedAt), "paused", text, object{})}
	}
	return a.send("RUN_FINISHED", object{"outcome": object{"type": "interrupt", "interrupts": all}})
}

func (a *aguiRun) interrupt(about, reason, message string, more object) object {
	return object{"id": a.run + "/" + about, "reason": reason, "message": message, "metadata": more,
		"responseSchema": object{"type": "object", "required": []string{"decision"}, "properties": object{
			"decision": object{"type": "string", "enum": []string{"approve", "reject"}}, "reason": object{"type": "string"}}}}
}

// words sends text as it is written: each turn is a message.
func (a *aguiRun) words(fresh bool, text string) error {
	if fresh || a.message == "" {
		if err := a.close(); err != nil {
			return err
		}
		a.made++
		a.message = fmt.Sprintf("%s-%s-%d", a.run, a.in.Run, a.made)
		if err := a.send("TEXT_MESSAGE_START", object{"messageId": a.message, "role": "assistant"}); err != nil {
			return err
		}
	}
	return a.send("TEXT_MESSAGE_CONTENT", object{"messageId": a.message, "delta": text})
}

// close ends the message that is open.
func (a *aguiRun) close() error {
	if a.message == "" {
		return nil
	}
	id := a.message
	a.message = ""
	return a.send("TEXT_MESSAGE_END", object{"messageId": id})
}

// happened sends what an event says: the end of a turn, its calls and their results.
func (a *aguiRun) happened(item client.Item) error {
	switch d := item.Payload.(type) {
	case *events.TurnFinishedData:
		if rest, fresh := a.ended(d); rest != "" {
			if err := a.words(fresh, rest); err != nil {
				return err
			}
		}
		if err := a.close(); err != nil {
			return err
		}
		for _, c := range d.Calls {
			if err := a.call(c); err != nil {
				return err
			}
		}
	case *events.CallFinishedData:
		text := d.Output
		if !d.Success && d.Error != "" {
			text = d.Error
		}
		return a.result(d.ToolRef, text)
	case *events.CallFailedData:
		return a.result(d.ToolRef, d.Error)
	case *events.CallRefusedData:
		return a.result(d.ToolRef, d.Reason)
	}
	return nil
}

func (a *aguiRun) call(c events.RequestedCall) error {
	id := a.run + "/" + c.ID
	input := string(events.Plain(c.Input))
	if input == "" {
		input = "{}"
	}
	for _, e := range []struct {
		kind string
		more object
	}{{"TOOL_CALL_START", object{"toolCallId": id, "toolCallName": c.Tool}},
		{"TOOL_CALL_ARGS", object{"toolCallId": id, "delta": input}}, {"TOOL_CALL_END", object{"toolCallId": id}}} {
		if err := a.send(e.kind, e.more); err != nil {
			return err
		}
	}
	return nil
}

func (a *aguiRun) result(c events.ToolRef, text string) error {
	if c.Parent != "" {
		return nil // a call inside of a program of others was not announced
	}
	id := a.run + "/" + c.Call
	return a.send("TOOL_CALL_RESULT", object{"messageId": id + "-result", "toolCallId": id, "role": "tool",
		"content": text})
}

// send sends an event.
func (a *aguiRun) send(kind string, more object) error {
	more["type"] = kind
	if strings.HasPrefix(kind, "RUN_") && kind != "RUN_ERROR" {
		more["threadId"], more["runId"] = a.in.Thread, a.in.Run
	}
	return a.event(more)
}
