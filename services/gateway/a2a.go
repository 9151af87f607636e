package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/gateway/tokens"
)

const (
	// a2aVersion of the protocol that is spoken here; its patches do not count.
	a2aVersion = "1.0"
	a2aPath    = "/a2a"
	a2aCard    = "/.well-known/agent-card.json"
)

// a2aRoutes are those of A2A.
func a2aRoutes() []route {
	return []route{
		{method: "GET", path: a2aCard, scope: tokens.Read, serve: sendCard,
			summary: "Show the card of the station for A2A, with each agent as a skill",
			answers: map[int]any{200: A2ACard{}}},
		{method: "GET", path: a2aPath + "/{agent}" + a2aCard, scope: tokens.Read, serve: sendCard,
			summary: "Show the card of an agent for A2A", answers: map[int]any{200: A2ACard{}}},
		{method: "POST", path: a2aPath, scope: tokens.Read, serve: serveA2A, body: A2ACall{},
			summary: "Send a request of A2A 1.0 (JSON-RPC) to the agent that the metadata of its message names",
			answers: map[int]any{200: A2AReply{}}},
		{method: "POST", path: a2aPath + "/{agent}", scope: tokens.Read, serve: serveA2A, body: A2ACall{},
			summary: "Send a request of A2A 1.0 (JSON-RPC) to an agent; streams are server-sent events",
			answers: map[int]any{200: A2AReply{}}},
	}
}

// A2ACard tells clients what an agent is and how it is reached.
type A2ACard struct {
	Name         string           `json:"name"`
	Description  string           `json:"description"`
	Interfaces   []A2AInterface   `json:"supportedInterfaces"`
	Version      string           `json:"version"`
	Capabilities A2ACapabilities  `json:"capabilities"`
	Schemes      map[string]any   `json:"securitySchemes"`
	Requirements []map[string]any `json:"securityRequirements"`
	Inputs       []string         `json:"defaultInputModes"`
	Outputs      []string         `json:"defaultOutputModes"`
	Skills       []A2ASkill       `json:"skills"`
}

// A2AInterface is an address of an agent.
type A2AInterface struct {
	URL     string `json:"url"`
	Binding string `json:"protocolBinding"`
	Version string `json:"protocolVersion"`
}

// A2ACapabilities are what of the protocol there is.
type A2ACapabilities struct {
	Streaming bool `json:"streaming"`
	Push      bool `json:"pushNotifications"`
	Extended  bool `json:"extendedAgentCard"`
}

// A2ASkill is an agent, or the only skill of one.
type A2ASkill struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
}

// A2ACall is a request of JSON-RPC.
type A2ACall struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params,omitempty"`
}

// A2AReply answers a request with a result or an error.
type A2AReply struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *A2AError       `json:"error,omitempty"`
}

// A2AError is an error of JSON-RPC, whose details are google.rpc.ErrorInfo.
type A2AError struct {
	Code    int              `json:"code"`
	Message string           `json:"message"`
	Data    []map[string]any `json:"data,omitempty"`
}

// Codes of errors, of JSON-RPC and of A2A.
const (
	rpcParse       = -32700
	rpcRequest     = -32600
	rpcMethod      = -32601
	rpcParams      = -32602
	rpcInternal    = -32603
	rpcDenied      = -32000
	a2aNoTask      = -32001
	a2aNotStopped  = -32002
	a2aNoPush      = -32003
	a2aUnsupported = -32004
	a2aContent     = -32005
	a2aNoCard      = -32007
	a2aNoVersion   = -32009
)

// a2aFault is a refusal with its code.
type a2aFault struct {
	code int
	*Problem
}

// fault is a refusal of a request of A2A.
func fault(code int, reason, detail, hint string) error {
	return &a2aFault{code, &Problem{Status: http.StatusOK, Code: reason, Detail: detail, Hint: hint}}
}

// a2aCall is a request under way.
type a2aCall struct {
	g *Gateway
	c *call
	// agent that the address names; empty for that of the station.
	agent string
	id    json.RawMessage
}

