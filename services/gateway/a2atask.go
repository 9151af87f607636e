package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/gateway/phase"
	"github.com/inspan/inspan/services/gateway/tokens"
)

// The states of tasks that are used.
const (
	a2aSubmitted = "TASK_STATE_SUBMITTED"
	a2aWorking   = "TASK_STATE_WORKING"
	a2aInput     = "TASK_STATE_INPUT_REQUIRED"
	a2aAuth      = "TASK_STATE_AUTH_REQUIRED"
	a2aCompleted = "TASK_STATE_COMPLETED"
	a2aFailed    = "TASK_STATE_FAILED"
	a2aCanceled  = "TASK_STATE_CANCELED"

	a2aUser  = "ROLE_USER"
	a2aAgent = "ROLE_AGENT"
	// a2aOutput is the artifact with what the agent writes.
	a2aOutput = "output"
)

// A2ATask is a run.
type A2ATask struct {
	ID        string            `json:"id"`
	Context   string            `json:"contextId"`
	Status    A2AStatus         `json:"status"`
	Artifacts []A2AArtifact     `json:"artifacts,omitempty"`
	History   []A2AMessage      `json:"history,omitempty"`
	Metadata  map[string]string `json:"metadata,omitempty"`
}

// A2AStatus is how a run stands.
type A2AStatus struct {
	State   string      `json:"state"`
	Message *A2AMessage `json:"message,omitempty"`
	At      string      `json:"timestamp"`
}

// A2AMessage is one of a client or of an agent.
type A2AMessage struct {
	ID       string         `json:"messageId"`
	Context  string         `json:"contextId,omitempty"`
	Task     string         `json:"taskId,omitempty"`
	Role     string         `json:"role"`
	Parts    []A2APart      `json:"parts"`
	Metadata map[string]any `json:"metadata,omitempty"`
}

