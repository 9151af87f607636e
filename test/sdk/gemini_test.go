package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/genai"

	"github.com/inspan/inspan/internal/llm"
	adapter "github.com/inspan/inspan/internal/llm/gemini"
)

type gemini struct{}

func (gemini) adapter(url string) (llm.Model, error) {
	return adapter.New(adapter.Config{APIKey: key, BaseURL: url})
}

func (gemini) refusal(status int) string {
	return fmt.Sprintf(`{"error":{"code":%d,"message":"no","status":"ODD","details":[]}}`, status)
}

func (gemini) status(err error) int {
	if e, ok := errors.AsType[genai.APIError](err); ok {
		return e.Code
	}
	return 0
}

// unsigned is the mark of calls that no Gemini model made, as the SDK writes the bytes of a signature.
const unsigned = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="

// same writes the mark as the SDK writes bytes; the API takes it as plain text.
func (gemini) same(body map[string]any) {
	contents, _ := body["contents"].([]any)
	for _, c := range contents {
		for _, p := range c.(map[string]any)["parts"].([]any) {
			if part := p.(map[string]any); part["thoughtSignature"] == "skip_thought_signature_validator" {
				part["thoughtSignature"] = unsigned
			}
		}
	}
	if system, ok := body["systemInstruction"].(map[string]any); ok && system["role"] == "user" {
		delete(system, "role") // the API takes it with and without
	}
}

func (gemini) params(q llm.Request) ([]*genai.Content, *genai.GenerateContentConfig) {
	once := false
	config := &genai.GenerateContentConfig{MaxOutputTokens: llm.DefaultMaxOutputTokens, AutomaticContinuation: &once}
	if q.MaxOutputTokens > 0 {
		config.MaxOutputTokens = int32(q.MaxOutputTokens)
	}
	if q.Temperature != nil {
		config.Temperature = genai.Ptr(float32(*q.Temperature))
	}
	if q.System != "" {
		config.SystemInstruction = genai.NewContentFromText(q.System, genai.RoleUser)
	}
	if len(q.Schema) > 0 {
		config.ResponseMIMEType, config.ResponseJsonSchema = "application/json", decoded(string(q.Schema))
	}
	var functions []*genai.FunctionDeclaration
	for _, t := range q.Tools {
		functions = append(functions, &genai.FunctionDeclaration{Name: t.Name, Description: t.Description, ParametersJsonSchema: decoded(string(t.Input))})
	}
	if functions != nil {
		config.Tools = []*genai.Tool{{FunctionDeclarations: functions}}
	}
	var contents []*genai.Content
	for _, m := range q.Messages {
		next := &genai.Content{Role: genai.RoleUser}
		if m.Role == llm.Assistant {
			next.Role = genai.RoleModel
		}
		for _, i := range m.Images {
			next.Parts = append(next.Parts, genai.NewPartFromBytes(i.Data, i.MediaType))
		}
		if m.Text != "" {
			next.Parts = append(next.Parts, genai.NewPartFromText(m.Text))
		}
		for i, c := range m.Calls {
			p := &genai.Part{FunctionCall: &genai.FunctionCall{ID: c.ID, Name: c.Name, Args: decoded(string(c.Input)).(map[string]any)}}
			if i == 0 {
				p.ThoughtSignature = []byte("skip_thought_signature_validator")
			}
			next.Parts = append(next.Parts, p)
		}
		for _, r := range m.Results {
			field := "output"
			if r.Failed {
				field = "error"
			}
			next.Parts = append(next.Parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: r.CallID, Name: r.Name, Response: map[string]any{field: r.Output}}})
		}
		contents = append(contents, next)
	}
	return contents, config
}