// sendCard sends the card of an agent, or of the station with each agent as a skill.
func sendCard(g *Gateway, c *call) error {
	ctx, cancel := c.within()
	defer cancel()
	agents, err := g.client.Agents(ctx)
	if err != nil {
		return err
	}
	name := c.r.PathValue("agent")
	card := A2ACard{Name: name, Version: "1", Capabilities: A2ACapabilities{Streaming: true},
		Inputs: []string{"text/plain", "application/json"}, Outputs: []string{"text/plain"}, Skills: []A2ASkill{},
		Schemes: map[string]any{"token": object{"httpAuthSecurityScheme": object{"scheme": "Bearer",
			"description": "A token of inspan token add."}}},
		Requirements: []map[string]any{{"schemes": object{"token": object{"list": []string{}}}}}}
	for _, a := range agents[:min(len(agents), mostItems)] {
		about := a.Description
		if about == "" {
			about = "The agent " + a.Name + "."
		}
		if name == a.Name || name == "" {
			card.Skills = append(card.Skills, A2ASkill{a.Name, a.Name, about, []string{"agent"}})
			card.Description = about
		}
	}
	if name != "" && len(card.Skills) == 0 {
		return &client.NotFoundError{What: "agent", ID: name}
	}
	path := a2aPath
	if name != "" {
		path += "/" + url.PathEscape(name)
	} else {
		card.Name, card.Description = "inspan", "The agents of the station "+g.client.Station()+
			": the metadata agent of a message names one."
	}
	card.Interfaces = []A2AInterface{{c.base() + path, "JSONRPC", a2aVersion}}
	return c.json(http.StatusOK, card)
}

// base is the address of the gateway as the client knows it. It is told to no one else.
func (c *call) base() string {
	scheme := "http"
	if c.r.TLS != nil || c.r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	return (&url.URL{Scheme: scheme, Host: c.r.Host}).String()
}

// serveA2A answers a request of A2A.
func serveA2A(g *Gateway, c *call) error {
	x := &a2aCall{g: g, c: c, agent: c.r.PathValue("agent"), id: json.RawMessage("null")}
	body, err := c.body(maxBody)
	if err == nil {
		err = x.serve(body)
	}
	if err == nil {
		return nil
	}
	status, reply := x.refusal(err)
	return c.json(status, reply)
}

// serve answers the request of a body.
func (x *a2aCall) serve(body []byte) error {
	var in A2ACall
	if !json.Valid(body) {
		return fault(rpcParse, "PARSE_ERROR", "the body is not JSON", "")
	}
	if json.Unmarshal(body, &in) != nil || in.Version != "2.0" || in.Method == "" {
		return fault(rpcRequest, "INVALID_REQUEST", "the body is not one request of JSON-RPC 2.0", "")
	}
	if len(in.ID) == 0 || len(in.ID) > maxKey || !strings.ContainsRune(`"-0123456789`, rune(in.ID[0])) {
		return fault(rpcRequest, "INVALID_REQUEST", "the id is neither a text nor a number", "")
	}
	x.id = in.ID
	version := x.c.r.Header.Get("A2A-Version")
	if version == "" {
		version = x.c.r.URL.Query().Get("A2A-Version")
	}
	if version != a2aVersion && !strings.HasPrefix(version, a2aVersion+".") {
		return fault(a2aNoVersion, "VERSION_NOT_SUPPORTED", "the version of the request is not supported",
			"send A2A-Version: "+a2aVersion)
	}
	do, known := a2aMethods[in.Method]
	if !known {
		return fault(rpcMethod, "METHOD_NOT_FOUND", "there is no such method", "")
	}
	return do(x, in.Params)
}

// a2aMethods are the methods of A2A. Those of what there is not are refused as the protocol says.
var a2aMethods = map[string]func(*a2aCall, json.RawMessage) error{
	"SendMessage":          func(x *a2aCall, p json.RawMessage) error { return x.send(p, false) },
	"SendStreamingMessage": func(x *a2aCall, p json.RawMessage) error { return x.send(p, true) },
	"GetTask":              (*a2aCall).get,
	"CancelTask":           (*a2aCall).cancel,
	"SubscribeToTask":      (*a2aCall).subscribe,
	"ListTasks":            (*a2aCall).list,
	"GetExtendedAgentCard": func(*a2aCall, json.RawMessage) error {
		return fault(a2aNoCard, "EXTENDED_AGENT_CARD_NOT_CONFIGURED", "there is no other card", "")
	},
	"CreateTaskPushNotificationConfig": noPush, "GetTaskPushNotificationConfig": noPush,
	"ListTaskPushNotificationConfigs": noPush, "DeleteTaskPushNotificationConfig": noPush,
}

func noPush(*a2aCall, json.RawMessage) error {
	return fault(a2aNoPush, "PUSH_NOTIFICATION_NOT_SUPPORTED", "there are no push notifications",
		"SubscribeToTask streams a task")
}

