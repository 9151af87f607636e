package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/gateway/oidc"
	"github.com/inspan/inspan/services/gateway/tokens"
)

// route is a row of the table of all that the gateway answers, and of the OpenAPI document.
type route struct {
	method, path string
	// scope that the token needs; empty for any token.
	scope tokens.Scope
	// open needs no token: the request proves itself otherwise.
	open    bool
	summary string
	params  []param
	// body is a zero value of what the body holds; nil for none.
	body any
	// answers by status; the value is a zero value, or the media type of what is not JSON.
	answers map[int]any
	serve   func(g *Gateway, c *call) error
}

// param is one that is not a part of the path.
type param struct{ name, in, about string }

// call is one request.
type call struct {
	w     http.ResponseWriter
	r     *http.Request
	token tokens.Token
	route route
}

// list is what a list answers with.
type list[T any] struct {
	Items []T `json:"items"`
	// Total is how many there are where Items has only the first.
	Total int `json:"total"`
}

// routes is the table.
func routes() []route {
	limit := param{"limit", "query", "how many at most, 1 to 1000; 100 if absent"}
	return slices.Concat([]route{
		{method: "POST", path: "/api/v1/harness/run", scope: tokens.Write, serve: (*Gateway).run, body: RunRequest{},
			summary: "Start a run",
			params: []param{{"wait", "query",
				"how long to wait for the end of the run, such as 30s, at most 10m; needs runs:read"},
				{"Idempotency-Key", "header", "1 to 255 characters: the same key of the same token starts one run, for ever"}},
			answers: map[int]any{200: RunAnswer{}, 202: RunAnswer{}}},
		{method: "GET", path: "/api/v1/runs", scope: tokens.Read, serve: listRuns, summary: "List runs, the newest first",
			params: []param{limit, {"status", "query", "only runs in this status"},
				{"session_id", "query", "only runs of this session"}, {"agent_id", "query", "only runs of this agent"}},
			answers: map[int]any{200: list[run.Info]{}}},
		{method: "GET", path: "/api/v1/runs/{run}", scope: tokens.Read, serve: (*Gateway).one, summary: "Show a run",
			params:  []param{{"wait", "query", "how long to wait for the end of the run, at most 10m"}},
			answers: map[int]any{200: RunAnswer{}, 202: RunAnswer{}}},
		{method: "GET", path: "/api/v1/runs/{run}/events", scope: tokens.Read, serve: (*Gateway).events,
			summary: "Stream the events of a run from its first to its end, as server-sent events " +
				"whose ids are the sequences of the events",
			params: []param{{"Last-Event-ID", "header",
				"go on behind the event of this sequence; 204 where nothing more comes"}},
			answers: map[int]any{200: "text/event-stream", 204: nil}},
		{method: "POST", path: "/api/v1/runs/{run}/stop", scope: tokens.Write, serve: control("stop"), body: ControlRequest{},
			summary: "Stop a run", answers: map[int]any{200: RunAnswer{}}},
		{method: "POST", path: "/api/v1/runs/{run}/pause", scope: tokens.Write, serve: control("pause"),
			body:    ControlRequest{},
			summary: "Pause a run", answers: map[int]any{200: RunAnswer{}}},
		{method: "POST", path: "/api/v1/runs/{run}/resume", scope: tokens.Write, serve: control("resume"),
			body:    ControlRequest{},
			summary: "Resume a run", answers: map[int]any{200: RunAnswer{}}},
		{method: "POST", path: "/api/v1/runs/{run}/gates/{gate}", scope: tokens.Answer, serve: (*Gateway).answer,
			body:    GateRequest{},
			summary: "Answer a gate; the answer is recorded as asserted by the gateway",
			answers: map[int]any{200: GateResult{}}},
		{method: "GET", path: "/api/v1/runs/{run}/artifacts", scope: tokens.Read, serve: listArtifacts,
			summary: "List what a run made", answers: map[int]any{200: list[client.Artifact]{}}},
		{method: "GET", path: "/api/v1/runs/{run}/artifacts/{artifact}", scope: tokens.Read, serve: sendArtifact,
			summary: "Download an artifact", answers: map[int]any{200: "application/octet-stream"}},
		{method: "GET", path: "/api/v1/runs/{run}/report", scope: tokens.Read, serve: sendReport,
			summary: "What was done in a run, in Markdown", answers: map[int]any{200: "text/markdown"}},
		{method: "GET", path: "/api/v1/gates", scope: tokens.Read, serve: listGates,
			summary: "List the gates that wait for an answer, the oldest first",
			answers: map[int]any{200: list[client.Waiting]{}}},
		{method: "GET", path: "/api/v1/sessions", scope: tokens.Read, serve: listSessions, params: []param{limit},
			summary: "List sessions, those used last first", answers: map[int]any{200: list[events.Session]{}}},
		{method: "GET", path: "/api/v1/sessions/{session}", scope: tokens.Read, serve: showSession,
			summary: "Show a session", answers: map[int]any{200: events.Session{}}},
		{method: "GET", path: "/api/v1/agents", scope: tokens.Read, serve: listAgents, params: []param{limit},
			summary: "List the agents that are registered", answers: map[int]any{200: list[AgentInfo]{}}},
		{method: "GET", path: "/api/v1/schedules", scope: tokens.Read, serve: listSchedules, params: []param{limit},
			summary: "List schedules", answers: map[int]any{200: list[events.Schedule]{}}},
		{method: "GET", path: "/api/v1/schedules/{schedule}", scope: tokens.Read, serve: showSchedule,
			summary: "Show a schedule", answers: map[int]any{200: events.Schedule{}}},
		{method: "GET", path: "/api/v1/work", scope: tokens.Read, serve: listWork, params: []param{limit},
			summary: "List work items", answers: map[int]any{200: list[events.WorkItem]{}}},
		{method: "GET", path: "/api/v1/work/{item}", scope: tokens.Read, serve: showWork,
			summary: "Show a work item", answers: map[int]any{200: events.WorkItem{}}},
		{method: "GET", path: "/api/v1/openapi.json", serve: sendDocument, summary: "This document",
			answers: map[int]any{200: "application/json"}},
		{method: "POST", path: "/mcp", scope: tokens.Read, serve: serveMCP,
			summary: "Send a message of the Model Context Protocol (streamable HTTP)",
			answers: map[int]any{200: "text/event-stream", 202: nil}},
		{method: "GET", path: "/mcp", scope: tokens.Read, serve: serveMCP,
			summary: "Stream what a session of the Model Context Protocol has to say",
			answers: map[int]any{200: "text/event-stream"}},
		{method: "DELETE", path: "/mcp", scope: tokens.Read, serve: serveMCP,
			summary: "End a session of the Model Context Protocol", answers: map[int]any{204: nil}},
		{method: "GET", path: "/v1/models", scope: tokens.Read, serve: listModels,
			summary: "List the agents as models of OpenAI's API", answers: map[int]any{200: ChatModels{}}},
		{method: "POST", path: "/v1/chat/completions", scope: tokens.Read, serve: (*Gateway).chat, body: ChatRequest{},
			summary: "Run an agent as a model of OpenAI's API; needs runs:write, too; with stream its chunks are sent " +
				"as server-sent events",
			params: []param{{"Idempotency-Key", "header",
				"1 to 255 characters: the same key of the same token starts one run, for ever"}},
			answers: map[int]any{200: ChatAnswer{}}},
		{method: "POST", path: "/hooks/{hook}", open: true, serve: (*Gateway).hook,
			summary: "Call a webhook, with the signature of its kind", answers: map[int]any{200: WebhookAnswer{},
				202: WebhookAnswer{}, 204: nil}},
	}, haltRoutes(), a2aRoutes(), aguiRoutes(), responseRoutes())
}

