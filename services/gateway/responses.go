package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/gateway/phase"
	"github.com/inspan/inspan/services/gateway/tokens"
)

// ResponseRequest is the body of a request for a response, as OpenAI's API has it. What is not here is ignored.
type ResponseRequest struct {
	// Model is the name of an agent; Input a text, or a list of messages and of answers to what was asked.
	Model  string          `json:"model"`
	Input  json.RawMessage `json:"input"`
	Stream bool            `json:"stream,omitempty"`
	// Background answers at once.
	Background bool `json:"background,omitempty"`
	// Previous is the response whose session goes on; Conversation names a session, as a text or an object with its id.
	Previous     string            `json:"previous_response_id,omitempty"`
	Conversation json.RawMessage   `json:"conversation,omitempty"`
	User         string            `json:"user,omitempty"`
	Metadata     map[string]string `json:"metadata,omitempty"`
}

// ResponseItem is a message, or the answer to what a response asked for.
type ResponseItem struct {
	ChatMessage
	Type    string `json:"type,omitempty"`
	Request string `json:"approval_request_id,omitempty"`
	Approve *bool  `json:"approve,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// ResponseAnswer is a run as a response. Its id is that of the run.
type ResponseAnswer struct {
	ID         string            `json:"id"`
	Object     string            `json:"object"`
	Created    int64             `json:"created_at"`
	Status     string            `json:"status"`
	Model      string            `json:"model"`
	Output     []map[string]any  `json:"output"`
	Previous   *string           `json:"previous_response_id"`
	Session    map[string]string `json:"conversation"`
	Error      map[string]string `json:"error"`
	Incomplete map[string]string `json:"incomplete_details"`
	Usage      map[string]any    `json:"usage"`
	Parallel   bool              `json:"parallel_tool_calls"`
	Choice     string            `json:"tool_choice"`
	Tools      []string          `json:"tools"`
	Metadata   map[string]string `json:"metadata"`
}

// responseRoutes are those of responses.
func responseRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/responses", scope: tokens.Read, serve: serveResponse, body: ResponseRequest{},
			summary: "Run an agent as a response of OpenAI's API; needs runs:write, too, and gates:answer for answers; with " +
				"stream its events are sent as server-sent events",
			params: []param{{"Idempotency-Key", "header",
				"1 to 255 characters: the same key of the same token starts one run, for ever"}},
			answers: map[int]any{200: ResponseAnswer{}}},
		{method: "GET", path: "/v1/responses/{run}", scope: tokens.Read, serve: showResponse,
			summary: "Show a run as a response of OpenAI's API, or stream it from its beginning",
			params:  []param{{"stream", "query", "true for server-sent events"}}, answers: map[int]any{200: ResponseAnswer{}}},
		{method: "POST", path: "/v1/responses/{run}/cancel", scope: tokens.Write, serve: cancelResponse,
			summary: "Stop the run of a response", answers: map[int]any{200: ResponseAnswer{}}},
	}
}

// responseOf is a run as a response.
func responseOf(s run.State) ResponseAnswer {
	out := ResponseAnswer{ID: s.HarnessID, Object: "response", Created: s.CreatedAt.Unix(), Status: "in_progress",
		Model: s.AgentName, Output: []map[string]any{}, Choice: "auto", Tools: []string{}, Metadata: map[string]string{}}
	if s.Created != nil && s.Created.Session != "" {
		out.Session = map[string]string{"id": s.Created.Session}
	}
	switch phase.Of(s) {
	case phase.Queued:
		out.Status = "queued"
	case phase.Completed:
		out.Status = "completed"
		out.Output = append(out.Output, responseMessage(s.HarnessID, s.Result.Output, "completed"))
	case phase.Stopped:
		out.Status = "cancelled"
	case phase.Failed:
		out.Status, out.Error = "failed", map[string]string{"code": "server_error",
			"message": s.Result.FinishReason + ": " + s.Result.Error}
	case phase.Paused:
		out.Status, out.Incomplete = "incomplete", map[string]string{"reason": "paused"}
	case phase.Waiting:
		out.Status = "completed"
		for _, g := range s.Waiting() {
			out.Output = append(out.Output, responseGate(s, g))
		}
	case phase.Working:
	}
	if r := s.Result; r != nil {
		out.Usage = object{"input_tokens": r.InputTokens, "output_tokens": r.OutputTokens, "total_tokens": r.TotalTokens,
			"input_tokens_details": object{"cached_tokens": 0}, "output_tokens_details": object{"reasoning_tokens": 0}}
	}
	return out
}

// responseMessage is what the agent says, as an item.
func responseMessage(id, text, status string) map[string]any {
	content := []any{}
	if status == "completed" {
		content = append(content, responseText(text))
	}
	return object{"id": "msg_" + id, "type": "message", "role": "assistant", "status": status, "content": content}
}

func responseText(text string) object {
	return object{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
}

// responseGate is a gate, as an item that asks for an approval.
func responseGate(s run.State, g *run.Gate) map[string]any {
	name, about := "step", object{"description": forPeople(g.Description), "proposal_hash": g.Hash}
	if c := s.Open[g.CallID]; c != nil {
		name = c.Tool
		if len(c.Input) > 0 {
			about["input"] = c.Input
		}
	}
	args, _ := json.Marshal(about) // texts and what was JSON
	return object{"id": s.HarnessID + "/" + g.ID, "type": "mcp_approval_request", "server_label": "inspan", "name": name,
		"arguments": string(args)}
}

// items are the input of a request.
func (in ResponseRequest) items() ([]ResponseItem, error) {
	var text string
	if json.Unmarshal(in.Input, &text) == nil {
		content, err := json.Marshal(text)
		return []ResponseItem{{ChatMessage: ChatMessage{Role: "user", Content: content}}}, err
	}
	var all []ResponseItem
	if err := json.Unmarshal(in.Input, &all); err != nil {
		return nil, bad("input: it is neither a text nor a list of items", "")
	}
	return all, nil
}

// session of a request; empty where none is named.
func (in ResponseRequest) session(ctx context.Context, g *Gateway) (string, error) {
	var id string
	var of struct {
		ID string `json:"id"`
	}
	switch {
	case len(in.Conversation) > 0 && string(in.Conversation) != "null":
		if json.Unmarshal(in.Conversation, &id) != nil && json.Unmarshal(in.Conversation, &of) != nil {
			return "", bad("conversation: it is neither a text nor an object with an id", "")
		}
		return id + of.ID, nil
	case in.Previous != "":
		s, err := g.client.State(ctx, in.Previous)
		if err != nil {
			return "", err
		}
		if s.Created.Session == "" {
			return "", bad("previous_response_id: that run has no session", "name one as conversation from the beginning")
		}
		return s.Created.Session, nil
	case in.Metadata["session_id"] != "":
		return in.Metadata["session_id"], nil
	}
	return in.User, nil
}

// serveResponse runs an agent, or answers what it waits for.
func serveResponse(g *Gateway, c *call) error {
	var in ResponseRequest
	if err := c.loose(&in, maxBody); err != nil {
		return err
	}
	items, err := in.items()
	if err != nil {
		return err
	}
	ctx, end, err := g.waits(c)
	if err != nil {
		return err
	}
	defer end()
	var answers []ResponseItem
	for _, i := range items {
		if i.Type == "mcp_approval_response" {
			answers = append(answers, i)
		}
	}
	var id string
	var from run.State
	if len(answers) > 0 {
		id, from, err = approved(ctx, g, c, in, answers)
	} else {
		id, err = responds(ctx, g, c, in, items)
	}
	if err != nil {
		return err
	}
	c.w.Header().Set("X-Should-Retry", "false") // there is a run now
	c.w.Header().Set("Location", "/api/v1/runs/"+id)
	r := &response{following: g.follow(c, id)}
	if in.Stream {
		return r.stream(ctx, from)
	}
	s, err := g.client.State(ctx, id)
	if err == nil && !in.Background {
		s, err = r.settled(ctx, s)
	}
	if err != nil {
		return err
	}
	if err := last(g, c); err != nil {
		return err
	}
	return c.json(http.StatusOK, responseOf(s))
}

// responds starts the run of a request.
func responds(ctx context.Context, g *Gateway, c *call, in ResponseRequest, items []ResponseItem) (string, error) {
	if !c.token.Has(tokens.Write) {
		_, p := g.token(c.r, tokens.Write)
		return "", p
	}
	var messages []ChatMessage
	for _, i := range items {
		if i.Type == "" || i.Type == "message" {
			messages = append(messages, i.ChatMessage)
		}
	}
	task, err := lastOfUser(messages)
	if err != nil {
		return "", err
	}
	t := events.Task{ID: client.NewID(), Agent: in.Model, Task: task, By: c.token.Name}
	if err := c.keyed(&t); err != nil {
		return "", err
	}
	if t.Session, err = in.session(ctx, g); err != nil {
		return "", err
	}
	if t.Session == "" { // so that the next request can go on with it
		t.Session = "resp-" + t.ID[strings.IndexByte(t.ID, '-')+1:]
	}
	return t.ID, asModel(ctx, g, t)
}

// approved gives the answers of a request to the station, and returns the run as it was right behind them.
func approved(ctx context.Context, g *Gateway, c *call, in ResponseRequest, answers []ResponseItem) (id string,
	from run.State, err error) {
	if !c.token.Has(tokens.Answer) {
		_, p := g.token(c.r, tokens.Answer)
		return "", from, p
	}
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	for _, a := range answers {
		of, gate, ok := strings.Cut(a.Request, "/")
		if !ok || a.Approve == nil || id != "" && of != id || in.Previous != "" && of != in.Previous {
			return "", from, bad("input: an answer has the id of no request of this run, or does not say approve",
				"send the approval_request_id as it came")
		}
		id = of
		s, err := g.client.State(ctx, id)
		if err != nil {
			return "", from, err
		}
		if s.AgentName != in.Model {
			return "", from, &client.NotFoundError{What: "run", ID: id}
		}
		word := map[bool]string{true: "approve", false: "reject"}[*a.Approve]
		s, err = g.decide(ctx, client.Decision{Run: id, Gate: gate, By: c.token.Name, Reason: a.Reason}, word)
		if err == nil {
			from, err = stateAt(ctx, g, id, s.Gate(gate).Resolution)
		}
		if err != nil {
			return "", from, err
		}
	}
	return id, from, nil
}

// showResponse shows a response, or streams it.
func showResponse(g *Gateway, c *call) error {
	id, q := c.r.PathValue("run"), c.r.URL.Query()
	if q.Get("starting_after") != "" {
		return bad("starting_after: a stream begins at the beginning of its response", "leave it out")
	}
	if q.Get("stream") == "true" {
		ctx, end, err := g.waits(c)
		if err != nil {
			return err
		}
		defer end()
		if _, err := g.client.State(ctx, id); err != nil {
			return err
		}
		return (&response{following: g.follow(c, id)}).stream(ctx, run.State{})
	}
	ctx, cancel := c.within()
	defer cancel()
	s, err := g.client.State(ctx, id)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, responseOf(s))
}

// cancelResponse stops the run of a response; one that has ended is shown.
func cancelResponse(g *Gateway, c *call) error {
	ctx, cancel := c.within()
	defer cancel()
	s, err := g.client.State(ctx, c.r.PathValue("run"))
	if err == nil && !s.Status.Ended() {
		s, err = g.client.Control(ctx, s.HarnessID, events.Control{Action: "stop", By: c.token.Name})
	}
	if err != nil {
		return err
	}
	if !c.token.Has(tokens.Read) {
		s.Result = &events.Result{FinishReason: events.FinishStopped}
	}
	return c.json(http.StatusOK, responseOf(s))
}

// response is one that is streamed.
type response struct {
	*following
	// number counts the events, at is the place of the item that is open, open its id, and said its text.
	number, at int
	open       string
	wrote      strings.Builder
}

// stream sends the events behind a state until the run rests.
func (r *response) stream(ctx context.Context, from run.State) error {
	r.streams()
	s, err := r.g.client.State(ctx, r.run)
	if err != nil {
		return err
	}
	r.head = s.Sequence
	begin := responseOf(s)
	begin.Status, begin.Output, begin.Error, begin.Usage = "in_progress", []map[string]any{}, nil, nil
	if r.send("response.created", object{"response": begin}) != nil ||
		r.send("response.in_progress", object{"response": begin}) != nil {
		return nil // the client is gone
	}
	r.text, r.see = r.words, func(item client.Item) error {
		if d, ok := item.Payload.(*events.TurnFinishedData); ok {
			if rest, fresh := r.ended(d); rest != "" {
				if err := r.words(fresh, rest); err != nil {
					return err
				}
			}
			return r.close()
		}
		return nil
	}
	if s, err = r.settled(ctx, from); err == nil {
		err = r.close()
	}
	if err != nil {
		p := chatError(r.g.problem(r.c.route.path, err)).Error
		_ = r.send("error", object{"code": p.Code, "message": p.Message, "param": nil}) // the client may be gone
		return nil
	}
	end := responseOf(s)
	for _, item := range end.Output {
		if item["type"] != "mcp_approval_request" {
			continue
		}
		if r.send("response.output_item.added", object{"output_index": r.at, "item": item}) != nil ||
			r.send("response.output_item.done", object{"output_index": r.at, "item": item}) != nil {
			return nil
		}
		r.at++
	}
	kind := map[string]string{"completed": "response.completed", "failed": "response.failed",
		"incomplete": "response.incomplete", "cancelled": "response.incomplete"}[end.Status]
	if kind != "" {
		_ = r.send(kind, object{"response": end}) // as above
	}
	return nil
}

// words sends text as it is written: each turn is an item.
func (r *response) words(fresh bool, text string) error {
	if fresh || r.open == "" {
		if err := r.close(); err != nil {
			return err
		}
		r.open = fmt.Sprintf("%s_%d", r.run, r.at)
		r.wrote.Reset()
		item := responseMessage(r.open, "", "in_progress")
		if err := r.send("response.output_item.added", object{"output_index": r.at, "item": item}); err != nil {
			return err
		}
		if err := r.part("response.content_part.added", object{"part": responseText("")}); err != nil {
			return err
		}
	}
	r.wrote.WriteString(text)
	return r.part("response.output_text.delta", object{"delta": text, "logprobs": []any{}})
}

// close ends the item that is open.
func (r *response) close() error {
	if r.open == "" {
		return nil
	}
	text := r.wrote.String()
	if err := r.part("response.output_text.done", object{"text": text, "logprobs": []any{}}); err != nil {
		return err
	}
	if err := r.part("response.content_part.done", object{"part": responseText(text)}); err != nil {
		return err
	}
	item := responseMessage(r.open, text, "completed")
	err := r.send("response.output_item.done", object{"output_index": r.at, "item": item})
	r.open = ""
	r.at++
	return err
}

// part sends an event about the only part of the item that is open.
func (r *response) part(kind string, more object) error {
	more["item_id"], more["output_index"], more["content_index"] = "msg_"+r.open, r.at, 0
	return r.send(kind, more)
}

func (r *response) send(kind string, more object) error {
	more["type"], more["sequence_number"] = kind, r.number
	r.number++
	return r.event(more)
}
