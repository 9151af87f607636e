package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/inspan/inspan/services/gateway/tokens"
)

const (
	// mcpStateless is the first revision of MCP that has no sessions.
	mcpStateless = "2026-07-28"
	// maxSessions is how many sessions of MCP one token may have, sessionIdle how long one is kept that is not used.
	maxSessions = 256
	sessionIdle = 10 * time.Minute
	// replayBytes bounds what is kept for clients that come back to an answer that they lost, replayed of all sessions.
	replayBytes = 8 << 20

	sessionHeader = "Mcp-Session-Id"
	// requestHeader carries the id of a request from its body to the tool, which the library does not tell.
	requestHeader = "Inspan-Request-Id"
)

// object is one of JSON.
type object = map[string]any

// mcpServer has runs be started as tools of the Model Context Protocol. In its newest revision a request needs nothing
// but itself. Older ones have sessions, which are kept in memory: a client whose session is lost begins a new one.
type mcpServer struct {
	g      *Gateway
	server *sdk.Server
	// sessions answers revisions that have sessions, single the others.
	sessions, single http.Handler

	mu sync.Mutex
	// Guarded by mu: the token that began each session, and how the calls under way are ended, with their sessions.
	owners map[string]string
	calls  map[*func()]string
}

func newMCP(g *Gateway) *mcpServer {
	m := &mcpServer{g: g, owners: map[string]string{}, calls: map[*func()]string{}}
	m.server = sdk.NewServer(&sdk.Implementation{Name: "inspan", Title: "Inspan", Version: "1"}, &sdk.ServerOptions{
		Instructions: "Each agent is a tool. A run goes on when its call ends: ask for it with get_run and its run_id.",
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) {
			c.TTLMs, c.CacheScope = 0, "private" // tools depend on the token
		}})
	m.addTools()
	m.server.AddReceivingMiddleware(m.receive)
	events := sdk.NewMemoryEventStore(nil)
	events.SetMaxBytes(replayBytes)
	always := func(*http.Request) *sdk.Server { return m.server }
	// The library's check of the Host is left out: a proxy before the gateway has another name, and a page that was
	// bound to this address has no token.
	m.sessions = sdk.NewStreamableHTTPHandler(always, &sdk.StreamableHTTPOptions{EventStore: events,
		SessionTimeout: sessionIdle, MaxRequestBodyBytes: maxBody, DisableLocalhostProtection: true})
	m.single = sdk.NewStreamableHTTPHandler(always, &sdk.StreamableHTTPOptions{Stateless: true,
		MaxRequestBodyBytes: maxBody, DisableLocalhostProtection: true, PropagateRequestCancellation: true})
	return m
}

// close ends all sessions. The calls have ended with the gateway.
func (m *mcpServer) close() {
	for s := range m.server.Sessions() {
		_ = s.Close() // its client may be gone
	}
}

func serveMCP(g *Gateway, c *call) error { return g.mcp.serve(c) }

// serve answers a request of MCP.
func (m *mcpServer) serve(c *call) error {
	r := c.r.Clone(c.r.Context())
	r.Header.Del(requestHeader)
	if r.Method == http.MethodPost {
		body, err := c.body(maxBody)
		if err != nil {
			return err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var one struct {
			ID json.RawMessage `json:"id"`
		}
		if json.Unmarshal(body, &one) == nil && len(one.ID) > 0 && len(one.ID) <= maxKey {
			r.Header.Set(requestHeader, string(one.ID))
		}
	}
	newest, session := r.Header.Get("Mcp-Protocol-Version") >= mcpStateless, r.Header.Get(sessionHeader)
	h := m.single
	if !newest {
		h = m.sessions
		if err := m.admit(c, session); err != nil {
			return err
		}
	}
	if r.Method == http.MethodGet && !newest {
		release, ok := m.g.limits.stream(c.token.Name)
		if !ok {
			return tooManyStreams()
		}
		defer release()
	}
	if r.Method == http.MethodDelete {
		m.endCalls(session)
	}
	if err := c.endless(); err != nil {
		return err
	}
	ctx, end := m.g.running(r.Context())
	defer end()
	w := &lasting{ResponseWriter: c.w, rc: http.NewResponseController(c.w), wait: m.g.cfg.WriteWait,
		begun: func(h http.Header) { m.own(h.Get(sessionHeader), c.token) }}
	var beats sync.WaitGroup
	beats.Go(func() { w.beat(ctx, m.g.cfg.Heartbeat) })
	h.ServeHTTP(w, r.WithContext(ctx))
	end()
	beats.Wait()
	return nil
}

// admit refuses a session of another token, and one too many.
func (m *mcpServer) admit(c *call, session string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if session != "" {
		if m.owners[session] != c.token.Name {
			return &Problem{Status: http.StatusNotFound, Code: "not_found", Detail: "there is no such session",
				Hint: "begin a new one: initialize, without " + sessionHeader}
		}
		return nil
	}
	live := map[string]bool{}
	for s := range m.server.Sessions() {
		live[s.ID()] = true
	}
	have := 0
	for id, owner := range m.owners {
		if !live[id] {
			delete(m.owners, id)
		} else if owner == c.token.Name {
			have++
		}
	}
	if have >= maxSessions {
		return &Problem{Status: http.StatusTooManyRequests, Code: "sessions", after: later,
			Detail: "the token has too many sessions of MCP", Hint: "end them with DELETE; one that is not used ends by itself"}
	}
	return nil
}

// own records whose a session is that begins.
func (m *mcpServer) own(session string, t tokens.Token) {
	if session == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owners[session] = t.Name
}

// endCalls ends the calls of a session.
func (m *mcpServer) endCalls(session string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for end, of := range m.calls {
		if session != "" && of == session {
			(*end)()
		}
	}
}

// called is the context of a call, which ends with its session and with the gateway.
func (m *mcpServer) called(ctx context.Context, session string) (until context.Context, end func()) {
	ctx, stop := m.g.running(ctx)
	ctx, cancel := context.WithCancel(ctx)
	give := func() { cancel() }
	key := &give
	m.mu.Lock()
	m.calls[key] = session
	m.mu.Unlock()
	return ctx, func() {
		m.mu.Lock()
		delete(m.calls, key)
		m.mu.Unlock()
		cancel()
		stop()
	}
}

// token is that of a request, as it is at the moment.
func (m *mcpServer) token(extra *sdk.RequestExtra) (tokens.Token, *Problem) {
	return m.g.token(&http.Request{Header: extra.Header}, tokens.Read)
}

// receive has agents be tools, shows each token what it may use, and bounds what waits.
func (m *mcpServer) receive(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if method != "tools/list" && method != "tools/call" && method != "subscriptions/listen" {
			return next(ctx, method, req)
		}
		t, p := m.token(req.GetExtra())
		if p != nil {
			return nil, p
		}
		if method == "tools/list" {
			res, err := next(ctx, method, req)
			if list, ok := res.(*sdk.ListToolsResult); ok && err == nil {
				err = m.list(ctx, req, t, list)
			}
			return res, m.rpcError(err)
		}
		release, ok := m.g.limits.stream(t.Name)
		if !ok {
			return nil, tooManyStreams()
		}
		defer release()
		ctx, end := m.called(ctx, req.GetExtra().Header.Get(sessionHeader))
		defer end()
		if call, ok := req.(*sdk.CallToolRequest); ok {
			params, err := m.named(ctx, call.Params)
			if err != nil {
				return nil, m.rpcError(err)
			}
			call.Params = params
		}
		return next(ctx, method, req)
	}
}

