package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/inspan/inspan/internal/llm"
)

// Texts of what Settle adds.
const (
	// goOn stands where the providers want a user to speak and no one did.
	goOn = "Go on."
	// interrupted is the result of a call that has none.
	interrupted = "interrupted: the call has no result"
)

// Limits of a call's id and name that all providers accept: those of OpenAI's Chat Completions, the narrowest.
const (
	maxIDChars   = 40
	maxNameChars = 64
)

// Own reads the provider's own form of an assistant message: content is what can be sent back of it, nil where nothing
// can, and calls are those in it that want a result. It fails where raw is not the provider's.
type Own func(raw json.RawMessage) (content json.RawMessage, calls []llm.Call, err error)

// Settle turns a history into one that every provider takes: it begins and ends with the user or results, an assistant
// never follows an assistant, nothing is empty, and each call has one result directly after it, in the order of the
// calls. A call without a result is given one, a result without a call is left out, and so is what another provider
// thought. The calls of other providers get ids and names that fit everywhere, and objects as arguments.
//
// In the messages that come back, Raw is set in those of provider alone and is what own made of it.
func Settle(from []llm.Message, provider string, own Own) ([]llm.Message, error) {
	s := settler{provider: provider, own: own, ids: map[string]bool{}}
	for _, m := range from {
		for _, c := range m.Calls {
			if m.Provider == provider {
				s.ids[c.ID] = true
			}
		}
	}
	for i, m := range from {
		var err error
		switch m.Role {
		case llm.User:
			s.user(m)
		case llm.Assistant:
			err = s.assistant(m, resultsAfter(from[i+1:]))
		case llm.ToolResults: // taken with their calls
		default:
			err = fmt.Errorf("unknown role %q", m.Role)
		}
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
	}
	if len(s.out) == 0 || s.last() == llm.Assistant {
		s.user(llm.Message{Text: goOn})
	}
	return s.out, nil
}

type settler struct {
	provider string
	own      Own
	out      []llm.Message
	ids      map[string]bool
}

func (s *settler) last() llm.Role {
	if len(s.out) == 0 {
		return ""
	}
	return s.out[len(s.out)-1].Role
}

func (s *settler) user(m llm.Message) {
	if strings.TrimSpace(m.Text) == "" {
		m.Text = ""
	}
	if m.Text == "" && len(m.Images) == 0 {
		return
	}
	if s.last() != llm.User {
		s.out = append(s.out, llm.Message{Role: llm.User, Text: m.Text, Images: m.Images})
		return
	}
	before := &s.out[len(s.out)-1]
	before.Images = append(before.Images[:len(before.Images):len(before.Images)], m.Images...)
	if before.Text != "" && m.Text != "" {
		before.Text += "\n\n"
	}
	before.Text += m.Text
}

func (s *settler) assistant(m llm.Message, results []llm.Result) error {
	next := llm.Message{Role: llm.Assistant, Provider: m.Provider}
	calls := m.Calls
	if m.Provider == s.provider && len(m.Raw) > 0 {
		var err error
		if next.Raw, calls, err = s.own(m.Raw); err != nil {
			return err
		}
		if next.Raw == nil {
			return nil
		}
		next.Calls = calls
	} else {
		if strings.TrimSpace(m.Text) != "" {
			next.Text = m.Text
		}
		for _, c := range m.Calls {
			next.Calls = append(next.Calls, llm.Call{ID: s.fitID(c.ID), Name: FitName(c.Name), Input: AsObject(c.Input)})
		}
		if next.Text == "" && len(next.Calls) == 0 {
			return nil
		}
	}
	if s.last() != llm.User && s.last() != llm.ToolResults {
		s.user(llm.Message{Text: goOn})
	}
	s.out = append(s.out, next)
	if len(calls) > 0 {
		s.out = append(s.out, llm.Message{Role: llm.ToolResults, Results: answers(calls, next.Calls, results)})
	}
	return nil
}

// resultsAfter are the results up to the next assistant message.
func resultsAfter(rest []llm.Message) []llm.Result {
	var out []llm.Result
	for _, m := range rest {
		if m.Role == llm.Assistant {
			break
		}
		out = append(out, m.Results...)
	}
	return out
}

// answers gives each call its result. Calls are as the history has them, sent as the request has them.
func answers(calls, sent []llm.Call, results []llm.Result) []llm.Result {
	taken := make([]bool, len(results))
	out := make([]llm.Result, len(calls))
	for i, c := range calls {
		out[i] = llm.Result{CallID: sent[i].ID, Name: sent[i].Name, Output: interrupted, Failed: true}
		for j, r := range results {
			if !taken[j] && r.CallID == c.ID {
				taken[j] = true
				out[i].Output, out[i].Failed, out[i].Images = r.Output, r.Failed, r.Images
				break
			}
		}
	}
	return out
}

// fitID makes a call's id of another provider one that no other call of the request has.
func (s *settler) fitID(id string) string {
	if id == "" {
		id = "call"
	}
	out := fit(id, maxIDChars)
	for n := 2; s.ids[out]; n++ {
		tail := "_" + strconv.Itoa(n)
		out = fit(id, maxIDChars-len(tail)) + tail
	}
	s.ids[out] = true
	return out
}

// FitName makes a tool's name, which a model may have made up, one that every provider takes.
func FitName(name string) string {
	if name == "" {
		return "unknown"
	}
	return fit(name, maxNameChars)
}

// fit replaces what is no ASCII letter, digit, _ or -, and cuts at limit characters.
func fit(s string, limit int) string {
	s = strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
			return c
		}
		return '_'
	}, s)
	return s[:min(len(s), limit)]
}

// AsJSON is text where it is JSON, else text as a JSON string.
func AsJSON(text []byte) json.RawMessage {
	if json.Valid(text) {
		return bytes.Clone(text)
	}
	s, err := Marshal(string(text))
	if err != nil {
		return json.RawMessage(`""`)
	}
	return s
}

// AsObject is input where it is an object, else an object around it: the form that Anthropic's documentation of
// fine-grained tool streaming has for arguments that are none.
func AsObject(input json.RawMessage) json.RawMessage {
	trimmed := bytes.TrimSpace(input)
	if len(trimmed) == 0 || bytes.Equal(trimmed, []byte("null")) {
		return json.RawMessage("{}")
	}
	if trimmed[0] == '{' && json.Valid(trimmed) {
		return input
	}
	wrapped, err := Marshal(map[string]json.RawMessage{"INVALID_JSON": AsJSON(trimmed)})
	if err != nil {
		return json.RawMessage("{}")
	}
	return wrapped
}
