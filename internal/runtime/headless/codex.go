package headless

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/inspan/inspan/internal/runtime"
)

// Codex implements runtime.Driver. A program of it serves one prompt.
type Codex struct{}

var _ runtime.Driver = Codex{}

// codex implements runtime.Conversation.
type codex struct {
	spec    runtime.Spec
	session string
	program *runtime.Program
}

// Start implements runtime.Driver. The program itself is started by a prompt, which is one of its arguments.
func (Codex) Start(_ context.Context, s runtime.Spec) (runtime.Conversation, error) {
	return &codex{spec: s, session: s.Resume}, nil
}

// item is something that the program did.
type item struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Text    string `json:"text"`
	Command string `json:"command"`
	Output  string `json:"aggregated_output"`
	Status  string `json:"status"`
}

// happening is what the program prints.
type happening struct {
	Type    string `json:"type"`
	Thread  string `json:"thread_id"`
	Message string `json:"message"`
	Error   struct {
		Message string `json:"message"`
	} `json:"error"`
	Item  item `json:"item"`
	Usage struct {
		Input  int `json:"input_tokens"`
		Output int `json:"output_tokens"`
		Cached int `json:"cached_input_tokens"`
	} `json:"usage"`
}

// Prompt implements runtime.Conversation.
func (c *codex) Prompt(ctx context.Context, text string) (r runtime.Reply, err error) {
	args := append([]string{"exec", "--json", "--skip-git-repo-check"}, modelArgs(c.spec)...)
	if c.session != "" {
		args = append(args, "resume", c.session)
	}
	c.Close()
	if c.program, err = runtime.Launch(ctx, c.spec, append(args, "-")...); err != nil {
		return r, err
	}
	stop := context.AfterFunc(ctx, c.program.Close)
	defer stop()
	go func() { // it ends when the program has read it or is closed
		_ = c.program.Write([]byte(text))
		c.program.CloseInput()
	}()
	var words runtime.Words
	done := false
	for {
		b, err := c.program.Next()
		switch {
		case ctx.Err() != nil:
			return r, ctx.Err()
		case errors.Is(err, runtime.ErrEnded) && done:
			r.Text = words.String()
			return r, nil
		case err != nil:
			return r, err
		}
		var h happening
		if err := json.Unmarshal(b, &h); err != nil {
			return r, fmt.Errorf("%w: a line that is not as it should be: %.80q", runtime.ErrProtocol, b)
		}
		switch h.Type {
		case "thread.started":
			if c.session = h.Thread; c.session != "" {
				if err := c.spec.Host.Session(ctx, c.session); err != nil {
					return r, err
				}
			}
		case "item.started", "item.completed":
			c.item(h, &words)
		case "turn.completed":
			r.Usage = runtime.Usage{Input: max(0, h.Usage.Input), Output: max(0, h.Usage.Output), Cached: max(0, h.Usage.Cached)}
			r.Failed, r.Reason, done = false, "", true // errors before it were those of attempts
		case "turn.failed", "error":
			r.Failed, r.Reason, done = true, fmt.Sprintf("it failed: %.512q", h.Error.Message+h.Message), true
		}
	}
}

// modelArgs lead the program to its model: it reads no address from a variable, only from its configuration. Its
// WebSocket is left out, as what passes there is not counted.
func modelArgs(s runtime.Spec) []string {
	m := s.Runtime.Model
	if m == nil {
		return nil
	}
	for _, v := range s.Env {
		if base, ok := strings.CutPrefix(v, m.BaseEnv+"="); ok {
			return []string{"-c", `model_provider="station"`, "-c", fmt.Sprintf("model_providers.station={name=\"station\","+
				"base_url=%q,env_key=%q,wire_api=\"responses\",supports_websockets=false}", base, m.KeyEnv)}
		}
	}
	return nil
}

func (c *codex) item(h happening, words *runtime.Words) {
	ended := h.Type == "item.completed"
	switch h.Item.Type {
	case "agent_message":
		if ended {
			words.Add(h.Item.Text + "\n")
			c.spec.Host.Update(runtime.Update{Kind: runtime.Text, Text: h.Item.Text + "\n"})
		}
	case "reasoning":
		c.spec.Host.Update(runtime.Update{Kind: runtime.Thought, Text: h.Item.Text})
	default:
		input, err := json.Marshal(map[string]string{"command": h.Item.Command})
		if err != nil {
			input = nil // it is a text
		}
		c.spec.Host.Update(runtime.Update{Kind: runtime.ToolCall, Tool: runtime.Tool{ID: h.Item.ID,
			Name: runtime.InnerName(h.Item.Type), Title: h.Item.Type, Input: input, Ended: ended,
			Failed: h.Item.Status == "failed", Output: h.Item.Output}})
	}
}

// Close implements runtime.Conversation.
func (c *codex) Close() {
	if c.program != nil {
		c.program.Close()
	}
}
