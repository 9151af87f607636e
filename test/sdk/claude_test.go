package sdk

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/anthropic"
)

type claude struct{}

func (claude) adapter(url string) (llm.Model, error) {
	return anthropic.New(anthropic.Config{APIKey: key, BaseURL: url})
}

func (claude) refusal(int) string {
	return `{"type":"error","error":{"type":"api_error","message":"no"}}`
}

func (claude) status(err error) int {
	if e, ok := errors.AsType[*sdk.Error](err); ok {
		return e.StatusCode
	}
	return 0
}

// same writes the text of a tool result as the SDK does, in a block.
func (claude) same(body map[string]any) {
	messages, _ := body["messages"].([]any)
	for _, m := range messages {
		content, _ := m.(map[string]any)["content"].([]any)
		for _, b := range content {
			block := b.(map[string]any)
			if text, ok := block["content"].(string); ok {
				block["content"] = []any{map[string]any{"type": "text", "text": text}}
			}
			if block["is_error"] == false {
				delete(block, "is_error")
			}
		}
	}
}

// params is q in the SDK's types, with the marks of the cache where the adapter sets them.
func (claude) params(q llm.Request) sdk.MessageNewParams {
	p := sdk.MessageNewParams{Model: sdk.Model(q.Model), MaxTokens: int64(q.MaxOutputTokens)}
	if p.MaxTokens == 0 {
		p.MaxTokens = llm.DefaultMaxOutputTokens
	}
	if q.Temperature != nil {
		p.Temperature = sdk.Float(*q.Temperature)
	}
	if q.System != "" {
		p.System = []sdk.TextBlockParam{{Text: q.System}}
	}
	for _, t := range q.Tools {
		in := decoded(string(t.Input)).(map[string]any)
		tool := &sdk.ToolParam{Name: t.Name, InputSchema: sdk.ToolInputSchemaParam{Properties: in["properties"], Required: []string{"dir"}}}
		if t.Description != "" {
			tool.Description = sdk.String(t.Description)
		}
		p.Tools = append(p.Tools, sdk.ToolUnionParam{OfTool: tool})
	}
	if len(q.Schema) > 0 {
		p.OutputConfig.Format.Schema = sdk.BetaJSONSchemaOutputFormat(decoded(string(q.Schema)).(map[string]any)).Schema.(map[string]any)
	}
	for _, m := range q.Messages {
		var blocks []sdk.ContentBlockParamUnion
		for _, i := range m.Images {
			blocks = append(blocks, sdk.NewImageBlockBase64(i.MediaType, base64.StdEncoding.EncodeToString(i.Data)))
		}
		for _, r := range m.Results {
			blocks = append(blocks, sdk.NewToolResultBlock(r.CallID, r.Output, r.Failed))
		}
		if m.Text != "" {
			blocks = append(blocks, sdk.NewTextBlock(m.Text))
		}
		for _, c := range m.Calls {
			blocks = append(blocks, sdk.NewToolUseBlock(c.ID, decoded(string(c.Input)), c.Name))
		}
		if m.Role == llm.Assistant {
			p.Messages = append(p.Messages, sdk.NewAssistantMessage(blocks...))
		} else {
			p.Messages = append(p.Messages, sdk.NewUserMessage(blocks...))
		}
	}
	if len(q.Messages) > 1 || len(q.Tools) > 0 {
		mark(&p)
	}
	return p
}

func mark(p *sdk.MessageNewParams) {
	if len(p.Tools) > 0 {
		p.Tools[len(p.Tools)-1].OfTool.CacheControl = sdk.NewCacheControlEphemeralParam()
	}
	if len(p.System) > 0 {
		p.System[0].CacheControl = sdk.NewCacheControlEphemeralParam()
	}
	left := 2
	for i := len(p.Messages) - 1; i >= 0 && left > 0; i-- {
		if p.Messages[i].Role != sdk.MessageParamRoleUser {
			continue
		}
		content := p.Messages[i].Content
		*content[len(content)-1].GetCacheControl() = sdk.NewCacheControlEphemeralParam()
		left--
	}
}

func (o claude) ask(ctx context.Context, url string, q llm.Request) (answer, error) {
	client := sdk.NewClient(option.WithoutEnvironmentDefaults(), option.WithAPIKey(key), option.WithBaseURL(url), option.WithMaxRetries(0))
	stream := client.Messages.NewStreaming(ctx, o.params(q))
	defer stream.Close()
	var m sdk.Message
	whole := false
	for stream.Next() {
		if err := m.Accumulate(stream.Current()); err != nil {
			return answer{}, err
		}
		if stream.Current().Type == "message_stop" {
			whole = true
			break
		}
	}
	if err := stream.Err(); err != nil {
		return answer{}, err
	}
	if !whole {
		return answer{}, errors.New("no message_stop")
	}
	u := m.Usage
	a := answer{Model: string(m.Model), Usage: llm.Usage{Input: int(u.InputTokens + u.CacheCreationInputTokens + u.CacheReadInputTokens),
		Output: int(u.OutputTokens), CachedInput: int(u.CacheReadInputTokens)}}
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			a.Text += b.Text
		case "thinking":
			a.Thinking += b.Thinking
		case "tool_use":
			a.Calls = append(a.Calls, call{b.ID, b.Name, decoded(string(b.Input))})
		}
	}
	a.Finish = map[sdk.StopReason]llm.Finish{sdk.StopReasonEndTurn: llm.Done, sdk.StopReasonToolUse: llm.ToolUse,
		sdk.StopReasonMaxTokens: llm.Length, sdk.StopReasonRefusal: llm.Refusal}[m.StopReason]
	return a, nil
}