// handler answers the requests of a route.
func (g *Gateway) handler(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{w: w, r: r, route: rt}
		if !rt.open {
			var p *Problem
			if c.token, p = g.token(r, rt.scope); p == nil {
				p = g.often(c.token.Name)
			}
			if p != nil {
				g.refuse(w, r, rt.path, p)
				return
			}
		}
		if err := rt.serve(g, c); err != nil {
			g.refuse(w, r, rt.path, err)
		}
	})
}

// token is the one that a request has, if that has a scope.
func (g *Gateway) token(r *http.Request, scope tokens.Scope) (tokens.Token, *Problem) {
	if len(r.Header.Values("Authorization")) != 1 {
		p := unauthorized()
		p.Hint = "send the header Authorization: Bearer TOKEN once; inspan token add NAME makes a token"
		return tokens.Token{}, p
	}
	secret := bearer(r)
	if secret == "" {
		return tokens.Token{}, unauthorized()
	}
	t, p := g.found(r.Context(), secret)
	if p != nil {
		return tokens.Token{}, p
	}
	if !t.Has(scope) {
		return tokens.Token{}, &Problem{Status: http.StatusForbidden, Code: "scope",
			Detail: "the token does not have the scope " + string(scope),
			Hint:   "an operator makes tokens: inspan token add NAME --scope " + string(scope)}
	}
	return t, nil
}