// rpcError is an error as the caller gets it.
func (m *mcpServer) rpcError(err error) error {
	if err == nil {
		return nil
	}
	if rpc, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return rpc
	}
	p := m.g.problem("/mcp", err)
	text := p.Code
	for _, more := range []string{p.Detail, p.Hint} {
		if more != "" {
			text += ": " + more
		}
	}
	if p.Run != "" {
		text += " (run " + p.Run + ")"
	}
	return errors.New(text)
}

// list makes the list of tools that of a token and its client, and adds an agent each.
func (m *mcpServer) list(ctx context.Context, req sdk.Request, t tokens.Token, list *sdk.ListToolsResult) error {
	var call *sdk.Tool
	var tools []*sdk.Tool
	for _, tool := range list.Tools {
		if tool.Name == callTool {
			call = tool
		}
		if scopes := toolScopes[tool.Name]; hasAll(t, scopes) && (tool.Name != answerTool || !elicits(req.GetSession())) {
			tools = append(tools, tool)
		}
	}
	list.Tools = append([]*sdk.Tool{}, tools...) // never null
	if call == nil || !hasAll(t, toolScopes[callTool]) {
		return nil
	}
	agents, err := m.g.client.Agents(ctx)
	if err != nil {
		return err
	}
	input, err := withoutAgent(call.InputSchema)
	if err != nil {
		return err
	}
	for _, a := range agents[:min(len(agents), mostItems)] {
		if _, taken := toolScopes[a.Name]; !taken {
			list.Tools = append(list.Tools, &sdk.Tool{Name: a.Name, Description: a.Description, InputSchema: input,
				OutputSchema: call.OutputSchema, Annotations: call.Annotations})
		}
	}
	return nil
}

func hasAll(t tokens.Token, scopes []tokens.Scope) bool {
	for _, s := range scopes {
		if !t.Has(s) {
			return false
		}
	}
	return true
}

// withoutAgent is the schema of a call without the agent, which the name of the tool is.
func withoutAgent(schema any) (object, error) {
	b, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	var out object
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, err
	}
	props, _ := out["properties"].(object)
	delete(props, "agent")
	out["required"] = []string{"task"}
	return out, nil
}

// named is a call with the name of an agent as the call of that agent.
func (m *mcpServer) named(ctx context.Context, p *sdk.CallToolParamsRaw) (*sdk.CallToolParamsRaw, error) {
	if _, fixed := toolScopes[p.Name]; fixed {
		return p, nil
	}
	agents, err := m.g.client.Agents(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range agents {
		if a.Name != p.Name {
			continue
		}
		args := map[string]json.RawMessage{}
		if len(p.Arguments) > 0 {
			if err := json.Unmarshal(p.Arguments, &args); err != nil || args == nil {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the arguments are no object"}
			}
		}
		if args["agent"] != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the name of the tool is the agent"}
		}
		if args["agent"], err = json.Marshal(a.Name); err != nil {
			return nil, err
		}
		as := *p
		as.Name = callTool
		as.Arguments, err = json.Marshal(args)
		return &as, err
	}
	return p, nil // the library says that there is no such tool
}

// elicits reports whether the client of a session asks a person by a form.
func elicits(s sdk.Session) bool {
	ss, ok := s.(*sdk.ServerSession)
	if !ok || ss.InitializeParams() == nil || ss.InitializeParams().Capabilities == nil {
		return false
	}
	e := ss.InitializeParams().Capabilities.Elicitation
	return e != nil && (e.Form != nil || e.URL == nil)
}
