package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/gateway/tokens"
)

// ChatRequest is the body of a request for a completion, as OpenAI's API has it. What is not here is ignored: the agent
// has its own tools and settings.
type ChatRequest struct {
	// Model is the name of an agent.
	Model    string        `json:"model"`
	Messages []ChatMessage `json:"messages"`
	Stream   bool          `json:"stream,omitempty"`
	N        int           `json:"n,omitempty"`
	Options  struct {
		Usage bool `json:"include_usage,omitempty"`
	} `json:"stream_options,omitzero"`
	// User is the session of the run where Metadata has no session_id.
	User     string            `json:"user,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// ChatMessage is a message of a conversation; its content is a text, or parts that are texts.
type ChatMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content,omitempty"`
}

// ChatAnswer is a completion, or with Delta a piece of one.
type ChatAnswer struct {
	// ID is that of the run.
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []ChatChoice `json:"choices"`
	Usage   *ChatUsage   `json:"usage,omitempty"`
}

// ChatChoice is the only one of an answer.
type ChatChoice struct {
	Index   int       `json:"index"`
	Message *ChatText `json:"message,omitempty"`
	Delta   *ChatText `json:"delta,omitempty"`
	Finish  *string   `json:"finish_reason"`
}

// ChatText is what the agent writes.
type ChatText struct {
	Role    string `json:"role,omitempty"`
	Content string `json:"content,omitempty"`
}

// ChatUsage is what the models of the run used.
type ChatUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

// ChatModel is an agent.
type ChatModel struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// ChatModels are all of them.
type ChatModels struct {
	Object string      `json:"object"`
	Data   []ChatModel `json:"data"`
}

// chatPaths begins the paths whose errors have OpenAI's form.
const chatPaths = "/v1/"

// ChatError is an error in OpenAI's form.
type ChatError struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	} `json:"error"`
}

// chatError is a problem in OpenAI's form.
func chatError(p *Problem) ChatError {
	var e ChatError
	parts := []string{}
	for _, part := range []string{p.Detail, p.Hint} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		parts = append(parts, http.StatusText(p.Status))
	}
	e.Error.Message, e.Error.Code, e.Error.Type = strings.Join(parts, "; "), p.Code, "invalid_request_error"
	switch {
	case p.Status == http.StatusUnauthorized:
		e.Error.Type, e.Error.Code = "authentication_error", "invalid_api_key"
	case p.Status == http.StatusForbidden:
		e.Error.Type = "permission_error"
	case p.Status == http.StatusTooManyRequests:
		e.Error.Type = "rate_limit_error"
	case p.Status >= http.StatusInternalServerError:
		e.Error.Type = "server_error"
	}
	return e
}

// listModels lists the agents as models.
func listModels(g *Gateway, c *call) error {
	ctx, cancel := c.within()
	defer cancel()
	agents, err := g.client.Agents(ctx)
	if err != nil {
		return err
	}
	out := ChatModels{Object: "list", Data: []ChatModel{}}
	for _, a := range agents[:min(len(agents), mostItems)] {
		out.Data = append(out.Data, ChatModel{ID: a.Name, Object: "model", OwnedBy: "inspan"})
	}
	return c.json(http.StatusOK, out)
}

// readChat reads a request for a completion.
func (c *call) readChat() (in ChatRequest, t events.Task, err error) {
	if err := c.loose(&in, maxBody); err != nil {
		return in, t, err
	}
	if in.N > 1 {
		return in, t, bad("n: there is one answer", "leave n out")
	}
	task, err := lastOfUser(in.Messages)
	if err != nil {
		return in, t, err
	}
	t = events.Task{ID: client.NewID(), Agent: in.Model, Task: task, Session: in.Metadata["session_id"], By: c.token.Name}
	if t.Session == "" {
		t.Session = in.User
	}
	err = c.keyed(&t)
	return in, t, err
}

// keyed has a task be that of the Idempotency-Key of a request, if it has one.
func (c *call) keyed(t *events.Task) error {
	keys := c.r.Header.Values("Idempotency-Key")
	if len(keys) == 0 {
		return nil
	}
	if len(keys) > 1 || keys[0] == "" || len(keys[0]) > maxKey {
		return bad(fmt.Sprintf("Idempotency-Key: want one of 1 to %d characters", maxKey), "")
	}
	t.ID = keyedID(c.token.Name, keys[0])
	return nil
}

