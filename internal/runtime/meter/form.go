package meter

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// form is how a provider is asked.
type form struct {
	// prefix is the end of the base address that programs are given.
	prefix               string
	keyHeader, keyBefore string
	// spent is the type of the error that says that a budget is spent.
	spent string
	// asks finds the kind of a request, and list is the path that lists models.
	asks func(path string) kind
	list string
}

func (f form) free(path string) bool {
	return path == f.list || strings.HasPrefix(path, f.list+"/") && !strings.Contains(path, ":")
}

func (f form) kindOf(path string) kind { return f.asks(path) }

var forms = map[string]form{
	events.FormAnthropic: {keyHeader: "X-Api-Key", spent: "billing_error", list: "/v1/models",
		asks: func(path string) kind {
			switch path {
			case "/v1/messages":
				return messages{}
			case "/v1/messages/count_tokens":
				return tally{}
			}
			return nil
		}},
	events.FormOpenAI: {prefix: "/v1", keyHeader: "Authorization", keyBefore: "Bearer ", spent: "insufficient_quota",
		list: "/models",
		asks: func(path string) kind {
			switch path {
			case "/chat/completions":
				return chat{}
			case "/responses":
				return responses{}
			}
			return nil
		}},
	events.FormGemini: {keyHeader: "X-Goog-Api-Key", spent: "RESOURCE_EXHAUSTED", list: "/v1beta/models",
		asks: func(path string) kind {
			switch {
			case !strings.HasPrefix(path, "/v1beta/models/"):
				return nil
			case strings.HasSuffix(path, ":generateContent"), strings.HasSuffix(path, ":streamGenerateContent"):
				return generate{}
			case strings.HasSuffix(path, ":countTokens"):
				return tally{}
			}
			return nil
		}},
}

// object is a JSON object of which the other keys stay as they are.
type object map[string]json.RawMessage

func (o object) number(key string) (n int64, ok bool) {
	v, ok := o[key]
	return n, ok && json.Unmarshal(v, &n) == nil && n > 0
}

func (o object) set(key string, v any) {
	b, err := json.Marshal(v)
	if err == nil { // it is of numbers and texts
		o[key] = b
	}
}

func (o object) within(key string) (inner object) {
	if json.Unmarshal(o[key], &inner) != nil || inner == nil {
		inner = object{}
	}
	return inner
}

// kind is one sort of request.
type kind interface {
	// output is the most that a request asks for, 0 where it does not say; limit sets it.
	output(o object) int64
	limit(o object, most int64)
	// used takes the usage out of an answer, or out of one event of it; final is true where nothing is to follow.
	used(b []byte, u *tool.InnerUse) (final bool)
}

// document is a request as it is counted.
type document struct {
	kind    kind
	object  object
	model   string
	output  int64
	answers int64
}

func parse(k kind, path string, body []byte) (d document, err error) {
	d = document{kind: k, answers: 1}
	if err := json.Unmarshal(body, &d.object); err != nil || d.object == nil {
		return d, errors.New("the request is no JSON object")
	}
	if raw, ok := d.object["model"]; ok {
		if err := json.Unmarshal(raw, &d.model); err != nil {
			return d, errors.New("the model is no text")
		}
	}
	if _, ok := k.(generate); ok {
		d.model, _, _ = strings.Cut(strings.TrimPrefix(path, "/v1beta/models/"), ":")
	}
	if string(d.object["background"]) == "true" {
		return d, errors.New("a request in the background is not counted, and so it is not passed on")
	}
	for _, o := range []object{d.object, d.object.within("generationConfig")} {
		for _, key := range []string{"n", "candidateCount"} {
			if n, ok := o.number(key); ok {
				d.answers = min(n, 128)
				if n > 128 {
					return d, fmt.Errorf("%s is more than 128", key)
				}
			}
		}
	}
	if d.output = k.output(d.object); d.output <= 0 {
		d.output = budget.DefaultMaxOutput
	}
	return d, nil
}

// limited is the request with the most output that it may ask for.
func (d document) limited(most int64) ([]byte, error) {
	d.kind.limit(d.object, most)
	b, err := json.Marshal(d.object)
	if err != nil {
		return nil, errors.New("the request is not as it should be")
	}
	return b, nil
}

// messages are requests of Anthropic.
type messages struct{}

func (messages) output(o object) int64 { n, _ := o.number("max_tokens"); return n }

func (messages) limit(o object, most int64) {
	o.set("max_tokens", most)
	thinking := o.within("thinking")
	if n, ok := thinking.number("budget_tokens"); ok && n >= most { // which the provider would refuse
		delete(o, "thinking")
	}
}

