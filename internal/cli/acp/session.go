package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/inspan/inspan/internal/cli/dispatch"
	"github.com/inspan/inspan/internal/cli/workcopy"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/gateway/phase"
)

// session is one of the station that this editor has open.
type session struct {
	id     string
	copied *workcopy.Copy

	mu sync.Mutex
	// Guarded by mu: whether a prompt is under way or a run is followed, its run once there is one, whether the editor
	// has cancelled it, and the last task that was placed.
	busy, cancelled bool
	run             string
	placed          events.Task
}

// atParams are those of session/new and session/load.
type atParams struct {
	Session string            `json:"sessionId"`
	Dir     string            `json:"cwd"`
	Servers []json.RawMessage `json:"mcpServers"`
}

// begin begins a session. The station knows it from its first prompt on.
func (s *server) begin(ctx context.Context, raw json.RawMessage) (any, error) {
	if err := s.known(ctx); err != nil {
		return nil, err
	}
	ss, err := s.open(ctx, raw, "acp-"+strings.TrimPrefix(client.NewID(), "run-"))
	if err != nil {
		return nil, err
	}
	return map[string]any{"sessionId": ss.id}, nil
}

// known refuses an agent that the station does not have. A user who may not look is refused by the station later.
func (s *server) known(ctx context.Context) error {
	ctx, cancel := s.wait(ctx)
	defer cancel()
	all, err := s.c.Agents(ctx)
	if err != nil || slices.ContainsFunc(all, func(a events.Agent) bool { return a.Name == s.agent }) {
		return nil //nolint:nilerr // the first prompt says what is wrong
	}
	return &rpcError{codeParams, fmt.Sprintf("station %s has no agent %q: inspan agents lists them", s.c.Station(),
		s.agent)}
}

// open opens a session for this editor; id is that of a new one.
func (s *server) open(ctx context.Context, raw json.RawMessage, id string) (*session, error) {
	var at atParams
	if err := json.Unmarshal(raw, &at); err != nil {
		return nil, &rpcError{codeParams, "the params: " + err.Error()}
	}
	if !filepath.IsAbs(at.Dir) {
		return nil, &rpcError{codeParams, "cwd is not an absolute path"}
	}
	if id == "" {
		if id = at.Session; !events.ValidID(id) {
			return nil, &rpcError{codeParams, "sessionId is none"}
		}
	}
	if len(at.Servers) > 0 {
		fmt.Fprintln(s.app.Err, "inspan: the MCP servers of the editor are not used: an agent has its own (inspan mcp add)")
	}
	copied, err := s.flags.CopyOf(ctx, at.Dir)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.sessions[id]; old != nil {
		copied.Close()
		return old, nil
	}
	if len(s.sessions) >= maxSessions {
		copied.Close()
		return nil, &rpcError{codeRequest, fmt.Sprintf("more than %d sessions are open", maxSessions)}
	}
	ss := &session{id: id, copied: copied}
	s.sessions[id] = ss
	return ss, nil
}

// load opens a session of the station: its conversation is told again. A run that works in it is followed on.
func (s *server) load(ctx context.Context, raw json.RawMessage) (any, error) {
	var at atParams
	if json.Unmarshal(raw, &at) != nil || !events.ValidID(at.Session) {
		return nil, &rpcError{codeParams, "sessionId is none"}
	}
	wait, cancel := s.wait(ctx)
	defer cancel()
	talk, err := s.c.Sessions().History(wait, at.Session)
	if err != nil {
		return nil, err
	}
	open, err := s.underWay(wait, at.Session)
	if err != nil {
		return nil, err
	}
	ss, err := s.open(ctx, raw, "")
	if err != nil {
		return nil, err
	}
	for _, m := range talk.Messages {
		s.replay(ss, m)
	}
	if open == "" {
		return struct{}{}, nil
	}
	ss.mu.Lock()
	busy := ss.busy
	if !busy {
		ss.busy, ss.run, ss.cancelled = true, open, false
	}
	ss.mu.Unlock()
	if !busy {
		s.working.Go(func() {
			defer ss.rest()
			t := newTurn(s, ss, open)
			if st, err := s.c.State(ctx, open); err == nil && st.Created != nil {
				ss.update(s, "user_message_chunk", map[string]any{"content": textBlock(st.Created.Task)})
			}
			err := t.listen(ctx)
			if err == nil {
				defer t.leave()
				_, err = t.follow(ctx)
			}
			if err != nil && ctx.Err() == nil {
				ss.text(s, "\n\n"+s.refusal(err).Message)
			}
		})
	}
	return struct{}{}, nil
}

// underWay is the run that works in a session; empty for none.
func (s *server) underWay(ctx context.Context, id string) (string, error) {
	e, err := s.c.Sessions().Get(ctx, id)
	if err != nil || len(e.Holders) == 0 {
		return "", err
	}
	return e.Holders[len(e.Holders)-1].Run, nil
}

// replay sends what was said before.
func (s *server) replay(ss *session, m events.Message) {
	switch m.Role {
	case events.RoleUser:
		ss.update(s, "user_message_chunk", map[string]any{"content": textBlock(m.Content)})
	case events.RoleAssistant:
		if m.Content != "" {
			ss.text(s, m.Content)
		}
		for _, c := range m.Calls {
			ss.update(s, "tool_call", map[string]any{"toolCallId": m.Metadata.Run + "/" + c.ID, "kind": kindOf(c.Name),
				"title": titleOf(c.Name, c.Input), "status": "pending"})
		}
	case events.RoleTool:
		for _, r := range m.Results {
			status := "completed"
			if r.Failed {
				status = "failed"
			}
			ss.update(s, "tool_call_update", map[string]any{"toolCallId": m.Metadata.Run + "/" + r.CallID, "status": status,
				"content": contentOf(r.Output)})
		}
	}
}

