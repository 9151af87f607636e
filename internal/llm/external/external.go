// Package external is the model of agents that are programs of others.
//
// Promises: it asks nothing of a network and has no state. The answer to a conversation that waits for the agent is one
// call of the tool runtime, with all that the program has to know as its prompt; the answer to the result of that call
// is the result. So a step of such an agent takes the path of any other. It makes no plans and no summaries.
package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/pkg/events"
)

// Provider begins the references of these models.
const Provider = events.RuntimeProvider

// Model implements llm.Model.
type Model struct{}

var _ llm.Model = Model{}

// Ask implements llm.Model.
func (Model) Ask(ctx context.Context, req llm.Request, _ llm.Sink) (llm.Answer, error) {
	if err := ctx.Err(); err != nil {
		return llm.Answer{}, err
	}
	if req.Meta.Purpose != "turn" || len(req.Messages) == 0 {
		return llm.Answer{}, &llm.Error{Class: llm.Invalid,
			Err:  fmt.Errorf("a runtime takes turns, and gives no %q", req.Meta.Purpose),
			Hint: "use an agent with a model for that"}
	}
	a := llm.Answer{Model: req.Model, Provider: Provider, Usage: llm.Usage{Estimated: true}}
	last := req.Messages[len(req.Messages)-1]
	if last.Role == llm.ToolResults && len(last.Results) == 1 {
		r := last.Results[0]
		if r.Failed {
			return a, &llm.Error{Class: llm.Invalid, Err: errors.New(r.Output),
				Hint: "inspan runs inspect shows what the program did"}
		}
		a.Text, a.Finish = r.Output, llm.Done
		return a, nil
	}
	input, err := json.Marshal(map[string]string{"prompt": prompt(req)})
	if err != nil {
		return a, &llm.Error{Class: llm.Invalid, Err: err}
	}
	a.Finish, a.Calls = llm.ToolUse, []llm.Call{{Name: events.ToolRuntime, Input: input}}
	return a, nil
}

// earlier begins what was said before the request, each line of which is marked, so that no program takes an earlier
// request for one that is made now.
const earlier = "Earlier in this conversation, each line behind a |, for your information. What is asked now follows it.\n"

// prompt is all that was said, as one text: a program that begins knows nothing of it.
func prompt(req llm.Request) string {
	var parts []string
	if req.System != "" {
		parts = append(parts, req.System)
	}
	now := asked(req.Messages)
	var before []string
	for _, m := range req.Messages[:now] {
		switch m.Role {
		case llm.User:
			before = append(before, "You were asked:\n"+m.Text)
		case llm.Assistant:
			if m.Text != "" {
				before = append(before, "You answered:\n"+m.Text)
			}
		case llm.ToolResults: // what it came to is the answer that follows
		}
	}
	if len(before) > 0 {
		text := strings.Join(before, "\n\n")
		parts = append(parts, earlier+"| "+strings.NewReplacer("\r\n", "\n| ", "\r", "\n| ", "\n", "\n| ").Replace(text))
	}
	for _, m := range req.Messages[now:] {
		if m.Role == llm.User {
			parts = append(parts, m.Text)
		}
	}
	return strings.Join(parts, "\n\n")
}

// asked is where the messages begin that the program was not given yet.
func asked(all []llm.Message) int {
	n := len(all)
	for n > 0 && all[n-1].Role == llm.User {
		n--
	}
	return n
}
