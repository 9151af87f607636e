package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/gateway/tokens"
)

// The tools that there always are. An agent of such a name is no tool of its own.
const (
	callTool    = "call_harness_agent"
	getTool     = "get_run"
	controlTool = "control_run"
	answerTool  = "answer_gate"
)

// toolScopes are the scopes that a token needs for a tool.
var toolScopes = map[string][]tokens.Scope{callTool: {tokens.Read, tokens.Write}, getTool: {tokens.Read},
	controlTool: {tokens.Read, tokens.Write}, answerTool: {tokens.Read, tokens.Answer}}

// CallInput is what call_harness_agent takes.
type CallInput struct {
	Agent     string         `json:"agent" jsonschema:"name of the agent"`
	Task      string         `json:"task" jsonschema:"what it is to do"`
	Session   string         `json:"session_id,omitempty" jsonschema:"session that the run belongs to"`
	Workspace *WorkspaceSpec `json:"workspace,omitempty" jsonschema:"where it works"`
	Timeout   string         `json:"timeout,omitempty" jsonschema:"how long the run may take, such as 30m"`
	Autonomy  int            `json:"autonomy,omitempty" jsonschema:"1 to 5; that of the agent if absent"`
	Wait      string         `json:"wait,omitempty" jsonschema:"how long this call waits for the end, such as 50s or 0s"`
	Key       string         `json:"idempotency_key,omitempty" jsonschema:"the same key starts one run, for ever"`
}

// WorkspaceSpec is a git repository to work in.
type WorkspaceSpec struct {
	Repo string `json:"repo" jsonschema:"address of a git repository"`
	Ref  string `json:"ref,omitempty" jsonschema:"branch, tag or commit"`
}

// GetInput is what get_run takes.
type GetInput struct {
	Run  string `json:"run_id"`
	Wait string `json:"wait,omitempty" jsonschema:"how long to wait for the end, such as 50s; not at all if absent"`
}

// ControlInput is what control_run takes.
type ControlInput struct {
	Run    string `json:"run_id"`
	Action string `json:"action" jsonschema:"stop, pause or resume"`
	Reason string `json:"reason,omitempty"`
}

// AnswerInput is what answer_gate takes.
type AnswerInput struct {
	Run      string `json:"run_id"`
	Gate     string `json:"gate_id"`
	Hash     string `json:"proposal_hash" jsonschema:"that of the gate: the answer is refused if another action waits"`
	Decision string `json:"decision" jsonschema:"approve or reject"`
	Reason   string `json:"reason,omitempty"`
}

// ToolRun is how a run stands, as the tools say it.
type ToolRun struct {
	Run    string        `json:"run_id"`
	Status events.Status `json:"status"`
	// Output of a run that has ended, or the reason of its failure.
	Output string `json:"output,omitempty"`
	// Structured is the output where the agent has an output schema.
	Structured   json.RawMessage `json:"structured,omitempty"`
	Error        string          `json:"error,omitempty"`
	FinishReason string          `json:"finish_reason,omitempty"`
	Gates        []ToolGate      `json:"gates,omitempty"`
	Next         string          `json:"next,omitempty" jsonschema:"what to do next"`
}

// ToolGate is a gate that waits for an answer.
type ToolGate struct {
	Gate        string `json:"gate_id"`
	Description string `json:"description"`
	Hash        string `json:"proposal_hash"`
	// Note says why the gate was not answered.
	Note string `json:"note,omitempty"`
}

func (m *mcpServer) addTools() {
	sdk.AddTool(m.server, &sdk.Tool{Name: callTool, Title: "Call an agent", Description: "Start a run of an agent and " +
		"wait for its result. The run is durable: it goes on when this call is cancelled or its connection is lost."}, m.call)
	sdk.AddTool(m.server, &sdk.Tool{Name: getTool, Title: "Show a run", Description: "Say how a run stands, or wait " +
		"for its end.", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}}, m.get)
	sdk.AddTool(m.server, &sdk.Tool{Name: controlTool, Title: "Steer a run",
		Description: "Stop, pause or resume a run."}, m.control)
	sdk.AddTool(m.server, &sdk.Tool{Name: answerTool, Title: "Answer a gate", Description: "Approve or reject what a " +
		"run waits for. Only a person may decide: ask first."}, m.answer)
}