// rest ends what is under way.
func (ss *session) rest() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.busy, ss.run = false, ""
}

// update sends an update of the session.
func (ss *session) update(s *server, kind string, fields map[string]any) {
	fields["sessionUpdate"] = kind
	s.send(message{Method: "session/update", Params: map[string]any{"sessionId": ss.id, "update": fields}})
}

func (ss *session) text(s *server, text string) {
	ss.update(s, "agent_message_chunk", map[string]any{"content": textBlock(text)})
}

// claim has a session carry out a prompt, and returns both. It does not wait.
func (s *server) claim(raw json.RawMessage) (ss *session, text string, err error) {
	var in struct {
		Session string  `json:"sessionId"`
		Prompt  []block `json:"prompt"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, "", &rpcError{codeParams, "the params: " + err.Error()}
	}
	s.mu.Lock()
	ss = s.sessions[in.Session]
	s.mu.Unlock()
	if ss == nil {
		return nil, "", &rpcError{codeMissing, "there is no such session: begin one, or load it"}
	}
	if text, err = promptOf(in.Prompt); err != nil {
		return nil, "", err
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.busy {
		return nil, "", &rpcError{codeRequest, "a prompt of this session is under way: wait for it, or cancel it"}
	}
	ss.busy, ss.cancelled = true, false
	return ss, text, nil
}

// prompt starts the run of a prompt that was claimed, or not with an error, and follows it to its end.
func (s *server) prompt(ctx context.Context, ss *session, text string, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	defer ss.rest()
	return s.work(ctx, ss, text)
}

// work carries out a prompt.
func (s *server) work(ctx context.Context, ss *session, text string) (_ any, err error) {
	task, err := s.flags.Task(s.agent, strings.NewReader(""))
	if err != nil {
		return nil, err
	}
	task.ID, task.Task, task.Session = client.NewID(), text, ss.id
	task.Stream, task.Attended, task.By = true, true, s.app.Me()
	var visit *dispatch.Visit
	if s.flags.InPlace() || ss.placed.Session != ss.id {
		if visit, err = s.place(ctx, ss.copied, &task); err != nil {
			return nil, err
		}
		ss.placed = events.Task{Session: ss.id, Repo: task.Repo, Git: task.Git}
	}
	task.Repo, task.Git = ss.placed.Repo, ss.placed.Git
	var st run.State
	defer func() { err = errors.Join(err, dispatch.Leave(ctx, s.app, visit, st.Status.Ended())) }()
	t := newTurn(s, ss, task.ID)
	if err := t.listen(ctx); err != nil { // before there is anything to miss
		return nil, err
	}
	defer t.leave()
	wait, cancel := s.wait(ctx)
	_, err = s.c.Start(wait, task)
	cancel()
	if err != nil {
		return nil, err
	}
	ss.mu.Lock()
	ss.run = task.ID
	cancelled := ss.cancelled
	ss.mu.Unlock()
	if cancelled { // before there was a run
		s.stop(ctx, task.ID)
	}
	if st, err = t.follow(ctx); err != nil {
		return nil, err
	}
	if st.Status.Ended() { // the next prompt finds what was said
		wait, cancel := s.wait(ctx)
		defer cancel()
		_ = s.c.Sessions().Settled(wait, ss.id, task.ID) // who may not look goes on; the station waits for itself
	}
	return s.outcome(ss, st)
}

// outcome is what a prompt is answered with.
func (s *server) outcome(ss *session, st run.State) (any, error) {
	reason := ""
	switch phase.Of(st) {
	case phase.Completed:
		reason = "end_turn"
	case phase.Stopped:
		reason = "cancelled"
	case phase.Failed:
		switch st.Result.FinishReason {
		case events.FinishMaxSteps, events.FinishToolCalls:
			reason = "max_turn_requests"
		case events.FinishTokens, events.FinishLength, events.FinishContext:
			reason = "max_tokens"
		case events.FinishRefusal:
			reason = "refusal"
		default:
			return nil, &rpcError{codeInternal, fmt.Sprintf("run %s failed: %s: %s", st.HarnessID, st.Result.FinishReason,
				st.Result.Error)}
		}
	case phase.Queued, phase.Working, phase.Waiting, phase.Paused:
		reason = "end_turn"
		ss.text(s, fmt.Sprintf("\n\nThe run is %s and stays so. Go on with: inspan resume %s", phase.Of(st), st.HarnessID))
	}
	return map[string]any{"stopReason": reason}, nil
}

// cancel stops the run of a prompt, which is then answered.
func (s *server) cancel(ctx context.Context, raw json.RawMessage) {
	var in struct {
		Session string `json:"sessionId"`
	}
	if json.Unmarshal(raw, &in) != nil {
		return
	}
	s.mu.Lock()
	ss := s.sessions[in.Session]
	s.mu.Unlock()
	if ss == nil {
		return
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if !ss.busy || ss.cancelled {
		return
	}
	ss.cancelled = true
	if id := ss.run; id != "" {
		s.working.Go(func() { s.stop(ctx, id) })
	}
}

// stop asks the station to stop a run. That it has ended meanwhile is as good.
func (s *server) stop(ctx context.Context, id string) {
	ctx, cancel := s.wait(ctx)
	defer cancel()
	_, err := s.c.Control(ctx, id, events.Control{Action: "stop", By: s.app.Me(), Reason: "cancelled in the editor"})
	if _, refused := errors.AsType[*client.RefusedError](err); err != nil && !refused {
		fmt.Fprintf(s.app.Err, "inspan: stop run %s: %v\n", id, err)
	}
}