func (messages) used(b []byte, u *tool.InnerUse) bool {
	type usage struct {
		Input   *int `json:"input_tokens"`
		Output  *int `json:"output_tokens"`
		Read    *int `json:"cache_read_input_tokens"`
		Written *int `json:"cache_creation_input_tokens"`
	}
	var d struct {
		Type    string `json:"type"`
		Usage   *usage `json:"usage"`
		Message struct {
			Usage *usage `json:"usage"`
		} `json:"message"`
	}
	if json.Unmarshal(b, &d) != nil {
		return false
	}
	n := d.Usage
	if d.Type == "message_start" {
		n = d.Message.Usage
	}
	if n == nil || d.Type != "message_start" && d.Type != "message_delta" && d.Type != "message" {
		return false
	}
	plain := u.Input - u.Cached - u.Written
	for of, v := range map[*int]*int{&plain: n.Input, &u.Output: n.Output, &u.Cached: n.Read, &u.Written: n.Written} {
		if v != nil {
			*of = max(0, *v)
		}
	}
	u.Input = plain + u.Cached + u.Written
	return d.Type != "message_start" && n.Output != nil
}

// chat are chat completions of OpenAI.
type chat struct{}

func (chat) output(o object) int64 {
	n, ok := o.number("max_completion_tokens")
	if !ok {
		n, _ = o.number("max_tokens")
	}
	return n
}

func (chat) limit(o object, most int64) {
	key := "max_completion_tokens"
	if _, old := o["max_tokens"]; old {
		key = "max_tokens"
		delete(o, "max_completion_tokens")
	}
	o.set(key, most)
	if string(o["stream"]) == "true" {
		options := o.within("stream_options")
		options.set("include_usage", true)
		o.set("stream_options", options)
	}
}

func (chat) used(b []byte, u *tool.InnerUse) bool {
	var d struct {
		Usage *struct {
			Input   int `json:"prompt_tokens"`
			Output  int `json:"completion_tokens"`
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
	}
	if json.Unmarshal(b, &d) != nil || d.Usage == nil {
		return false
	}
	*u = tool.InnerUse{Input: d.Usage.Input, Output: d.Usage.Output, Cached: d.Usage.Details.Cached}
	return true
}

// responses are requests of the newer form of OpenAI.
type responses struct{}

func (responses) output(o object) int64 { n, _ := o.number("max_output_tokens"); return n }

func (responses) limit(o object, most int64) { o.set("max_output_tokens", max(16, most)) } // it takes no less

func (responses) used(b []byte, u *tool.InnerUse) bool {
	type usage struct {
		Input   int `json:"input_tokens"`
		Output  int `json:"output_tokens"`
		Details struct {
			Cached int `json:"cached_tokens"`
		} `json:"input_tokens_details"`
	}
	var d struct {
		Usage    *usage `json:"usage"`
		Response struct {
			Usage *usage `json:"usage"`
		} `json:"response"`
	}
	if json.Unmarshal(b, &d) != nil {
		return false
	}
	n := d.Usage
	if n == nil {
		n = d.Response.Usage
	}
	if n == nil {
		return false
	}
	*u = tool.InnerUse{Input: n.Input, Output: n.Output, Cached: n.Details.Cached}
	return true
}

// generate are requests of Gemini.
type generate struct{}

func (generate) output(o object) int64 {
	n, _ := o.within("generationConfig").number("maxOutputTokens")
	return n
}

func (generate) limit(o object, most int64) {
	c := o.within("generationConfig")
	c.set("maxOutputTokens", most)
	o.set("generationConfig", c)
}

func (generate) used(b []byte, u *tool.InnerUse) bool {
	type answer struct {
		Usage *struct {
			Input    int `json:"promptTokenCount"`
			Tools    int `json:"toolUsePromptTokenCount"`
			Output   int `json:"candidatesTokenCount"`
			Thoughts int `json:"thoughtsTokenCount"`
			Cached   int `json:"cachedContentTokenCount"`
		} `json:"usageMetadata"`
	}
	var all []answer // of a stream that is no event stream
	if json.Unmarshal(b, &all) != nil {
		all = make([]answer, 1)
		if json.Unmarshal(b, &all[0]) != nil {
			return false
		}
	}
	found := false
	for _, d := range all {
		if n := d.Usage; n != nil { // the last counts all before it
			*u, found = tool.InnerUse{Input: n.Input + n.Tools, Output: n.Output + n.Thoughts, Cached: n.Cached}, true
		}
	}
	return found
}

// tally counts tokens and uses none: it is passed on as it is.
type tally struct{}

func (tally) output(object) int64 { return 0 }

func (tally) limit(object, int64) {}

func (tally) used([]byte, *tool.InnerUse) bool { return true }

// refusal is an answer of the station in the place of the provider.
type refusal struct {
	status     int
	name, text string
}

var unknownPath = refusal{http.StatusNotFound, "not_found_error",
	"the station does not pass this on: it is not known to be counted"}

// refuse answers in the form of the provider.
func (m *Meter) refuse(w http.ResponseWriter, r refusal) {
	var doc any
	switch m.cfg.Model.API {
	case events.FormAnthropic:
		doc = map[string]any{"type": "error", "error": map[string]string{"type": r.name, "message": r.text}}
	case events.FormGemini:
		doc = map[string]any{"error": map[string]any{"code": r.status, "status": r.name, "message": r.text}}
	default:
		doc = map[string]any{"error": map[string]any{"type": r.name, "code": r.name, "message": r.text, "param": nil}}
	}
	b, err := json.Marshal(doc)
	if err != nil {
		b = nil // it is of texts
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Should-Retry", "false")
	w.WriteHeader(r.status)
	_, _ = w.Write(b)
}
