package gemini_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/inspan/inspan/internal/llm/llmtest"
	"github.com/inspan/inspan/services/executor/executortest"
)

func TestHistories(t *testing.T) {
	t.Parallel()
	llmtest.Histories(t, dialect{}, accepted)
	llmtest.Logs(t, dialect{}, accepted, executortest.Draw, executortest.Foreign)
}

var ruledName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.-]{0,63}$`)

// ruledContent is a content of the API's reference, with the fields that we send. A signature is base64.
type ruledContent struct {
	Role  string
	Parts []*ruledPart
}

type ruledPart struct {
	Text             string
	Thought          bool
	ThoughtSignature []byte
	InlineData       *ruledBlob
	FunctionCall     *struct {
		ID, Name string
		Args     map[string]any
	}
	FunctionResponse *struct {
		ID, Name string
		Response map[string]any
		Parts    []struct{ InlineData *ruledBlob }
	}
}

type ruledBlob struct {
	MIMEType string
	Data     []byte
}

// accepted holds a request against the rules of generateContent: the fields of its reference, the turns that the guide
// of function calling asks for, and the signatures of the guide of thought signatures.
func accepted(body []byte) error {
	var fields struct{ Contents json.RawMessage }
	if err := json.Unmarshal(body, &fields); err != nil {
		return err
	}
	var contents []*ruledContent
	// The mark is the one signature that is not base64.
	signed := bytes.ReplaceAll(fields.Contents, []byte(`"skip_thought_signature_validator"`), []byte(`"c2tpcA=="`))
	strict := json.NewDecoder(bytes.NewReader(signed))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&contents); err != nil {
		return err
	}
	if len(contents) == 0 || contents[0].Role != "user" || contents[len(contents)-1].Role != "user" {
		return fmt.Errorf("the conversation must begin and end with the user")
	}
	var open []string // calls of the content before
	for i, c := range contents {
		if c.Role != "user" && (c.Role != "model" || contents[i-1].Role == "model") {
			return fmt.Errorf("content %d: role %q", i, c.Role)
		}
		if len(c.Parts) == 0 {
			return fmt.Errorf("content %d is empty", i)
		}
		var calls, results []string
		for j, p := range c.Parts {
			if err := acceptedPart(p, c.Role); err != nil {
				return fmt.Errorf("content %d, part %d: %w", i, j, err)
			}
			if f := p.FunctionCall; f != nil {
				if len(calls) == 0 && len(p.ThoughtSignature) == 0 {
					return fmt.Errorf("content %d: the first call has no thought signature", i)
				}
				calls = append(calls, f.ID+" "+f.Name)
			}
			if f := p.FunctionResponse; f != nil {
				results = append(results, f.ID+" "+f.Name)
			}
		}
		if len(results) > 0 && len(results) != len(c.Parts) {
			return fmt.Errorf("content %d: responses beside other parts", i)
		}
		if !slices.Equal(results, open) {
			return fmt.Errorf("content %d: responses %q, the calls before are %q", i, results, open)
		}
		open = calls
	}
	return nil
}

func acceptedPart(p *ruledPart, role string) error {
	data := 0
	for _, has := range []bool{p.Text != "", p.FunctionCall != nil, p.FunctionResponse != nil, p.InlineData != nil} {
		if has {
			data++
		}
	}
	if data != 1 && (data != 0 || len(p.ThoughtSignature) == 0) {
		return fmt.Errorf("a part holds one thing, this one %d", data)
	}
	switch {
	case p.FunctionCall != nil && (role != "model" || p.FunctionCall.ID == "" || !ruledName.MatchString(p.FunctionCall.Name)):
		return fmt.Errorf("call %+v of the %s", p.FunctionCall, role)
	case p.FunctionResponse != nil && (role != "user" || len(p.FunctionResponse.Response) == 0):
		return fmt.Errorf("response %+v of the %s", p.FunctionResponse, role)
	case p.FunctionResponse != nil && slices.ContainsFunc(p.FunctionResponse.Parts, func(r struct{ InlineData *ruledBlob }) bool {
		return r.InlineData == nil || r.InlineData.MIMEType == "" || len(r.InlineData.Data) == 0
	}):
		return fmt.Errorf("response %+v without the data of a part", p.FunctionResponse)
	case p.InlineData != nil && (p.InlineData.MIMEType == "" || len(p.InlineData.Data) == 0):
		return fmt.Errorf("inline data %+v", p.InlineData)
	case p.Thought && role != "model":
		return fmt.Errorf("a thought of the %s", role)
	}
	return nil
}
