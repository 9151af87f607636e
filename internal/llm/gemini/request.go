package gemini

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/wire"
	"github.com/inspan/inspan/internal/pattern"
)

// request is the body of POST /v1beta/models/MODEL:streamGenerateContent. Raw contents and tools' schemas go
// out as they are.
type request struct {
	System     *content   `json:"systemInstruction,omitempty"`
	Contents   []any      `json:"contents"`
	Tools      []toolSet  `json:"tools,omitempty"`
	Generation generation `json:"generationConfig"`
}

type content struct {
	Role  string `json:"role,omitempty"`
	Parts []any  `json:"parts"`
}

type part struct {
	Text       string      `json:"text,omitempty"`
	InlineData *inlineData `json:"inlineData,omitempty"`
	Call       *call       `json:"functionCall,omitempty"`
	Response   *response   `json:"functionResponse,omitempty"`
	Signature  string      `json:"thoughtSignature,omitempty"`
}

type inlineData struct {
	MIMEType string `json:"mimeType"`
	Data     []byte `json:"data"`
}

type call struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type response struct {
	ID       string            `json:"id"`
	Name     string            `json:"name"`
	Response map[string]string `json:"response"`
	// Parts are the images of the response.
	Parts []part `json:"parts,omitempty"`
}

type toolSet struct {
	Functions []function `json:"functionDeclarations"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parametersJsonSchema,omitempty"`
}

type generation struct {
	MaxOutputTokens  int             `json:"maxOutputTokens"`
	Temperature      *float64        `json:"temperature,omitempty"`
	ResponseMIMEType string          `json:"responseMimeType,omitempty"`
	ResponseSchema   json.RawMessage `json:"responseJsonSchema,omitempty"`
	Thinking         *thinking       `json:"thinkingConfig,omitempty"`
}

type thinking struct {
	IncludeThoughts bool `json:"includeThoughts"`
}

// unsigned is the mark for a call that no Gemini model made (ai.google.dev, "Thought signatures").
const unsigned = "skip_thought_signature_validator"

// thinks are the models that tell their thoughts when asked; older ones and those that make pictures or sound refuse
// the question.
var (
	thinks = pattern.New(`^(models/)?gemini-(2\.5|[3-9])`)
	// looks are the models that take images inside of the response of a function.
	looks   = pattern.New(`^(models/)?gemini-[3-9]`)
	speaks  = pattern.New(`-(image|tts|audio|live)\b`)
	rawKind = errors.New("raw content is not an object with parts")
)

func requestBody(req llm.Request) ([]byte, error) {
	r := request{Generation: generation{MaxOutputTokens: req.MaxOutputTokens, Temperature: req.Temperature}}
	if r.Generation.MaxOutputTokens <= 0 {
		r.Generation.MaxOutputTokens = llm.DefaultMaxOutputTokens
	}
	if thinks.MatchString(req.Model) && !speaks.MatchString(req.Model) {
		r.Generation.Thinking = &thinking{IncludeThoughts: true}
	}
	if len(req.Schema) > 0 {
		r.Generation.ResponseMIMEType, r.Generation.ResponseSchema = "application/json", req.Schema
	}
	if req.System != "" {
		r.System = &content{Parts: []any{part{Text: req.System}}}
	}
	if len(req.Tools) > 0 {
		set := toolSet{}
		for _, t := range req.Tools {
			set.Functions = append(set.Functions, function{Name: t.Name, Description: t.Description, Parameters: t.Input})
		}
		r.Tools = []toolSet{set}
	}
	history, err := wire.Settle(req.Messages, Provider, own)
	if err != nil {
		return nil, err
	}
	history = known(history)
	if !looks.MatchString(req.Model) {
		history = wire.Lift(history)
	}
	for _, m := range history {
		r.Contents = append(r.Contents, contentOf(m))
	}
	return wire.Marshal(r)
}

func contentOf(m llm.Message) any {
	out := content{Role: "user"}
	switch m.Role {
	case llm.User:
		for _, p := range pictures(m.Images) {
			out.Parts = append(out.Parts, p)
		}
		if m.Text != "" {
			out.Parts = append(out.Parts, part{Text: m.Text})
		}
	case llm.ToolResults:
		for _, r := range m.Results {
			key := "output"
			if r.Failed {
				key = "error"
			}
			out.Parts = append(out.Parts, part{Response: &response{ID: r.CallID, Name: r.Name,
				Response: map[string]string{key: r.Output}, Parts: pictures(r.Images)}})
		}
	case llm.Assistant:
		if m.Raw != nil {
			return m.Raw
		}
		out.Role = "model"
		if m.Text != "" {
			out.Parts = append(out.Parts, part{Text: m.Text})
		}
		for i, c := range m.Calls {
			p := part{Call: &call{ID: c.ID, Name: c.Name, Args: c.Input}}
			if i == 0 { // of several calls side by side the first carries the signature
				p.Signature = unsigned
			}
			out.Parts = append(out.Parts, p)
		}
	}
	return out
}

func pictures(from []llm.Image) []part {
	var out []part
	for _, i := range from {
		out = append(out, part{InlineData: &inlineData{MIMEType: i.MediaType, Data: i.Data}})
	}
	return out
}

// known replaces the images of results that the API refuses, which are gifs, by a word about them.
func known(history []llm.Message) []llm.Message {
	for i, m := range history {
		for j, r := range m.Results {
			var kept []llm.Image
			for _, p := range r.Images {
				if p.MediaType == "image/gif" {
					history[i].Results[j].Output += "\n(This model takes no gif: the image is not shown.)"
					continue
				}
				kept = append(kept, p)
			}
			history[i].Results[j].Images = kept
		}
	}
	return history
}

// own reads a content that the API sent. Parts without anything in them are refused by the API and left out.
func own(raw json.RawMessage) (json.RawMessage, []llm.Call, error) {
	var c struct {
		Parts []json.RawMessage `json:"parts"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", rawKind, err)
	}
	var calls []llm.Call
	var kept []any
	spoken := false
	for _, p := range c.Parts {
		o, err := wire.Decode(p)
		if err != nil || o == nil {
			return nil, nil, rawKind
		}
		if isPlain(o) && strings.TrimSpace(o.String("text")) == "" {
			continue
		}
		kept = append(kept, p)
		spoken = spoken || !isThought(o)
		if f, ok := o["functionCall"].(map[string]any); ok {
			f := wire.Object(f)
			calls = append(calls, llm.Call{ID: f.String("id"), Name: f.String("name")})
		}
	}
	switch {
	case !spoken: // nothing, or thoughts alone
		return nil, nil, nil
	case len(kept) == len(c.Parts):
		return raw, calls, nil
	}
	out, err := wire.Marshal(content{Role: "model", Parts: kept})
	return out, calls, err
}