// params reads the parameters of a request. What is not known is ignored, as the protocol wants.
func params(raw json.RawMessage, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return fault(rpcParams, "INVALID_PARAMS", "the params: "+err.Error(), "")
	}
	return nil
}

// needs refuses a token that does not have a scope.
func (x *a2aCall) needs(scope tokens.Scope) error {
	if x.c.token.Has(scope) {
		return nil
	}
	_, p := x.g.token(x.c.r, scope)
	return p
}

// task is the run of a task, of the agent that is spoken to.
func (x *a2aCall) task(ctx context.Context, id string) (run.State, error) {
	s, err := x.g.client.State(ctx, id)
	if err == nil && x.agent != "" && s.AgentName != x.agent {
		err = &client.NotFoundError{What: "task", ID: id}
	}
	return s, err
}

// reply answers with a result.
func (x *a2aCall) reply(v any) error {
	return x.c.json(http.StatusOK, A2AReply{Version: "2.0", ID: x.id, Result: v})
}

// refusal is an error as JSON-RPC has it, with the status of HTTP where that says more.
func (x *a2aCall) refusal(err error) (int, A2AReply) {
	e, reason := &A2AError{Code: rpcInternal}, ""
	f, own := err.(*a2aFault) //nolint:errorlint // it is made here and never wrapped
	var p *Problem
	if own {
		p, e.Code, reason = f.Problem, f.code, f.Problem.Code
	} else {
		p = x.g.problem(x.c.route.path, err)
		reason = strings.ToUpper(p.Code)
		switch {
		case p.Status == http.StatusNotFound && p.Code != "unknown_agent":
			e.Code, reason = a2aNoTask, "TASK_NOT_FOUND"
		case slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests}, p.Status):
			e.Code = rpcDenied
		case p.Status < http.StatusInternalServerError:
			e.Code = rpcParams
		}
	}
	e.Message = strings.Join(slices.DeleteFunc([]string{p.Detail, p.Hint}, func(s string) bool { return s == "" }), "; ")
	if e.Message == "" {
		e.Message = http.StatusText(p.Status)
	}
	about := object{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "a2a-protocol.org"}
	if p.Run != "" {
		about["metadata"] = map[string]string{"run_id": p.Run}
	}
	e.Data = []map[string]any{about}
	status := http.StatusOK
	if !own && (e.Code == rpcDenied || p.Status >= http.StatusInternalServerError ||
		p.Status == http.StatusRequestEntityTooLarge || p.Status == http.StatusRequestTimeout) {
		status = p.Status
	}
	return status, A2AReply{Version: "2.0", ID: x.id, Error: e}
}

// get says how a task stands.
func (x *a2aCall) get(raw json.RawMessage) error {
	var in struct {
		ID      string `json:"id"`
		History *int   `json:"historyLength"`
	}
	if err := params(raw, &in); err != nil {
		return err
	}
	ctx, cancel := x.c.within()
	defer cancel()
	s, err := x.task(ctx, in.ID)
	if err != nil {
		return err
	}
	return x.reply(x.taskOf(s, in.History))
}

// cancel stops a run. A run that is stopped is as good as stopped by this request.
func (x *a2aCall) cancel(raw json.RawMessage) error {
	var in struct {
		ID string `json:"id"`
	}
	if err := params(raw, &in); err != nil {
		return err
	}
	if err := x.needs(tokens.Write); err != nil {
		return err
	}
	ctx, cancel := x.c.within()
	defer cancel()
	s, err := x.task(ctx, in.ID)
	if err != nil {
		return err
	}
	if !s.Status.Ended() {
		s, err = x.g.client.Control(ctx, in.ID, events.Control{Action: "stop", By: x.c.token.Name})
		if err != nil {
			return err
		}
	} else if a2aState(s, x.c.token) != a2aCanceled {
		return fault(a2aNotStopped, "TASK_NOT_CANCELABLE", "the task has ended", "")
	}
	return x.reply(x.taskOf(s, nil))
}

// subscribe streams a task from how it stands.
func (x *a2aCall) subscribe(raw json.RawMessage) error {
	var in struct {
		ID string `json:"id"`
	}
	if err := params(raw, &in); err != nil {
		return err
	}
	ctx, end, err := x.g.waits(x.c)
	if err != nil {
		return err
	}
	defer end()
	s, err := x.task(ctx, in.ID)
	if err == nil && s.Status.Ended() {
		err = fault(a2aUnsupported, "UNSUPPORTED_OPERATION", "the task has ended", "GetTask has its result")
	}
	if err != nil {
		return err
	}
	return x.stream(ctx, s)
}