func (claude) streams() map[string][]string {
	frame := func(kind, rest string) string {
		return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"" + rest + "}\n\n"
	}
	start := frame("message_start", `,"message":{"id":"m","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":7,"cache_read_input_tokens":64,"output_tokens":1}}`)
	block := func(i int, start string, deltas ...string) string {
		text := frame("content_block_start", fmt.Sprintf(`,"index":%d,"content_block":%s`, i, start))
		for _, d := range deltas {
			text += frame("content_block_delta", fmt.Sprintf(`,"index":%d,"delta":%s`, i, d))
		}
		return text + frame("content_block_stop", fmt.Sprintf(`,"index":%d`, i))
	}
	end := func(reason string, output int) string {
		return frame("message_delta", fmt.Sprintf(`,"delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":%d}`, reason, output)) + frame("message_stop", "")
	}
	return map[string][]string{
		"text": {start, frame("ping", ""), block(0, `{"type":"text","text":""}`, `{"type":"text_delta","text":"Hé"}`, `{"type":"text_delta","text":"llo \"<x>\""}`), end("end_turn", 9)},
		"thinking and calls": {start,
			block(0, `{"type":"thinking","thinking":"","signature":""}`, `{"type":"thinking_delta","thinking":"hm "}`, `{"type":"thinking_delta","thinking":"ok"}`, `{"type":"signature_delta","signature":"EqQB+/="}`),
			block(1, `{"type":"text","text":""}`, `{"type":"text_delta","text":"I look."}`),
			block(2, `{"type":"tool_use","id":"t1","name":"list","input":{}}`, `{"type":"input_json_delta","partial_json":""}`, `{"type":"input_json_delta","partial_json":"{\"dir\""}`, `{"type":"input_json_delta","partial_json":":\"a\"}"}`),
			block(3, `{"type":"tool_use","id":"t2","name":"read","input":{}}`, `{"type":"input_json_delta","partial_json":"{\"n\":[1,{\"b\":null}]}"}`),
			end("tool_use", 40)},
		"the limit": {start, block(0, `{"type":"text","text":""}`, `{"type":"text_delta","text":"cu"}`), end("max_tokens", 3)},
		"a refusal": {start, end("refusal", 1)},
	}
}

// TestSchemas compares the reduction of schemas with the SDK's, for schemas without what the SDK loses: lists of types,
// large numbers and keywords of no standard.
func TestSchemas(t *testing.T) {
	t.Parallel()
	s := serve(t, 400, "application/json", claude{}.refusal(400))
	rapid.Check(t, func(rt *rapid.T) {
		drawn := drawSchema(rt, 3)
		drawn["type"] = rapid.SampledFrom([]string{"object", "array", "string", "integer"}).Draw(rt, "top")
		text, err := json.Marshal(drawn)
		if err != nil {
			rt.Fatal(err)
		}
		want := sdk.BetaJSONSchemaOutputFormat(decoded(string(text)).(map[string]any)).Schema
		if want == nil {
			rt.Fatalf("the SDK does not read %s", text)
		}
		q := questions("m")["a single question"]
		q.Schema = text
		if _, err := ours(t.Context(), claude{}, s.url, q); err == nil {
			rt.Fatal("a refusal was an answer")
		}
		var body struct {
			OutputConfig struct {
				Format struct {
					Type   string
					Schema any
				}
			} `json:"output_config"`
		}
		if err := json.Unmarshal(s.body, &body); err != nil {
			rt.Fatal(err)
		}
		if f := body.OutputConfig.Format; f.Type != "json_schema" || !reflect.DeepEqual(f.Schema, any(want)) {
			got, _ := json.Marshal(f.Schema)
			their, _ := json.Marshal(want)
			rt.Fatalf("%s:\ngot %s\nthe SDK makes %s", text, got, their)
		}
	})
}

// drawSchema draws a schema of some depth.
func drawSchema(rt *rapid.T, depth int) map[string]any {
	s := map[string]any{}
	may := func(name string, value any) {
		if rapid.Bool().Draw(rt, name) {
			s[name] = value
		}
	}
	inner := func() any {
		if depth <= 0 || rapid.IntRange(0, 5).Draw(rt, "bool") == 0 {
			return rapid.Bool().Draw(rt, "boolean")
		}
		return drawSchema(rt, depth-1)
	}
	if rapid.IntRange(0, 9).Draw(rt, "ref") == 0 {
		s["$ref"] = "#/$defs/x"
	}
	may("type", rapid.SampledFrom([]string{"object", "array", "string", "integer", "null", "boolean"}).Draw(rt, "kind"))
	may("title", "a <title>")
	may("description", strings.Repeat("d", rapid.IntRange(1, 2).Draw(rt, "long")))
	may("minLength", rapid.IntRange(0, 3).Draw(rt, "n"))
	may("minimum", rapid.IntRange(0, 3).Draw(rt, "n"))
	may("pattern", "^a+$")
	may("format", rapid.SampledFrom([]string{"date", "uuid", "regex", "uri-reference"}).Draw(rt, "f"))
	may("minItems", rapid.IntRange(0, 3).Draw(rt, "n"))
	may("uniqueItems", true)
	may("enum", []any{"a", 1})
	may("const", "c")
	may("default", "x")
	may("examples", []any{"e", map[string]any{"a": 1}})
	may("required", []any{"a"})
	if depth > 0 {
		may("items", inner())
		may("properties", map[string]any{"a": inner(), "b": inner()})
		may("additionalProperties", inner())
		may("$defs", map[string]any{"x": inner()})
		for _, list := range []string{"anyOf", "oneOf", "allOf"} {
			if rapid.IntRange(0, 4).Draw(rt, list) == 0 {
				s[list] = []any{inner(), inner()}
			}
		}
	}
	return s
}