// lastOfUser is the last message of the user, which is the task.
func lastOfUser(all []ChatMessage) (task string, err error) {
	for _, m := range all {
		if m.Role != "user" {
			continue
		}
		if task, err = m.text(); err != nil {
			return "", err
		}
	}
	if task == "" {
		return "", bad("messages: there is none of the user", "the last message of the user is the task")
	}
	return task, nil
}

// text of a message.
func (m ChatMessage) text() (string, error) {
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(m.Content, &parts); err != nil {
		return "", bad("messages: the content is neither a text nor a list of parts", "")
	}
	for _, p := range parts {
		if p.Type != "text" && p.Type != "input_text" {
			return "", bad(fmt.Sprintf("messages: a part of the type %.32q", p.Type), "send text only")
		}
		text += p.Text
	}
	return text, nil
}

// chat runs an agent and answers as a model would.
func (g *Gateway) chat(c *call) error {
	in, t, err := c.readChat()
	if err != nil {
		return err
	}
	if !c.token.Has(tokens.Write) {
		_, p := g.token(c.r, tokens.Write)
		return p
	}
	ctx, end, err := g.waits(c)
	if err != nil {
		return err
	}
	defer end()
	if err := asModel(ctx, g, t); err != nil {
		return err
	}
	// There is a run now. OpenAI's clients repeat what fails, which would start another one.
	c.w.Header().Set("X-Should-Retry", "false")
	c.w.Header().Set("Location", "/api/v1/runs/"+t.ID)
	a := &completion{following: g.follow(c, t.ID), in: in, created: time.Now().Unix()}
	if in.Stream {
		return a.stream(ctx)
	}
	s, err := g.client.State(ctx, t.ID)
	if err == nil {
		s, err = a.settled(ctx, s)
	}
	if err = errors.Join(err, last(g, c)); err != nil {
		return err
	}
	if p := unanswered(s); p != nil {
		return p
	}
	stop := "stop"
	out := a.answer("chat.completion")
	out.Choices = []ChatChoice{{Message: &ChatText{Role: "assistant", Content: s.Result.Output}, Finish: &stop}}
	out.Usage = usageOf(s)
	return c.json(http.StatusOK, out)
}

// asModel starts the run of a task whose agent is named as a model.
func asModel(ctx context.Context, g *Gateway, t events.Task) error {
	same, err := g.start(ctx, t)
	if r, ok := errors.AsType[*client.RefusedError](err); ok && r.Code == "unknown_agent" {
		return &Problem{Status: http.StatusNotFound, Code: "model_not_found", Detail: r.Reason,
			Hint: "GET /v1/models lists those that are"}
	}
	if err == nil && !same {
		err = &Problem{Status: http.StatusUnprocessableEntity, Code: "duplicate_id", Run: t.ID,
			Detail: "the Idempotency-Key belongs to another request", Hint: "send the same as before, or another key"}
	}
	return err
}

// unanswered says why a run has no answer; nil where it has one.
func unanswered(s run.State) *Problem {
	p := &Problem{Status: http.StatusUnprocessableEntity, Run: s.HarnessID}
	at := "the run is /api/v1/runs/" + s.HarnessID
	switch gates := s.Waiting(); {
	case s.Status == events.Completed:
		return nil
	case s.Status == events.Failed:
		p.Code, p.Detail, p.Hint = "run_failed", s.Result.FinishReason+": "+s.Result.Error, at
	case len(gates) > 0:
		p.Code, p.Detail = "run_waits", "the run waits for a person: "+gates[0].Description
		p.Hint = "inspan approve " + gates[0].ID + "; " + at
	case s.Status == events.Paused:
		p.Code, p.Detail, p.Hint = "run_paused", "the run is paused", at
	default:
		p.Code, p.Detail, p.Hint = "run_goes_on", "the run has not ended in time", at
	}
	return p
}

func usageOf(s run.State) *ChatUsage {
	return &ChatUsage{Prompt: s.Result.InputTokens, Completion: s.Result.OutputTokens, Total: s.Result.TotalTokens}
}