func (o gemini) ask(ctx context.Context, url string, q llm.Request) (answer, error) {
	client, err := genai.NewClient(ctx, &genai.ClientConfig{APIKey: key, Backend: genai.BackendGeminiAPI, HTTPOptions: genai.HTTPOptions{BaseURL: url}})
	if err != nil {
		return answer{}, err
	}
	contents, config := o.params(q)
	var a answer
	finish := genai.FinishReason("")
	for r, err := range client.Models.GenerateContentStream(ctx, q.Model, contents, config) {
		if err != nil {
			return answer{}, err
		}
		if u := r.UsageMetadata; u != nil {
			a.Usage = llm.Usage{Input: int(u.PromptTokenCount + u.ToolUsePromptTokenCount), Output: int(u.CandidatesTokenCount + u.ThoughtsTokenCount), CachedInput: int(u.CachedContentTokenCount)}
		}
		if r.ModelVersion != "" {
			a.Model = r.ModelVersion
		}
		for _, c := range r.Candidates {
			if c.FinishReason != "" {
				finish = c.FinishReason
			}
			if c.Content == nil {
				continue
			}
			for _, p := range c.Content.Parts {
				if p.Thought {
					a.Thinking += p.Text
				} else {
					a.Text += p.Text
				}
				if f := p.FunctionCall; f != nil {
					a.Calls = append(a.Calls, call{f.ID, f.Name, any(f.Args)})
				}
			}
		}
	}
	if finish == "" {
		return answer{}, errors.New("no finish reason")
	}
	a.Finish = map[genai.FinishReason]llm.Finish{genai.FinishReasonStop: llm.Done, genai.FinishReasonMaxTokens: llm.Length, genai.FinishReasonSafety: llm.Refusal}[finish]
	if a.Finish == llm.Done && len(a.Calls) > 0 {
		a.Finish = llm.ToolUse
	}
	return a, nil
}

func (gemini) streams() map[string][]string {
	chunk := func(fields string) string {
		return "data: {" + fields + `,"modelVersion":"gemini-x","responseId":"r1"}` + "\n\n"
	}
	parts := func(p string) string {
		return chunk(`"candidates":[{"content":{"parts":[` + p + `],"role":"model"},"index":0}]`)
	}
	end := func(reason string) string {
		return chunk(fmt.Sprintf(`"candidates":[{"finishReason":%q,"index":0}],"usageMetadata":{"promptTokenCount":30,"candidatesTokenCount":7,"thoughtsTokenCount":2,"cachedContentTokenCount":16,"totalTokenCount":39}`, reason))
	}
	return map[string][]string{
		"text": {parts(`{"text":"Hé"}`), parts(`{"text":"llo \"<x>\""}`), end("STOP")},
		"thoughts and calls": {parts(`{"text":"hm ","thought":true}`), parts(`{"text":"ok","thought":true}`), parts(`{"text":"I look."}`),
			parts(`{"functionCall":{"id":"t1","name":"list","args":{"dir":"a"}},"thoughtSignature":"c2ln"},{"functionCall":{"id":"t2","name":"read","args":{"n":[1,{"b":true}]}}}`), end("STOP")},
		"the limit": {parts(`{"text":"cu"}`), end("MAX_TOKENS")},
		"a refusal": {parts(`{"text":"x"}`), end("SAFETY")},
	}
}

// TestContents reads what the adapter sends with the types of the SDK, which know every field of the API.
func TestContents(t *testing.T) {
	t.Parallel()
	s := serve(t, 400, "application/json", gemini{}.refusal(400))
	for name, q := range questions("gemini-2.5-pro") {
		if _, err := ours(t.Context(), gemini{}, s.url, q); err == nil {
			t.Fatal("a refusal was an answer")
		}
		var sent struct {
			Contents          []*genai.Content
			SystemInstruction *genai.Content
			Tools             []*genai.Tool
			GenerationConfig  *genai.GenerationConfig
		}
		strict := json.NewDecoder(bytes.NewReader(bytes.ReplaceAll(s.body, []byte("skip_thought_signature_validator"), []byte(unsigned))))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&sent); err != nil {
			t.Errorf("%s: the SDK does not know %s: %v", name, s.body, err)
		}
	}
}