// toolResult is what a tool returns.
type toolResult = *sdk.CallToolResult

// may refuses a token that must not use a tool.
func (m *mcpServer) may(req *sdk.CallToolRequest, tool string) (tokens.Token, error) {
	t, p := m.token(req.Extra)
	if p == nil {
		for _, s := range toolScopes[tool] {
			if !t.Has(s) {
				_, p = m.g.token(bare(req.Extra), s)
			}
		}
	}
	if p != nil {
		return t, m.rpcError(p)
	}
	return t, nil
}

func (m *mcpServer) call(ctx context.Context, req *sdk.CallToolRequest, in CallInput) (toolResult, ToolRun, error) {
	token, err := m.may(req, callTool)
	if err != nil {
		return nil, ToolRun{}, err
	}
	wait, err := waitOf(in.Wait, maxCall)
	if err != nil {
		return nil, ToolRun{}, m.rpcError(err)
	}
	t := events.Task{ID: client.NewID(), Agent: in.Agent, Task: in.Task, Session: in.Session, Timeout: in.Timeout,
		By: token.Name}
	if in.Workspace != nil {
		t.Repo, t.Ref = in.Workspace.Repo, in.Workspace.Ref
	}
	if in.Autonomy != 0 {
		t.Autonomy = &in.Autonomy
	}
	h := req.Extra.Header
	switch session, id := h.Get(sessionHeader), h.Get(requestHeader); {
	case len(in.Key) > maxKey || strings.Contains(in.Key, "\x00"):
		return nil, ToolRun{}, m.rpcError(bad(fmt.Sprintf("idempotency_key: want 1 to %d characters", maxKey), ""))
	case in.Key != "":
		t.ID = keyedID(token.Name, in.Key)
	case session != "" && id != "": // no key of a caller has the byte 0
		t.ID = keyedID(token.Name, "mcp\x00"+session+"\x00"+id)
	}
	w := &waiting{m: m, req: req, token: token, run: t.ID, wait: wait}
	if req.Params.RequestState != "" {
		return m.again(ctx, w, t)
	}
	same, err := m.g.start(ctx, t)
	if _, silent := errors.AsType[*client.SilentError](err); silent {
		return nil, ToolRun{Run: t.ID, Status: events.Created, Next: "the run begins when the station's services run: " +
			"ask with " + getTool}, nil
	}
	if err == nil && !same {
		err = &Problem{Code: "duplicate_id", Detail: "the idempotency_key belongs to another task", Run: t.ID}
	}
	if err != nil {
		return nil, ToolRun{}, m.rpcError(err)
	}
	return w.result(ctx)
}

// again goes on with the call whose gates a person was asked for. What it was comes from the client, so it is believed
// nothing: the log must have that run, of this very task and token, and the station looks at the hash of each answer.
func (m *mcpServer) again(ctx context.Context, w *waiting, t events.Task) (toolResult, ToolRun, error) {
	if err := json.Unmarshal([]byte(w.req.Params.RequestState), &w.asked); err != nil {
		return nil, ToolRun{}, m.rpcError(bad("the requestState is none", "repeat it as it came"))
	}
	t.ID, w.run = w.asked.Run, w.asked.Run
	want, err := t.Digest()
	if err != nil {
		return nil, ToolRun{}, err
	}
	got, err := m.g.digest(ctx, t.ID)
	if err == nil && got != want {
		err = bad("the requestState is that of another call", "repeat it with the arguments of its call")
	}
	if err != nil {
		return nil, ToolRun{}, m.rpcError(err)
	}
	return w.result(ctx)
}

func (m *mcpServer) get(ctx context.Context, req *sdk.CallToolRequest, in GetInput) (toolResult, ToolRun, error) {
	token, err := m.may(req, getTool)
	if err != nil {
		return nil, ToolRun{}, err
	}
	wait, err := waitOf(in.Wait, 0)
	if err != nil {
		return nil, ToolRun{}, m.rpcError(err)
	}
	w := &waiting{m: m, req: req, token: token, run: in.Run, wait: wait}
	if s := req.Params.RequestState; s != "" && (json.Unmarshal([]byte(s), &w.asked) != nil || w.asked.Run != in.Run) {
		return nil, ToolRun{}, m.rpcError(bad("the requestState is that of another call", "repeat it as it came"))
	}
	return w.result(ctx)
}

