package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// MaxFile is the most bytes of a file with a conversation: what one message to a station can carry.
const MaxFile = 192 << 10

// mostEncoded is the most bytes of its messages as they are sent.
const mostEncoded = 240 << 10

// written is a message as files have it: ours, those of chat programs with a tool's result in a message of its own, and
// those whose content is a list of parts.
type written struct {
	Role       string                 `json:"role"`
	Content    json.RawMessage        `json:"content"`
	ContentRef *events.Ref            `json:"content_ref"`
	Calls      []writtenCall          `json:"tool_calls"`
	Results    []events.MessageResult `json:"tool_results"`
	CallID     string                 `json:"tool_call_id"`
	Name       string                 `json:"name"`
	At         json.RawMessage        `json:"timestamp"`
}

type writtenCall struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
	// Function is the form in which the input is a text.
	Function *struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type writtenPart struct {
	Text    string `json:"text"`
	Request *struct {
		Ref   string          `json:"ref"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	} `json:"toolRequest"`
	Response *struct {
		Ref    string          `json:"ref"`
		Name   string          `json:"name"`
		Output json.RawMessage `json:"output"`
	} `json:"toolResponse"`
}

// Read reads a file with a conversation: an array of messages, or an object with one named messages. A message has
// role, content, tool_calls, tool_results or tool_call_id with name, and timestamp; content may be a list of parts of
// text, toolRequest and toolResponse. Instructions (role system) are left out, messages of one side that follow each
// other become one, a call without a result gets one that says so, and so does an input without an answer. What it
// returns satisfies CheckGiven.
func Read(data []byte) ([]events.Message, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("the file has %d bytes, the limit is %d: leave the oldest messages out", len(data), MaxFile)
	}
	var list []written
	var err error
	if text := bytes.TrimSpace(data); bytes.HasPrefix(text, []byte("{")) {
		var o struct {
			Messages []written `json:"messages"`
		}
		err = json.Unmarshal(text, &o)
		list = o.Messages
	} else {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("the file is not a conversation in JSON: %w", err)
	}
	r := reader{}
	for i, w := range list {
		if err := r.take(w); err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
	}
	r.close()
	if len(r.all) == 0 {
		return nil, errors.New("the file holds no messages")
	}
	if r.all[len(r.all)-1].Role != events.RoleAssistant {
		r.all = append(r.all, events.Message{Role: events.RoleAssistant,
			Content: "(This input ended without an answer: the file ends here.)", Metadata: events.MessageMeta{Note: true}})
	}
	if err := CheckGiven(r.all); err != nil {
		return nil, err
	}
	b, err := json.Marshal(r.all)
	if err == nil && len(b) > mostEncoded {
		err = fmt.Errorf("the messages take %d bytes, the limit is %d: leave the oldest out", len(b), mostEncoded)
	}
	return r.all, err
}

// reader puts messages together; open are calls that wait for their results, got those that came.
type reader struct {
	all  []events.Message
	open []events.MessageCall
	got  map[string]events.MessageResult
}

func (r *reader) take(w written) error {
	if w.ContentRef != nil {
		return errors.New("its text is not in the file: it was too large for it")
	}
	m := events.Message{At: stamp(w.At)}
	results := w.Results
	text, err := content(w, &m, &results)
	if err != nil {
		return err
	}
	for _, c := range w.Calls {
		call := events.MessageCall{ID: c.ID, Name: c.Name, Input: c.Input}
		if c.Function != nil {
			call.Name, call.Input = c.Function.Name, json.RawMessage(c.Function.Arguments)
		}
		m.Calls = append(m.Calls, call)
	}
	switch w.Role {
	case "system":
		return nil
	case events.RoleTool, "function":
		if w.CallID != "" {
			results = append(results, events.MessageResult{CallID: w.CallID, Name: w.Name, Output: text})
		}
		return r.results(results)
	case events.RoleAssistant, "model", "ai":
		m.Role = events.RoleAssistant
	case events.RoleUser, "human":
		m.Role = events.RoleUser
	default:
		return fmt.Errorf("the role %.40q is unknown: want user, assistant, tool or system", w.Role)
	}
	r.close()
	m.Content = text
	if strings.TrimSpace(text) == "" && len(m.Calls) == 0 {
		return nil
	}
	return r.add(m)
}

// content is the text of a message; the calls and results among its parts go into their places.
func content(w written, m *events.Message, results *[]events.MessageResult) (string, error) {
	var text string
	if len(w.Content) == 0 || string(w.Content) == "null" || json.Unmarshal(w.Content, &text) == nil {
		return text, nil
	}
	var parts []writtenPart
	if err := json.Unmarshal(w.Content, &parts); err != nil {
		return "", errors.New("content is neither a text nor a list of parts")
	}
	var texts []string
	for i, p := range parts {
		switch {
		case p.Request != nil:
			m.Calls = append(m.Calls, events.MessageCall{ID: orRef(p.Request.Ref, p.Request.Name), Name: p.Request.Name,
				Input: p.Request.Input})
		case p.Response != nil:
			out := string(p.Response.Output)
			_ = json.Unmarshal(p.Response.Output, &out) // what is no text stays JSON
			*results = append(*results, events.MessageResult{CallID: orRef(p.Response.Ref, p.Response.Name),
				Name: p.Response.Name, Output: out})
		case p.Text != "":
			texts = append(texts, p.Text)
		default:
			return "", fmt.Errorf("part %d is neither text nor toolRequest nor toolResponse", i+1)
		}
	}
	return strings.Join(texts, "\n"), nil
}

// orRef names a call that has no reference by its tool: then there is one of it.
func orRef(ref, name string) string {
	if ref == "" {
		return name
	}
	return ref
}

func (r *reader) add(m events.Message) error {
	for i := range m.Calls {
		if len(m.Calls[i].Input) == 0 {
			m.Calls[i].Input = json.RawMessage("{}")
		}
	}
	if n := len(r.all); n > 0 && r.all[n-1].Role == m.Role {
		last := &r.all[n-1]
		last.Content = strings.TrimSpace(last.Content + "\n\n" + m.Content)
		last.Calls = append(last.Calls, m.Calls...)
		r.open = last.Calls
		return nil
	}
	r.all, r.open, r.got = append(r.all, m), m.Calls, map[string]events.MessageResult{}
	return nil
}

func (r *reader) results(results []events.MessageResult) error {
	for _, res := range results {
		known := false
		for _, c := range r.open {
			known = known || c.ID == res.CallID
		}
		if _, twice := r.got[res.CallID]; !known || twice {
			return fmt.Errorf("it has a result of %.40q, which is no open call of the message before", res.CallID)
		}
		r.got[res.CallID] = res
	}
	return nil
}

// close answers the open calls.
func (r *reader) close() {
	if len(r.open) == 0 {
		return
	}
	m := events.Message{Role: events.RoleTool, At: r.all[len(r.all)-1].At}
	for _, c := range r.open {
		res, ok := r.got[c.ID]
		if !ok {
			res.Output, res.Failed = "(the file has no result of this call)", true
		}
		res.CallID, res.Name = c.ID, c.Name
		m.Results = append(m.Results, res)
	}
	r.all, r.open, r.got = append(r.all, m), nil, nil
}

// stamp reads a time; what is none is left out.
func stamp(raw json.RawMessage) (at time.Time) {
	if json.Unmarshal(raw, &at) != nil {
		return time.Time{}
	}
	return at
}