// bearer is the secret of a request; "" where it has none.
func bearer(r *http.Request) string {
	kind, secret, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(kind, "Bearer") {
		return ""
	}
	return secret
}

// found is the token that a secret is: one of the list, or one of a provider.
func (g *Gateway) found(ctx context.Context, secret string) (tokens.Token, *Problem) {
	if g.cfg.Bearer != nil && oidc.Looks(secret) {
		t, err := g.cfg.Bearer(ctx, secret)
		switch {
		case errors.Is(err, oidc.ErrUnavailable):
			g.cfg.Failed("bearer", err)
			return t, &Problem{Status: http.StatusServiceUnavailable, Code: "no_provider", after: later,
				Detail: "the OpenID Connect provider does not answer", Hint: "the log of the gateway says more"}
		case err != nil:
			p := unauthorized()
			p.Detail = err.Error()
			return t, p
		}
		return t, nil
	}
	l, err := g.cfg.Tokens()
	if err != nil {
		g.cfg.Failed("tokens", err)
		return tokens.Token{}, &Problem{Status: http.StatusServiceUnavailable, Code: "no_tokens",
			Hint: "the log of the gateway says more"}
	}
	t, ok := l.Find(secret, time.Now())
	if !ok {
		return tokens.Token{}, unauthorized()
	}
	return t, nil
}

func unauthorized() *Problem { return &Problem{Status: http.StatusUnauthorized, Code: "unauthorized"} }

// often refuses a caller who has sent too much.
func (g *Gateway) often(caller string) *Problem {
	wait, ok := g.limits.take(caller, time.Now())
	if ok {
		return nil
	}
	return &Problem{Status: http.StatusTooManyRequests, Code: "rate", Detail: "too many requests",
		Hint: "wait as long as Retry-After says", after: wait}
}

// json answers with a value.
func (c *call) json(status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
	_, _ = c.w.Write(append(b, '\n')) // the client may be gone
	return nil
}

// read reads the body of a request, of which needed says that it must be there.
func (c *call) read(v any, needed bool) error {
	if c.r.ContentLength == 0 && !needed {
		return nil
	}
	kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" || c.r.Header.Get("Content-Encoding") != "" {
		return &Problem{Status: http.StatusUnsupportedMediaType, Code: "media_type", Detail: "the body is not plain JSON",
			Hint: "send JSON with Content-Type: application/json"}
	}
	body, err := c.body(maxBody)
	if err != nil {
		return err
	}
	if err := ce.Strict(body, v); err != nil {
		return bad("the body: "+err.Error(), "GET /api/v1/openapi.json has the schema of the body")
	}
	return nil
}

// loose reads a body of JSON whose further fields are ignored, as protocols of others want.
func (c *call) loose(v any, most int64) error {
	kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return &Problem{Status: http.StatusUnsupportedMediaType, Code: "media_type", Detail: "the body is not JSON"}
	}
	body, err := c.body(most)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return bad("the body: "+err.Error(), "")
	}
	return nil
}

// within is the context of a request that waits for nothing but the station.
func (c *call) within() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(c.r.Context(), requestWait, context.DeadlineExceeded)
}

// endless lets a request take as long as it wants: what it writes has a deadline of its own.
func (c *call) endless() error {
	rc := http.NewResponseController(c.w)
	return errors.Join(rc.SetReadDeadline(time.Time{}), rc.SetWriteDeadline(time.Time{}))
}
