package sdk

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	api "github.com/openai/openai-go/v3/responses"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/openai"
)

func openaiClient(url string) sdk.Client {
	return sdk.NewClient(option.WithAPIKey(key), option.WithBaseURL(url+"/v1"), option.WithMaxRetries(0))
}

func openaiStatus(err error) int {
	if e, ok := errors.AsType[*sdk.Error](err); ok {
		return e.StatusCode
	}
	return 0
}

const openaiRefusal = `{"error":{"message":"no","type":"odd_error","param":null,"code":null}}`

func picture(i llm.Image) string {
	return "data:" + i.MediaType + ";base64," + base64.StdEncoding.EncodeToString(i.Data)
}

func output(r llm.Result) string {
	if r.Failed {
		return "The tool failed:\n" + r.Output
	}
	return r.Output
}

// chat is the Chat Completions API.
type chat struct{}

func (chat) adapter(url string) (llm.Model, error) {
	return openai.New(openai.Config{APIKey: key, BaseURL: url + "/v1"})
}

func (chat) refusal(int) string   { return openaiRefusal }
func (chat) status(err error) int { return openaiStatus(err) }
func (chat) same(map[string]any)  {}

func (chat) params(q llm.Request) sdk.ChatCompletionNewParams {
	p := sdk.ChatCompletionNewParams{Model: q.Model, MaxTokens: sdk.Int(llm.DefaultMaxOutputTokens),
		StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: sdk.Bool(true)}}
	if q.MaxOutputTokens > 0 {
		p.MaxTokens = sdk.Int(int64(q.MaxOutputTokens))
	}
	if q.Temperature != nil {
		p.Temperature = sdk.Float(*q.Temperature)
	}
	if q.System != "" {
		p.Messages = append(p.Messages, sdk.SystemMessage(q.System))
	}
	for _, t := range q.Tools {
		f := sdk.FunctionDefinitionParam{Name: t.Name, Parameters: decoded(string(t.Input)).(map[string]any)}
		if t.Description != "" {
			f.Description = sdk.String(t.Description)
		}
		p.Tools = append(p.Tools, sdk.ChatCompletionFunctionTool(f))
	}
	if len(q.Schema) > 0 {
		p.ResponseFormat.OfJSONSchema = &sdk.ResponseFormatJSONSchemaParam{JSONSchema: sdk.ResponseFormatJSONSchemaJSONSchemaParam{Name: "answer", Schema: decoded(string(q.Schema))}}
	}
	for _, m := range q.Messages {
		switch {
		case m.Role == llm.ToolResults:
			for _, r := range m.Results {
				p.Messages = append(p.Messages, sdk.ToolMessage(output(r), r.CallID))
			}
		case m.Role == llm.Assistant:
			next := sdk.AssistantMessage(m.Text)
			for _, c := range m.Calls {
				next.OfAssistant.ToolCalls = append(next.OfAssistant.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{
					OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{ID: c.ID,
						Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.Name, Arguments: string(c.Input)}}})
			}
			p.Messages = append(p.Messages, next)
		case len(m.Images) > 0:
			var parts []sdk.ChatCompletionContentPartUnionParam
			for _, i := range m.Images {
				parts = append(parts, sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: picture(i)}))
			}
			p.Messages = append(p.Messages, sdk.UserMessage(append(parts, sdk.TextContentPart(m.Text))))
		default:
			p.Messages = append(p.Messages, sdk.UserMessage(m.Text))
		}
	}
	return p
}

func (o chat) ask(ctx context.Context, url string, q llm.Request) (answer, error) {
	client := openaiClient(url)
	stream := client.Chat.Completions.NewStreaming(ctx, o.params(q))
	defer stream.Close()
	var acc sdk.ChatCompletionAccumulator
	var a answer
	for stream.Next() {
		c := stream.Current()
		if !acc.AddChunk(c) {
			return answer{}, errors.New("the SDK refuses a chunk")
		}
		for _, choice := range c.Choices {
			if more, ok := choice.Delta.JSON.ExtraFields["reasoning_content"]; ok {
				var text string
				if err := json.Unmarshal([]byte(more.Raw()), &text); err != nil {
					return answer{}, err
				}
				a.Thinking += text
			}
		}
	}
	if err := stream.Err(); err != nil {
		return answer{}, err
	}
	if len(acc.Choices) == 0 || acc.Choices[0].FinishReason == "" {
		return answer{}, errors.New("no finish reason")
	}
	m := acc.Choices[0]
	a.Text, a.Model = m.Message.Content+m.Message.Refusal, acc.Model
	a.Usage = llm.Usage{Input: int(acc.Usage.PromptTokens), Output: int(acc.Usage.CompletionTokens), CachedInput: int(acc.Usage.PromptTokensDetails.CachedTokens)}
	for _, c := range m.Message.ToolCalls {
		a.Calls = append(a.Calls, call{c.ID, c.Function.Name, decoded(c.Function.Arguments)})
	}
	a.Finish = map[string]llm.Finish{"stop": llm.Done, "tool_calls": llm.ToolUse, "length": llm.Length, "content_filter": llm.Refusal}[m.FinishReason]
	if m.Message.Refusal != "" {
		a.Finish = llm.Refusal
	}
	return a, nil
}

