package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/inspan/inspan/docs"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/gateway/oidc"
	"github.com/inspan/inspan/services/gateway/tokens"
)

// How many items a list has.
const (
	someItems = 100
	mostItems = 1000
)

// GateRequest is the answer to a gate.
type GateRequest struct {
	// Decision is approve or reject.
	Decision string `json:"decision"`
	Reason   string `json:"reason,omitempty"`
	// ProposalHash is the hash of the proposal that was seen; the answer is refused if another one waits.
	ProposalHash string `json:"proposal_hash,omitempty"`
	// EditedInput approves these arguments instead of those proposed.
	EditedInput json.RawMessage `json:"edited_input,omitempty"`
}

// GateResult is how a gate stands once the answer is recorded.
type GateResult struct {
	Run    string        `json:"run_id"`
	Status events.Status `json:"status"`
	Gate   *run.Gate     `json:"gate"`
}

// AgentInfo describes an agent.
type AgentInfo struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Model       string   `json:"model,omitempty"`
	Tools       []string `json:"tools,omitempty"`
}

// answer answers a gate in the name of the token, which the gateway asserts.
func (g *Gateway) answer(c *call) error {
	ctx, cancel := c.within()
	defer cancel()
	var in GateRequest
	if err := c.read(&in, true); err != nil {
		return err
	}
	d := client.Decision{Run: c.r.PathValue("run"), Gate: c.r.PathValue("gate"), By: c.token.Name, Reason: in.Reason,
		Hash: in.ProposalHash, Edit: in.EditedInput}
	s, err := answerAs(ctx, g, c, d, in.Decision)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, GateResult{Run: d.Run, Status: s.Status, Gate: s.Gate(d.Gate)})
}

// answerAs answers a gate for the person who sent a request. Where the NATS server knows their token, too, the answer
// goes over a connection of theirs, so that it is proven; else the gateway says by whom it is.
func answerAs(ctx context.Context, g *Gateway, c *call, d client.Decision, decision string) (run.State, error) {
	secret := bearer(c.r)
	if g.cfg.Person == nil || !oidc.Looks(secret) || !c.token.Has(tokens.Read) { // who may not read sees no outcome
		return g.decide(ctx, d, decision)
	}
	person, err := g.cfg.Person(ctx, secret)
	if err != nil {
		g.cfg.Failed("person", err)
		return run.State{}, &Problem{Status: http.StatusServiceUnavailable, Code: "unavailable", after: later,
			Detail: "the NATS server does not let this token in, so the answer was not sent",
			Hint:   "try again in a moment; the log of the station says why"}
	}
	defer person.Close()
	return decideOver(ctx, g, person.Gates(), d, decision)
}

// decide answers a gate. It is the gateway that says by whom.
func (g *Gateway) decide(ctx context.Context, d client.Decision, decision string) (run.State, error) {
	d.Asserted = true
	return decideOver(ctx, g, g.client.Gates(), d, decision)
}

// decideOver answers a gate over one connection.
func decideOver(ctx context.Context, g *Gateway, gates client.Gates, d client.Decision,
	decision string) (run.State, error) {
	// who may not exist is not waited for
	s, err := g.client.State(ctx, d.Run)
	if err != nil {
		return run.State{}, err
	}
	if s.Gate(d.Gate) == nil {
		return run.State{}, &client.NotFoundError{What: "gate", ID: d.Gate}
	}
	switch decision {
	case "approve":
		return gates.Approve(ctx, d)
	case "reject":
		return gates.Reject(ctx, d)
	}
	return run.State{}, bad(fmt.Sprintf("decision %.32q is neither approve nor reject", decision), "")
}

// limit is how many items are asked for.
func (c *call) limit() (int, error) {
	text := c.r.URL.Query().Get("limit")
	if text == "" {
		return someItems, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > mostItems {
		return 0, bad(fmt.Sprintf("limit: %.32q is no number from 1 to %d", text, mostItems), "")
	}
	return n, nil
}

// listed answers with the first of a list.
func listed[T any](c *call, read func(context.Context) ([]T, error)) error {
	ctx, cancel := c.within()
	defer cancel()
	limit, err := c.limit()
	if err != nil {
		return err
	}
	all, err := read(ctx)
	if err != nil {
		return err
	}
	out := list[T]{Items: append([]T{}, all[:min(limit, len(all))]...), Total: len(all)}
	return c.json(http.StatusOK, out)
}

// shown answers with one thing.
func shown[T any](c *call, name string, read func(ctx context.Context, id string) (T, error)) error {
	ctx, cancel := c.within()
	defer cancel()
	v, err := read(ctx, c.r.PathValue(name))
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, v)
}