func (m *mcpServer) control(ctx context.Context, req *sdk.CallToolRequest, in ControlInput) (toolResult, ToolRun,
	error) {
	token, err := m.may(req, controlTool)
	if err != nil {
		return nil, ToolRun{}, err
	}
	if in.Action != "stop" && in.Action != "pause" && in.Action != "resume" {
		return nil, ToolRun{}, m.rpcError(bad("action: want stop, pause or resume", ""))
	}
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	s, err := m.g.client.Control(ctx, in.Run, events.Control{Action: in.Action, By: token.Name, Reason: in.Reason})
	if err != nil {
		return nil, ToolRun{}, m.rpcError(err)
	}
	out := standing(s, nil)
	return &sdk.CallToolResult{Content: out.content()}, out, nil
}

func (m *mcpServer) answer(ctx context.Context, req *sdk.CallToolRequest, in AnswerInput) (toolResult, ToolRun,
	error) {
	token, err := m.may(req, answerTool)
	if err != nil {
		return nil, ToolRun{}, err
	}
	if elicits(req.Session) { // its model does not decide where a person can be asked
		return nil, ToolRun{}, m.rpcError(&Problem{Code: "ask", Detail: "this client asks a person itself",
			Hint: "call " + getTool + " with wait"})
	}
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	s, err := m.g.decide(ctx, client.Decision{Run: in.Run, Gate: in.Gate, By: token.Name, Reason: in.Reason,
		Hash: in.Hash}, in.Decision)
	if err != nil {
		return nil, ToolRun{}, m.rpcError(err)
	}
	out := standing(s, nil)
	return &sdk.CallToolResult{Content: out.content()}, out, nil
}

// waitOf is how long a call waits.
func waitOf(text string, without time.Duration) (time.Duration, error) {
	if text == "" {
		return without, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > maxCall {
		return 0, bad(fmt.Sprintf("wait: %.32q is no duration of at most %s", text, maxCall), "such as 50s")
	}
	return d, nil
}

// standing says how a run stands. notes say of gates why they were not answered.
func standing(s run.State, notes map[string]string) ToolRun {
	out := ToolRun{Run: s.HarnessID, Status: s.Status}
	if r := run.FinalOf(s); r != nil {
		out.Output, out.Structured, out.Error, out.FinishReason = r.Output, r.Structured, r.Error, r.FinishReason
	}
	for _, g := range s.Waiting() {
		out.Gates = append(out.Gates, ToolGate{Gate: g.ID, Description: g.Description, Hash: g.Hash, Note: notes[g.ID]})
	}
	switch {
	case s.Status.Ended():
	case s.Status == events.Paused:
		out.Next = "the run is paused: resume or stop it with " + controlTool
	case len(out.Gates) > 0:
		gate := out.Gates[0].Gate
		out.Next = fmt.Sprintf("a person decides: inspan approve %s, or POST /api/v1/runs/%s/gates/%s, or %s where the "+
			"token may; then ask with %s", gate, s.HarnessID, gate, answerTool, getTool)
	default:
		out.Next = "the run goes on: ask for it with " + getTool
	}
	return out
}

// content is the text of a result.
func (r ToolRun) content() []sdk.Content {
	text := r.Output
	switch {
	case r.Status == events.Failed:
		text = fmt.Sprintf("The run %s failed (%s): %s", r.Run, r.FinishReason, r.Error)
	case r.Status != events.Completed:
		text = fmt.Sprintf("The run %s is %s. Next: %s", r.Run, r.Status, r.Next)
		for _, g := range r.Gates {
			text += fmt.Sprintf("\nGate %s waits: %s", g.Gate, g.Description)
			if g.Note != "" {
				text += " (" + g.Note + ")"
			}
		}
	case text == "":
		text = fmt.Sprintf("The run %s is completed and says nothing.", r.Run)
	}
	return []sdk.Content{&sdk.TextContent{Text: text}}
}
