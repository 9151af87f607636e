package models

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/llm/llmtest"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// wire is how a provider streams a call and a text.
type wire struct {
	call func(id, tool, input string) string
	text func(text string) string
}

func data(lines ...string) string {
	return "data: " + strings.Join(lines, "\n\ndata: ") + "\n\n"
}

var anthropic = wire{
	call: func(id, tool, input string) string {
		return data(`{"type":"message_start","message":{"model":"claude-x","usage":{"input_tokens":10,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"PRIVATE THOUGHT"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}`,
			fmt.Sprintf(`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":%q,"name":%q,"input":{}}}`, id, tool),
			fmt.Sprintf(`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":%q}}`, input),
			`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}`, `{"type":"message_stop"}`)
	},
	text: func(text string) string {
		return data(`{"type":"message_start","message":{"model":"claude-x"}}`,
			fmt.Sprintf(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":%q}}`, text),
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"message_stop"}`)
	},
}

var chat = wire{
	call: func(id, tool, input string) string {
		return data(fmt.Sprintf(`{"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":%q,"type":"function","function":{"name":%q,"arguments":%q}}]},"finish_reason":"tool_calls"}]}`,
			id, tool, input), "[DONE]")
	},
	text: func(text string) string {
		return data(fmt.Sprintf(`{"model":"m","choices":[{"index":0,"delta":{"content":%q},"finish_reason":"stop"}]}`, text), "[DONE]")
	},
}

var responses = wire{
	call: func(id, tool, input string) string {
		return data(`{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"ENCRYPTED"}}`,
			fmt.Sprintf(`{"type":"response.output_item.done","output_index":1,"item":{"id":"fc_1","type":"function_call","call_id":%q,"name":%q,"arguments":%q}}`, id, tool, input),
			`{"type":"response.completed","response":{"model":"gpt-x","status":"completed","usage":{"input_tokens":10,"output_tokens":5}}}`)
	},
	text: func(text string) string {
		return data(fmt.Sprintf(`{"type":"response.output_item.done","output_index":0,"item":{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"output_text","text":%q}]}}`, text),
			`{"type":"response.completed","response":{"model":"gpt-x","status":"completed"}}`)
	},
}

var gemini = wire{
	call: func(id, tool, input string) string {
		return data(fmt.Sprintf(`{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"id":%q,"name":%q,"args":%s},"thoughtSignature":"U0lHTkVE"}]},"finishReason":"STOP"}],"modelVersion":"gemini-x"}`,
			id, tool, input))
	},
	text: func(text string) string {
		return data(fmt.Sprintf(`{"candidates":[{"content":{"role":"model","parts":[{"text":%q}]},"finishReason":"STOP"}],"modelVersion":"gemini-x"}`, text))
	},
}

// carryOut runs one task with an agent of model and returns the run at its end.
func carryOut(t *testing.T, model string, base service.Config) run.State {
	t.Helper()
	return carry(t, model, base, time.Minute, nil, "Write and read.")[0]
}

// carry lets an agent of the model do the tasks, one after the other, in one session where there are several, with
// tools beside those of the station.
func carry(t *testing.T, model string, base service.Config, limit time.Duration, more []tool.Tool, tasks ...string) (ends []run.State) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
	t.Cleanup(cancel)
	dir := t.TempDir()
	agents := filepath.Join(dir, "agents")
	if err := os.Mkdir(agents, 0o755); err != nil {
		t.Fatal(err)
	}
	names := "write, read"
	for _, one := range more {
		names += ", " + one.Spec().Name
	}
	agent := "---\nname: clerk\nmodel: " + model + "\ntools: [" + names + "]\nsandbox: {mode: host}\n---\nDo the task.\n"
	if err := os.WriteFile(filepath.Join(agents, "clerk.prompt"), []byte(agent), 0o600); err != nil {
		t.Fatal(err)
	}
	st, err := station.Up(ctx, station.Config{Listen: "127.0.0.1:0", StoreDir: filepath.Join(dir, "store"), AgentsDir: agents,
		Sandbox: "host", LazySync: true, Log: zerolog.Nop(), Base: base, Tools: more})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	c, err := client.Connect(ctx, client.Config{URL: st.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	five, session := 5, ""
	if len(tasks) > 1 {
		session = "talk"
	}
	for _, task := range tasks {
		id, err := c.Start(ctx, events.Task{Agent: "clerk", Task: task, Autonomy: &five, Session: session})
		if err != nil {
			t.Fatal(err)
		}
		var last run.State
		for item, err := range c.Watch(ctx, id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			last = item.State
		}
		ends = append(ends, last)
	}
	return ends
}

const (
	writes = `{"path":"a.txt","content":"the alpha letter"}`
	reads  = `{"path":"a.txt"}`
)

// dialect is how a station is set to a provider and what that says.
type dialect struct {
	model  string
	wire   wire
	set    func(cfg *service.Config, url string)
	replay string // what the last request must hold of the model's own bytes
}

func dialects() map[string]dialect {
	key := secret.New(llmtest.Key)
	return map[string]dialect{
		"anthropic": {"anthropic/claude-x", anthropic, func(cfg *service.Config, url string) { cfg.AnthropicKey, cfg.AnthropicBaseURL = key, url }, `"signature":"c2ln"`},
		"chat":      {"openai/m", chat, func(cfg *service.Config, url string) { cfg.OpenAIBaseURL = url }, `"tool_call_id":"call_1"`},
		"responses": {"openai/gpt-x", responses, func(cfg *service.Config, url string) {
			cfg.OpenAIKey, cfg.OpenAIBaseURL, cfg.OpenAIAPI = key, url, "responses"
		}, `"encrypted_content":"ENCRYPTED"`},
		"gemini": {"gemini/gemini-x", gemini, func(cfg *service.Config, url string) { cfg.GeminiKey, cfg.GeminiBaseURL = key, url }, `"thoughtSignature":"U0lHTkVE"`},
	}
}

func TestProviders(t *testing.T) {
	t.Parallel()
	base, err := service.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	base.SandboxReaches = true // a sandbox is not what is tested
	for name, c := range dialects() {
		t.Run("LOOP-16 PLUS-2 a station carries a run out with "+name+", and the model's own bytes come back to it through the log", func(t *testing.T) {
			t.Parallel()
			s := llmtest.Serve(t, llmtest.Stream(c.wire.call("call_1", "write", writes)), llmtest.Stream(c.wire.call("call_2", "read", reads)),
				llmtest.Stream(c.wire.text("It is read.")))
			cfg := base
			c.set(&cfg, s.URL)
			end := carryOut(t, c.model, cfg)
			if end.Status != events.Completed || end.Result.Output != "It is read." || s.Requests() != 3 {
				t.Fatalf("got %s, %+v after %d requests", end.Status, end.Result, s.Requests())
			}
			if last := string(s.Last()); strings.Count(last, "the alpha letter") < 2 || !strings.Contains(last, c.replay) {
				t.Errorf("got %s, want what was written, what was read, and %s", last, c.replay)
			}
		})
	}
}

func TestAnotherProviderStandsIn(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-7 PLUS-2 where a provider goes down in the middle of a run, the next one of the list ends it", func(t *testing.T) {
		t.Parallel()
		cfg, err := service.FromEnv()
		if err != nil {
			t.Fatal(err)
		}
		first := llmtest.Serve(t, llmtest.Stream(anthropic.call("toolu_1", "write", writes)), llmtest.Refuse(http.StatusServiceUnavailable, ""))
		second := llmtest.Serve(t, llmtest.Stream(gemini.call("g1", "read", reads)), llmtest.Stream(gemini.text("It is read.")))
		cfg.AnthropicKey, cfg.AnthropicBaseURL = secret.New(llmtest.Key), first.URL
		cfg.GeminiKey, cfg.GeminiBaseURL = secret.New(llmtest.Key), second.URL
		end := carryOut(t, "anthropic/claude-x,gemini/gemini-x", cfg)
		if end.Status != events.Completed || end.Result.Output != "It is read." {
			t.Fatalf("got %s, %+v", end.Status, end.Result)
		}
		// The second turn: two tries of the first model, then the second one; the third turn begins with the first
		// again.
		told := string(second.Body(0))
		if !strings.Contains(told, `"id":"toolu_1"`) || strings.Contains(told, "PRIVATE THOUGHT") {
			t.Errorf("the second model was told %s, want the call, and nothing of what the first one thought", told)
		}
		var who []string
		for _, turn := range run.All(end.Turns()) {
			who = append(who, turn.Provider)
		}
		if got := strings.Join(who, " "); got != "anthropic gemini gemini" {
			t.Errorf("answered by %s", got)
		}
	})
}