func (chat) streams() map[string][]string {
	chunk := func(choices, more string) string {
		return `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"gpt-x","choices":[` + choices + "]" + more + "}\n\n"
	}
	delta := func(d string) string {
		return chunk(`{"index":0,"delta":`+d+`,"logprobs":null,"finish_reason":null}`, `,"usage":null`)
	}
	end := func(reason string) string {
		return chunk(`{"index":0,"delta":{},"finish_reason":"`+reason+`"}`, "") +
			chunk("", `,"usage":{"prompt_tokens":30,"completion_tokens":9,"total_tokens":39,"prompt_tokens_details":{"cached_tokens":16}}`) + "data: [DONE]\n\n"
	}
	first := delta(`{"role":"assistant","content":"","refusal":null}`)
	return map[string][]string{
		"text":      {first, delta(`{"content":"Hé"}`), delta(`{"content":"llo \"<x>\""}`), end("stop")},
		"reasoning": {first, delta(`{"reasoning_content":"hm "}`), delta(`{"reasoning_content":"ok"}`), delta(`{"content":"A"}`), end("stop")},
		"calls": {first, delta(`{"tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"list","arguments":""}}]}`),
			delta(`{"tool_calls":[{"index":1,"id":"t2","type":"function","function":{"name":"read","arguments":""}}]}`),
			delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"dir\""}}]}`), delta(`{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}`),
			delta(`{"tool_calls":[{"index":0,"function":{"arguments":":\"a\"}"}}]}`), end("tool_calls")},
		"the limit": {first, delta(`{"content":"cu"}`), end("length")},
		"a refusal": {first, delta(`{"refusal":"I "}`), delta(`{"refusal":"won't"}`), end("stop")},
		"a filter":  {first, delta(`{"content":"par"}`), end("content_filter")},
	}
}

// responses is the Responses API.
type responses struct{}

func (responses) adapter(url string) (llm.Model, error) {
	return openai.New(openai.Config{APIKey: key, BaseURL: url + "/v1", API: openai.Responses})
}

func (responses) refusal(int) string   { return openaiRefusal }
func (responses) status(err error) int { return openaiStatus(err) }

// same takes out what the SDK's type of an assistant message has and the API does without.
func (responses) same(body map[string]any) {
	input, _ := body["input"].([]any)
	for _, item := range input {
		o := item.(map[string]any)
		if o["role"] != "assistant" {
			continue
		}
		delete(o, "id")
		delete(o, "status")
		for _, part := range o["content"].([]any) {
			delete(part.(map[string]any), "annotations")
			delete(part.(map[string]any), "logprobs")
		}
	}
}

func (responses) params(q llm.Request) api.ResponseNewParams {
	p := api.ResponseNewParams{Model: q.Model, MaxOutputTokens: sdk.Int(llm.DefaultMaxOutputTokens), Store: sdk.Bool(false),
		Include: []api.ResponseIncludable{api.ResponseIncludableReasoningEncryptedContent}}
	if q.MaxOutputTokens > 0 {
		p.MaxOutputTokens = sdk.Int(int64(q.MaxOutputTokens))
	}
	if q.Temperature != nil {
		p.Temperature = sdk.Float(*q.Temperature)
	}
	if q.System != "" {
		p.Instructions = sdk.String(q.System)
	}
	for _, t := range q.Tools {
		f := api.FunctionToolParam{Name: t.Name, Parameters: decoded(string(t.Input)).(map[string]any), Strict: sdk.Bool(false)}
		if t.Description != "" {
			f.Description = sdk.String(t.Description)
		}
		p.Tools = append(p.Tools, api.ToolUnionParam{OfFunction: &f})
	}
	if len(q.Schema) > 0 {
		p.Text.Format.OfJSONSchema = &api.ResponseFormatTextJSONSchemaConfigParam{Name: "answer", Schema: decoded(string(q.Schema)).(map[string]any), Strict: sdk.Bool(false)}
	}
	var items []api.ResponseInputItemUnionParam
	for _, m := range q.Messages {
		switch m.Role {
		case llm.ToolResults:
			for _, r := range m.Results {
				items = append(items, api.ResponseInputItemUnionParam{OfFunctionCallOutput: &api.ResponseInputItemFunctionCallOutputParam{CallID: sdk.String(r.CallID),
					Output: api.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: sdk.String(output(r))}}})
			}
		case llm.Assistant:
			items = append(items, api.ResponseInputItemParamOfOutputMessage([]api.ResponseOutputMessageContentUnionParam{
				{OfOutputText: &api.ResponseOutputTextParam{Text: m.Text}}}, "msg_1", "completed"))
			for _, c := range m.Calls {
				items = append(items, api.ResponseInputItemParamOfFunctionCall(string(c.Input), c.ID, c.Name))
			}
		default:
			var parts api.ResponseInputMessageContentListParam
			for _, i := range m.Images {
				parts = append(parts, api.ResponseInputContentUnionParam{OfInputImage: &api.ResponseInputImageParam{ImageURL: sdk.String(picture(i))}})
			}
			parts = append(parts, api.ResponseInputContentParamOfInputText(m.Text))
			next := api.ResponseInputItemParamOfInputMessage(parts, "user")
			next.OfInputMessage.Type = "message"
			items = append(items, next)
		}
	}
	p.Input.OfInputItemList = items
	return p
}

func (o responses) ask(ctx context.Context, url string, q llm.Request) (answer, error) {
	client := openaiClient(url)
	stream := client.Responses.NewStreaming(ctx, o.params(q))
	defer stream.Close()
	for stream.Next() {
		e := stream.Current()
		switch e.Type {
		case "response.completed", "response.incomplete":
			return o.read(e.Response), nil
		case "response.failed", "error":
			return answer{}, fmt.Errorf("the SDK reads %s", e.Type)
		}
	}
	if err := stream.Err(); err != nil {
		return answer{}, err
	}
	return answer{}, errors.New("no last response")
}

func (responses) read(r api.Response) answer {
	a := answer{Model: r.Model, Finish: llm.Done, Usage: llm.Usage{Input: int(r.Usage.InputTokens), Output: int(r.Usage.OutputTokens),
		CachedInput: int(r.Usage.InputTokensDetails.CachedTokens)}}
	refused := false
	for _, item := range r.Output {
		switch item.Type {
		case "message":
			for _, part := range item.Content {
				a.Text += part.Text + part.Refusal
				refused = refused || part.Refusal != ""
			}
		case "reasoning":
			for _, part := range item.Summary {
				a.Thinking += part.Text
			}
		case "function_call":
			a.Calls = append(a.Calls, call{item.CallID, item.Name, decoded(item.AsFunctionCall().Arguments)})
		}
	}
	switch {
	case refused:
		a.Finish = llm.Refusal
	case r.Status == "incomplete":
		a.Finish = llm.Length
	case len(a.Calls) > 0:
		a.Finish = llm.ToolUse
	}
	return a
}

func (responses) streams() map[string][]string {
	n := 0
	event := func(kind, rest string) string {
		n++
		return fmt.Sprintf("event: %s\ndata: {\"type\":%q,\"sequence_number\":%d%s}\n\n", kind, kind, n, rest)
	}
	done := func(i int, item string) string {
		return event("response.output_item.done", fmt.Sprintf(`,"output_index":%d,"item":%s`, i, item))
	}
	last := func(status, more, items string) string {
		return event("response."+status, `,"response":{"id":"r","object":"response","model":"gpt-x","status":"`+status+`","error":null,"output":[`+items+`]`+more+
			`,"usage":{"input_tokens":30,"input_tokens_details":{"cached_tokens":16},"output_tokens":9,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":39}}`)
	}
	said := `{"id":"m1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"text":"Héllo \"<x>\""}]}`
	thought := `{"id":"rs1","type":"reasoning","summary":[{"type":"summary_text","text":"hm ok"}],"encrypted_content":"gA=="}`
	called := `{"id":"f1","type":"function_call","status":"completed","call_id":"t1","name":"list","arguments":"{\"dir\":\"a\"}"}`
	refused := `{"id":"m1","type":"message","status":"completed","role":"assistant","content":[{"type":"refusal","refusal":"I won't"}]}`
	created := event("response.created", `,"response":{"id":"r","object":"response","model":"gpt-x","status":"in_progress","output":[]}`)
	return map[string][]string{
		"text": {created, event("response.output_text.delta", `,"output_index":0,"content_index":0,"item_id":"m1","delta":"Hé"`),
			event("response.output_text.delta", `,"output_index":0,"content_index":0,"item_id":"m1","delta":"llo \"<x>\""`), done(0, said), last("completed", "", said)},
		"reasoning and calls": {created, event("response.reasoning_summary_text.delta", `,"output_index":0,"summary_index":0,"item_id":"rs1","delta":"hm ok"`),
			done(0, thought), done(1, said), event("response.function_call_arguments.delta", `,"output_index":2,"item_id":"f1","delta":"{}"`), done(2, called),
			last("completed", "", thought+","+said+","+called)},
		"the limit": {created, done(0, said), last("incomplete", `,"incomplete_details":{"reason":"max_output_tokens"}`, said)},
		"a refusal": {created, event("response.refusal.delta", `,"output_index":0,"content_index":0,"item_id":"m1","delta":"I won't"`), done(0, refused), last("completed", "", refused)},
	}
}