func listRuns(g *Gateway, c *call) error {
	return listed(c, func(ctx context.Context) ([]run.Info, error) {
		q := c.r.URL.Query()
		all, err := g.client.Runs().Find(ctx, client.Of{Session: q.Get("session_id")})
		var out []run.Info
		for _, i := range all {
			if s, a := q.Get("status"), q.Get("agent_id"); (s == "" || s == string(i.Status)) && (a == "" || a == i.AgentName) {
				out = append(out, i)
			}
		}
		return out, err
	})
}

func listGates(g *Gateway, c *call) error { return listed(c, g.client.Gates().List) }

func listSessions(g *Gateway, c *call) error { return listed(c, g.client.Sessions().List) }

func showSession(g *Gateway, c *call) error { return shown(c, "session", g.client.Sessions().Get) }

func listSchedules(g *Gateway, c *call) error { return listed(c, client.NewSchedules(g.client).List) }

func showSchedule(g *Gateway, c *call) error {
	return shown(c, "schedule", client.NewSchedules(g.client).Get)
}

func listWork(g *Gateway, c *call) error { return listed(c, client.NewWorkItems(g.client).List) }

func showWork(g *Gateway, c *call) error { return shown(c, "item", client.NewWorkItems(g.client).Get) }

// listAgents lists agents without their prompts, which are their authors' business.
func listAgents(g *Gateway, c *call) error {
	return listed(c, func(ctx context.Context) ([]AgentInfo, error) {
		all, err := g.client.Agents(ctx)
		out := make([]AgentInfo, len(all))
		for i, a := range all {
			out[i] = AgentInfo{Name: a.Name, Description: a.Description, Model: a.Model, Tools: a.Tools}
		}
		return out, err
	})
}

func listArtifacts(g *Gateway, c *call) error {
	return listed(c, func(ctx context.Context) ([]client.Artifact, error) {
		return g.client.Artifacts().List(ctx, c.r.PathValue("run"))
	})
}

// sendArtifact sends what a run made as a file: whatever it is, a browser does not open it.
func sendArtifact(g *Gateway, c *call) error {
	ctx, cancel := c.within()
	defer cancel()
	a, data, err := g.client.Artifacts().Open(ctx, c.r.PathValue("run"), c.r.PathValue("artifact"))
	if err != nil {
		return err
	}
	defer func() { _ = data.Close() }() // it was only read
	if err := c.endless(); err != nil {
		return err
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": a.Name}))
	h.Set("Content-Length", strconv.FormatInt(a.Size, 10))
	rc := http.NewResponseController(c.w)
	return c.copied(rc, data, g.cfg.WriteWait)
}

// sendReport sends what was done in a run.
func sendReport(g *Gateway, c *call) error {
	ctx, cancel := c.within()
	defer cancel()
	text, err := g.client.Runs().Report(ctx, c.r.PathValue("run"))
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
	_, _ = io.WriteString(c.w, text) // the client may be gone
	return nil
}

// sendDocument sends the OpenAPI document.
func sendDocument(g *Gateway, c *call) error {
	c.w.Header().Set("Content-Type", "application/json")
	_, _ = c.w.Write(docs.OpenAPI) // the client may be gone
	return nil
}

// copied sends bytes piece by piece, each in time.
func (c *call) copied(rc *http.ResponseController, from io.Reader, wait time.Duration) error {
	piece := make([]byte, 64<<10)
	for {
		n, err := from.Read(piece)
		if n > 0 {
			if rc.SetWriteDeadline(time.Now().Add(wait)) != nil {
				return nil
			}
			if _, err := c.w.Write(piece[:n]); err != nil {
				return nil // the client is gone
			}
		}
		if err != nil {
			return nil // the end: it was checked before
		}
	}
}