// A2APart is text or data. Raw and URL are what is not taken.
type A2APart struct {
	Text *string         `json:"text,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
	Raw  *string         `json:"raw,omitempty"`
	URL  *string         `json:"url,omitempty"`
	Type string          `json:"mediaType,omitempty"`
}

// A2AArtifact is what an agent made.
type A2AArtifact struct {
	ID    string    `json:"artifactId"`
	Name  string    `json:"name,omitempty"`
	Parts []A2APart `json:"parts"`
}

// a2aState is the state of a task as a token sees it.
func a2aState(s run.State, t tokens.Token) string { return a2aPhase(phase.Of(s), s.Waiting(), t) }

// a2aPhase is the state of a task as a token sees it: what the token may not answer, somebody else must.
func a2aPhase(p phase.Phase, gates []*run.Gate, t tokens.Token) string {
	switch p {
	case phase.Queued:
		return a2aSubmitted
	case phase.Waiting:
		proven := slices.ContainsFunc(gates, func(g *run.Gate) bool { return g.Approvers > 1 }) // that of a token is not
		if t.Has(tokens.Answer) && !proven {
			return a2aInput
		}
		return a2aAuth
	case phase.Paused:
		if t.Has(tokens.Write) {
			return a2aInput
		}
		return a2aAuth
	case phase.Completed:
		return a2aCompleted
	case phase.Failed:
		return a2aFailed
	case phase.Stopped:
		return a2aCanceled
	case phase.Working:
	}
	return a2aWorking
}

// contextOf is the context of a run: its session, or itself.
func contextOf(s run.State) string {
	if s.Created != nil && s.Created.Session != "" {
		return s.Created.Session
	}
	return s.HarnessID
}

func text(s string) A2APart { return A2APart{Text: &s} }

// taskOf is a run as a task, with at most so many messages of its history.
func (x *a2aCall) taskOf(s run.State, history *int) A2ATask {
	t := A2ATask{ID: s.HarnessID, Context: contextOf(s), Status: x.statusOf(s),
		Metadata: map[string]string{"agent": s.AgentName, "status": string(s.Status)}}
	if s.Created != nil && (history == nil || *history > 0) {
		t.History = []A2AMessage{{ID: s.HarnessID + "-task", Context: t.Context, Task: t.ID, Role: a2aUser,
			Parts: []A2APart{text(s.Created.Task)}}}
	}
	if s.Status == events.Completed {
		t.Artifacts = []A2AArtifact{{a2aOutput, a2aOutput, []A2APart{text(s.Result.Output)}}}
	}
	return t
}

// statusOf is how a run stands, with what a client is to know or to do.
func (x *a2aCall) statusOf(s run.State) A2AStatus {
	st := A2AStatus{State: a2aState(s, x.c.token), At: s.UpdatedAt.UTC().Format("2006-01-02T15:04:05.000Z")}
	note := &A2AMessage{ID: fmt.Sprintf("%s-%d", s.HarnessID, s.Sequence), Context: contextOf(s), Task: s.HarnessID,
		Role: a2aAgent}
	switch p := phase.Of(s); p {
	case phase.Waiting:
		for _, g := range s.Waiting() {
			how := fmt.Sprintf("answer with: approve %s, or: reject %s REASON", g.ID, g.ID)
			if st.State == a2aAuth {
				how = fmt.Sprintf("a person decides: inspan approve %s, or inspan reject %s", g.ID, g.ID)
			}
			data, _ := json.Marshal(askedGate{Gate: g.ID, Hash: g.Hash, Description: g.Description}) // texts
			note.Parts = append(note.Parts, text("The run waits for a decision: "+forPeople(g.Description)+"\n"+how),
				A2APart{Data: data, Type: "application/json"})
		}
	case phase.Paused:
		note.Parts = []A2APart{text("The run is paused: " + forPeople(s.PauseReason) + "\nanswer with: resume")}
	case phase.Failed, phase.Stopped:
		note.Parts = []A2APart{text(strings.TrimSuffix(s.Result.FinishReason+": "+s.Result.Error, ": "))}
	case phase.Queued, phase.Working, phase.Completed:
		return st
	}
	st.Message = note
	return st
}

// askedGate is a gate as a program reads it, and the answer to one.
type askedGate struct {
	Gate        string `json:"gate_id,omitempty"`
	Hash        string `json:"proposal_hash,omitempty"`
	Description string `json:"description,omitempty"`
	Decision    string `json:"decision,omitempty"`
	Reason      string `json:"reason,omitempty"`
	// Action is resume for a run that is paused.
	Action string `json:"action,omitempty"`
}

// task is what a message asks for, as text.
func (m A2AMessage) task() (string, error) {
	var all []string
	for _, p := range m.Parts {
		switch {
		case p.Text != nil:
			all = append(all, *p.Text)
		case len(p.Data) > 0:
			all = append(all, string(p.Data))
		default:
			return "", fault(a2aContent, "CONTENT_TYPE_NOT_SUPPORTED", "a part is neither text nor data", "send text")
		}
	}
	return strings.Join(all, "\n"), nil
}

// answer is what a message says to a run that waits. It names the gate: what waits now need not be what was seen.
func (m A2AMessage) answer() askedGate {
	var a askedGate
	for _, p := range m.Parts {
		if len(p.Data) > 0 && json.Unmarshal(p.Data, &a) == nil && (a.Decision != "" || a.Action != "") {
			return a
		}
	}
	for _, p := range m.Parts {
		if p.Text == nil {
			continue
		}
		words := strings.Fields(*p.Text)
		switch {
		case len(words) == 1 && strings.EqualFold(words[0], "resume"):
			return askedGate{Action: "resume"}
		case len(words) > 1 && (strings.EqualFold(words[0], "approve") || strings.EqualFold(words[0], "reject")):
			return askedGate{Decision: strings.ToLower(words[0]), Gate: words[1], Reason: strings.Join(words[2:], " ")}
		}
	}
	return askedGate{}
}

// a2aSend is what a message comes with.
type a2aSend struct {
	Message A2AMessage `json:"message"`
	Config  struct {
		Now     bool            `json:"returnImmediately"`
		History *int            `json:"historyLength"`
		Push    json.RawMessage `json:"taskPushNotificationConfig"`
	} `json:"configuration"`
}

// send starts a run with a message, or answers the one that it names.
func (x *a2aCall) send(raw json.RawMessage, streams bool) error {
	var in a2aSend
	if err := params(raw, &in); err != nil {
		return err
	}
	m := in.Message
	if m.Role != a2aUser || len(m.Parts) == 0 || m.ID == "" || len(m.ID) > maxKey {
		return fault(rpcParams, "INVALID_PARAMS", "the message: want one of ROLE_USER with parts and a messageId", "")
	}
	if len(in.Config.Push) > 0 && string(in.Config.Push) != "null" {
		return noPush(x, nil)
	}
	ctx, end, err := x.g.waits(x.c)
	if err != nil {
		return err
	}
	defer end()
	var s run.State
	if m.Task != "" {
		s, err = x.continued(ctx, m)
	} else {
		s, err = x.started(ctx, m)
	}
	if err != nil {
		return err
	}
	if streams {
		return x.stream(ctx, s)
	}
	if !in.Config.Now {
		if s, err = x.g.follow(x.c, s.HarnessID).settled(ctx, s); err != nil {
			return err
		}
	}
	if err := last(x.g, x.c); err != nil {
		return err
	}
	return x.reply(object{"task": x.taskOf(s, in.Config.History)})
}

// started is the run of a message that begins one. The same message of the same token is the same run, for ever.
func (x *a2aCall) started(ctx context.Context, m A2AMessage) (run.State, error) {
	if err := x.needs(tokens.Write); err != nil {
		return run.State{}, err
	}
	task, err := m.task()
	if err != nil {
		return run.State{}, err
	}
	t := events.Task{ID: keyedID(x.c.token.Name, "a2a message "+m.ID), Agent: x.agent, Task: task, Session: m.Context,
		By: x.c.token.Name}
	if t.Agent == "" {
		t.Agent, _ = m.Metadata["agent"].(string)
	}
	if t.Agent == "" {
		return run.State{}, fault(rpcParams, "INVALID_PARAMS", "the message names no agent",
			"send it to /a2a/AGENT, or name one in its metadata: {\"agent\":\"NAME\"}")
	}
	if t.Session == "" { // later messages may go on with it
		t.Session = "ctx" + strings.TrimPrefix(t.ID, "key")
	}
	same, err := x.g.start(ctx, t)
	if err == nil && !same {
		err = fault(rpcParams, "INVALID_PARAMS", "the messageId belongs to another message",
			"send each message with an id of its own")
	}
	if err != nil {
		return run.State{}, err
	}
	return x.g.client.State(ctx, t.ID)
}

// continued is the run of a task with the answer of a message recorded.
func (x *a2aCall) continued(ctx context.Context, m A2AMessage) (run.State, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	s, err := x.task(ctx, m.Task)
	if err != nil {
		return s, err
	}
	if m.Context != "" && m.Context != contextOf(s) {
		return s, fault(rpcParams, "INVALID_PARAMS", "the contextId is not that of the task", "leave it out")
	}
	a := m.answer()
	if g := s.Gate(a.Gate); g != nil && (g.Status == run.GateApproved && a.Decision == "approve" ||
		g.Status == run.GateRejected && a.Decision == "reject") {
		return s, nil // it came before
	}
	switch p := phase.Of(s); {
	case p.Ended():
		return s, fault(a2aUnsupported, "UNSUPPORTED_OPERATION", "the task has ended",
			"send a message without a taskId and with this contextId")
	case a.Action == "resume" && p == phase.Paused:
		if err := x.needs(tokens.Write); err != nil {
			return s, err
		}
		return x.g.client.Control(ctx, m.Task, events.Control{Action: a.Action, By: x.c.token.Name})
	case a.Decision != "":
		if err := x.needs(tokens.Answer); err != nil {
			return s, err
		}
		if s.Gate(a.Gate) == nil {
			return s, fault(rpcParams, "INVALID_PARAMS", "the task has no such gate", "GetTask shows those that wait")
		}
		return x.g.decide(ctx, client.Decision{Run: m.Task, Gate: a.Gate, By: x.c.token.Name, Hash: a.Hash,
			Reason: a.Reason}, a.Decision)
	case p == phase.Waiting || p == phase.Paused:
		return s, fault(rpcParams, "INVALID_PARAMS", "the message is no answer to what the task waits for",
			"send the text \"approve GATE\", \"reject GATE REASON\" or \"resume\", or a data part with gate_id, "+
				"proposal_hash and decision")
	}
	return s, fault(a2aUnsupported, "UNSUPPORTED_OPERATION", "the task takes no messages while it works", "")
}

// stream sends a task and what becomes of it, until it has ended or waits for an answer of this client.
func (x *a2aCall) stream(ctx context.Context, s run.State) error {
	f := x.g.follow(x.c, s.HarnessID)
	f.streams()
	send := func(v object) error { return f.event(A2AReply{Version: "2.0", ID: x.id, Result: v}) }
	id, context := s.HarnessID, contextOf(s)
	update := func(s run.State) error {
		return send(object{"statusUpdate": object{"taskId": id, "contextId": context, "status": x.statusOf(s)}})
	}
	wrote := func(words string, appended, last bool) error {
		return send(object{"artifactUpdate": object{"taskId": id, "contextId": context, "append": appended, "lastChunk": last,
			"artifact": A2AArtifact{a2aOutput, a2aOutput, []A2APart{text(words)}}}})
	}
	shown := a2aState(s, x.c.token)
	f.over = func(s run.State) bool {
		st := a2aState(s, x.c.token)
		return s.Status.Ended() || st == a2aInput // what somebody else must do is waited for
	}
	f.text = func(fresh bool, words string) error { return wrote(words, !fresh, false) }
	f.see = func(item client.Item) error {
		if st := a2aState(item.State, x.c.token); st != shown && !f.over(item.State) {
			shown = st
			return update(item.State)
		}
		return nil
	}
	if err := send(object{"task": x.taskOf(s, nil)}); err != nil {
		return nil // the client is gone
	}
	if f.over(s) {
		return nil
	}
	s, err := f.settled(ctx, s)
	if err != nil {
		_, reply := x.refusal(err)
		_ = f.event(reply) // the client may be gone
		return nil
	}
	if s.Status == events.Completed {
		if rest, whole := f.rest(s); wrote(rest, !whole, true) != nil {
			return nil
		}
	}
	if f.over(s) {
		_ = update(s) // as above
	}
	return nil
}
